#include "sotto/data/text/chars_map.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/formats/protobuf_reader.h"
#include "sotto/data/text/sentence_piece_fields.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse_chars_map(const std::string& source, const std::string& found) {
  throw DataError({.attempted = fmt::format("reading the tokenizer {}", source),
                   .found = fmt::format("a table of characters {}", found),
                   .expected = "a precompiled_charsmap as SentencePiece writes it",
                   .hint = "If it was copied or downloaded, copy or download it again."});
}

uint32_t unit_at(std::string_view bytes, size_t index) {
  uint32_t unit = 0;
  std::memcpy(&unit, bytes.data() + index * sizeof(unit), sizeof(unit));
  return unit;
}

// The units of a double-array trie, as Darts-clone has them.
uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}
uint32_t label_of(uint32_t unit) {
  return unit & ((1u << 31) | 0xFF);
}
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1u) != 0;
}
uint32_t value_of(uint32_t unit) {
  return unit & ~(1u << 31);
}

// The trie, and the texts that its values are positions in.
struct CharsMapParts {
  std::string_view trie;
  std::string_view texts;
};

class TrieWalk {
 public:
  TrieWalk(const CharsMapParts& parts, const std::string& source)
      : parts_(parts), source_(source), size_(parts.trie.size() / sizeof(uint32_t)) {}

  // Visits every unit that a text can lead to.
  void run() {
    std::vector<bool> is_known(size_, false);
    std::vector<uint32_t> bases = {offset_of(unit_at(parts_.trie, 0))};
    check_base(bases.front());
    while (!bases.empty()) {
      const uint32_t base = bases.back();
      bases.pop_back();
      if (is_known[base]) continue;
      is_known[base] = true;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const uint32_t position = base ^ byte;
        const uint32_t unit = unit_at(parts_.trie, position);
        if (label_of(unit) != byte) continue;
        const uint32_t next = position ^ offset_of(unit);
        check_base(next);
        if (has_leaf(unit)) check_value(value_of(unit_at(parts_.trie, next)));
        bases.push_back(next);
      }
    }
  }

 private:
  // Any byte may follow.
  void check_base(uint32_t base) const {
    if ((base | 255u) >= size_) refuse_chars_map(source_, "whose trie leads outside of it");
  }
  void check_value(uint32_t value) const {
    if (value >= parts_.texts.size()) refuse_chars_map(source_, "that names a text outside of it");
  }

  CharsMapParts parts_;
  const std::string& source_;
  size_t size_;
};

}  // namespace

void check_chars_map(std::string_view chars_map, const std::string& source) {
  if (chars_map.empty()) return;
  constexpr size_t kHeader = sizeof(uint32_t);
  if (chars_map.size() < kHeader) refuse_chars_map(source, "that is too short");
  const size_t num_bytes = unit_at(chars_map, 0);
  if (num_bytes == 0 || num_bytes % sizeof(uint32_t) != 0 ||
      num_bytes >= chars_map.size() - kHeader)
    refuse_chars_map(source,
                     fmt::format("of {} bytes with a trie of {}", chars_map.size(), num_bytes));
  const CharsMapParts parts{.trie = chars_map.substr(kHeader, num_bytes),
                            .texts = chars_map.substr(kHeader + num_bytes)};
  if (parts.texts.back() != '\0') refuse_chars_map(source, "whose last text does not end");
  TrieWalk(parts, source).run();
}

void check_chars_map_of_model(std::string_view model, const std::string& source) {
  ProtobufReader fields(model, source);
  while (const std::optional<ProtobufReader::Field> field = fields.next()) {
    if (field->number != kNormalizer && field->number != kDenormalizer) continue;
    ProtobufReader normalizer(field->bytes, source);
    while (const std::optional<ProtobufReader::Field> part = normalizer.next())
      if (part->number == kCharsMap) check_chars_map(part->bytes, source);
  }
}

}  // namespace sotto::data
