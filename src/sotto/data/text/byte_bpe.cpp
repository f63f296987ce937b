#include "sotto/data/text/byte_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/hash.h"
#include "sotto/core/utf8.h"
#include "sotto/core/utf8_repair.h"
#include "sotto/data/text/unicode.h"

namespace sotto::data {

namespace {

enum class WordKind { kSpace, kLetters, kNumbers, kOthers };

WordKind word_kind_of(char32_t code) {
  if (is_white_space(code)) return WordKind::kSpace;
  if (code < 0x80) {
    if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return WordKind::kLetters;
    return code >= '0' && code <= '9' ? WordKind::kNumbers : WordKind::kOthers;
  }
  switch (Unicode::kind_of(code)) {
    case CharacterKind::kLetter: return WordKind::kLetters;
    case CharacterKind::kDigit:
    case CharacterKind::kNumber: return WordKind::kNumbers;
    default: return WordKind::kOthers;
  }
}

// Splits a text by the pattern of GPT-2:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
class WordSplitter {
 public:
  explicit WordSplitter(std::string_view text) : text_(text) {}

  // Returns the end of the word that begins at `begin`.
  size_t end_of(size_t begin) const {
    if (const size_t end = contraction_at(begin); end > begin) return end;
    const size_t first = text_[begin] == ' ' ? begin + 1 : begin;
    if (first < text_.size() && kind_at(first) != WordKind::kSpace) return end_of_run(first);
    return end_of_space(begin);
  }

 private:
  WordKind kind_at(size_t at) const { return word_kind_of(code_point_of(character_at(text_, at))); }

  size_t contraction_at(size_t begin) const {
    if (text_[begin] != '\'') return begin;
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text_.substr(begin).starts_with(ending)) return begin + ending.size();
    }
    return begin;
  }

  size_t end_of_run(size_t begin) const {
    const WordKind kind = kind_at(begin);
    size_t end = begin;
    while (end < text_.size() && kind_at(end) == kind) end += character_at(text_, end).size();
    return end;
  }

  // The last white space before a word is left to it.
  size_t end_of_space(size_t begin) const {
    size_t last = begin;
    size_t end = begin;
    while (end < text_.size() && kind_at(end) == WordKind::kSpace) {
      last = end;
      end += character_at(text_, end).size();
    }
    return end == text_.size() || last == begin ? end : last;
  }

  std::string_view text_;
};

uint64_t pair_key(int32_t first, int32_t second) {
  return static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32U | static_cast<uint32_t>(second);
}

constexpr size_t kNone = static_cast<size_t>(-1);

// An entry of a word that is being merged. One that was merged into its neighbour has none.
struct Symbol {
  int32_t entry;
  size_t previous;
  size_t next;
};

