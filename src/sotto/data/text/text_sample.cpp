#include "sotto/data/text/text_sample.h"

#include <optional>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/data/text/text_corpus.h"

namespace sotto::data {

namespace fs = std::filesystem;

void visit_texts(const std::vector<fs::path>& inputs, const TextRules& rules,
                 const std::function<void(std::string)>& take,
                 const std::function<void(int64_t)>& progress) {
  int64_t bytes_before = 0;
  for (const fs::path& input : inputs) {
    DocumentReader reader(input, Documents::kLine);
    while (const std::optional<DocumentReader::Document> document = reader.next()) {
      std::string text = rules.apply(document->text);
      if (!text.empty()) take(std::move(text));
      if (progress) progress(bytes_before + reader.bytes_read());
    }
    bytes_before += reader.bytes_read();
  }
}

TextSample sample_texts(const std::vector<fs::path>& inputs, const TextRules& rules,
                        const TextSampleOptions& options,
                        const std::function<void(int64_t)>& progress) {
  const RandomStream stream(
      {.seed = static_cast<uint64_t>(options.seed), .purpose = Purpose::kShuffle});
  TextSample sample;
  const auto take = [&](std::string text) {
    const auto number = static_cast<uint64_t>(sample.num_texts++);
    sample.num_bytes += std::ssize(text);
    if (std::ssize(sample.texts) < options.max_texts) {
      sample.texts.push_back(std::move(text));
      return;
    }
    // Reservoir sampling: of n + 1 texts each is kept with the same probability; the n-th replaces
    // another one, or none (algorithm R, Vitter 1985).
    const uint64_t draw = uint64_t{stream.bits(2 * number)} << 32U | stream.bits(2 * number + 1);
    const uint64_t index = draw % (number + 1);
    if (index < sample.texts.size()) sample.texts[index] = std::move(text);
  };
  visit_texts(inputs, rules, take, progress);
  if (sample.num_texts > 0) return sample;
  throw DataError({.attempted = "reading texts for a tokenizer",
                   .found = fmt::format("none in {}", inputs.front().string()),
                   .expected = "lines with text"});
}

}  // namespace sotto::data
