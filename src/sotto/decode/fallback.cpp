#include "sotto/decode/fallback.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

// Sets what of a result follows from its hypothesis; returns whether it is accepted.
bool judge(const FallbackOptions& options, const FallbackInput& input, FallbackResult& result) {
  const TokenHypothesis& found = result.hypothesis;
  result.compression = compression_of(input.text_of(found.tokens));
  const bool is_improbable = found.mean_log_probability < options.min_log_probability;
  result.is_silent = is_improbable && found.measured_probability > options.no_speech;
  return result.is_silent || (!is_improbable && result.compression <= options.max_compression);
}

}  // namespace

double compression_of(std::string_view text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::vector<Bytef> compressed(size);
  const int status = compress(compressed.data(), &size, reinterpret_cast<const Bytef*>(text.data()),
                              static_cast<uLong>(text.size()));
  SOTTO_ASSERT(status == Z_OK, "zlib returned {}", status);
  return static_cast<double>(text.size()) / static_cast<double>(size);
}

std::vector<FallbackResult> find_with_fallback(models::Scorer& scorer, TokenSearchOptions search,
                                               const FallbackOptions& options,
                                               const FallbackInput& input) {
  const auto num_utterances = static_cast<size_t>(scorer.size());
  SOTTO_ASSERT(input.utterances.size() == num_utterances, "keys of {} utterances",
               input.utterances.size());
  std::vector<FallbackResult> results(num_utterances);
  search.is_searched.assign(num_utterances, true);
  TokenSampling sampling{.utterances = input.utterances};
  for (size_t attempt = 0; attempt < options.temperatures.size(); ++attempt) {
    const double temperature = options.temperatures[attempt];
    if (temperature > 0.0) {
      sampling.temperature = temperature;
      sampling.key = {.seed = input.seed, .purpose = Purpose::kSampling, .step = attempt};
      search.width = 1;
      search.sampling = &sampling;
    }
    std::vector<TokenHypothesis> found = find_tokens(scorer, search);
    for (size_t u = 0; u < num_utterances; ++u) {
      if (!search.is_searched[u]) continue;
      results[u] = {.hypothesis = std::move(found[u]), .temperature = temperature};
      search.is_searched[u] = !judge(options, input, results[u]);
    }
    if (std::ranges::find(search.is_searched, true) == search.is_searched.end()) break;
  }
  return results;
}

}  // namespace sotto::decode