// A pair that may be merged: the one with the lowest rank first, the first of those.
struct Candidate {
  size_t rank;
  size_t at;
  int32_t result;

  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

constexpr int32_t kMerged = -1;

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  const WordSplitter splitter(text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = splitter.end_of(begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

ByteBpe::ByteBpe(ByteBpeFiles files) : files_(std::move(files)) {
  if (!Unicode::is_available()) {
    throw ConfigError({.attempted = "reading a byte-level BPE tokenizer",
                       .found = "a build without utf8proc, which knows letters and numbers",
                       .expected = "a build with utf8proc",
                       .hint = "Install libutf8proc-dev and build again."});
  }
  for (size_t n = 0; n < files_.entries.size(); ++n) {
    const std::string& entry = files_.entries[n];
    if (!entry.empty()) numbers_.emplace(entry, static_cast<int32_t>(n));
    pieces_.push_back(files_.is_special[n] ? std::string() : bytes_of_entry(entry));
  }
  for (size_t byte = 0; byte < bytes_.size(); ++byte) {
    std::string letter;
    append_utf8(letter, letter_of_byte(static_cast<unsigned char>(byte)));
    bytes_[byte] = find(letter).value_or(-1);
    has_all_bytes_ &= bytes_[byte] >= 0;
  }
  merges_.reserve(files_.merges.size());
  for (size_t rank = 0; rank < files_.merges.size(); ++rank) {
    const BpeMerge& merge = files_.merges[rank];
    merges_.insert_or_assign(pair_key(merge.first, merge.second),
                             Merge{.rank = rank, .result = merge.result});
  }
}

ByteBpe ByteBpe::read(const std::filesystem::path& path) {
  return ByteBpe(read_byte_bpe(path));
}

void ByteBpe::write(const std::filesystem::path& folder) const {
  for (const auto& [name, text] : files_.contents)
    write_file(folder / name, std::as_bytes(std::span(text)));
}

const std::string* ByteBpe::content(const std::string& name) const {
  const auto found = files_.contents.find(name);
  return found == files_.contents.end() ? nullptr : &found->second;
}

std::optional<int32_t> ByteBpe::find(std::string_view entry) const {
  const auto found = numbers_.find(entry);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

const std::string& ByteBpe::entry(int32_t number) const {
  return files_.entries[static_cast<size_t>(number)];
}

uint64_t ByteBpe::fingerprint() const {
  uint64_t hash = 0;
  for (size_t n = 0; n < files_.entries.size(); ++n) {
    hash = hash_combine(hash, hash_bytes(files_.entries[n]));
    if (files_.is_special[n]) hash = hash_combine(hash, n);
  }
  for (const BpeMerge& merge : files_.merges)
    hash = hash_combine(hash, pair_key(merge.first, merge.second));
  return hash_combine(hash, files_.adds_space ? 1 : 0);
}

const ByteBpe::Merge* ByteBpe::merge_of(int32_t first, int32_t second) const {
  const auto found = merges_.find(pair_key(first, second));
  return found == merges_.end() ? nullptr : &found->second;
}

void ByteBpe::encode_word(std::string_view word, std::vector<int32_t>& labels) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char byte : word) {
    const int32_t entry = bytes_[static_cast<unsigned char>(byte)];
    if (entry < 0) continue;
    const size_t at = symbols.size();
    symbols.push_back({.entry = entry, .previous = at == 0 ? kNone : at - 1, .next = at + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  std::priority_queue<Candidate> candidates;
  const auto consider = [&](size_t at) {
    if (at == kNone || symbols[at].next == kNone) return;
    const Merge* merge = merge_of(symbols[at].entry, symbols[symbols[at].next].entry);
    if (merge != nullptr) candidates.push({.rank = merge->rank, .at = at, .result = merge->result});
  };
  for (size_t at = 0; at + 1 < symbols.size(); ++at) consider(at);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.at];
    if (left.entry == kMerged || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    // One of them may have been merged with another entry in the meantime.
    const Merge* merge = merge_of(left.entry, right.entry);
    if (merge == nullptr || merge->result != best.result) continue;
    left.entry = best.result;
    left.next = right.next;
    right.entry = kMerged;
    if (left.next != kNone) symbols[left.next].previous = best.at;
    consider(left.previous);
    consider(best.at);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.entry != kMerged) labels.push_back(symbol.entry);
  }
}

void ByteBpe::note_unknown(std::string_view text, std::vector<std::string>& unknown) const {
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    const bool is_known = std::ranges::all_of(
        character, [&](char byte) { return bytes_[static_cast<unsigned char>(byte)] >= 0; });
    if (!is_known && std::ranges::find(unknown, character) == unknown.end())
      unknown.emplace_back(character);
  }
}

std::vector<int32_t> ByteBpe::encode(std::string_view text,
                                     std::vector<std::string>& unknown) const {
  if (!is_utf8(text)) {
    throw DataError({.attempted = "encoding a text",
                     .found = "bytes that are not UTF-8",
                     .expected = "text in UTF-8"});
  }
  std::string with_space;
  if (files_.adds_space && !text.empty() && text.front() != ' ') {
    with_space = " " + std::string(text);
    text = with_space;
  }
  std::vector<int32_t> labels;
  for (const std::string_view word : split_words(text)) encode_word(word, labels);
  if (!has_all_bytes_) note_unknown(text, unknown);
  return labels;
}

std::string ByteBpe::decode(std::span<const int32_t> labels) const {
  std::string bytes;
  for (const int32_t label : labels) bytes += piece(label);
  return repaired_utf8(bytes);
}

}  // namespace sotto::data
