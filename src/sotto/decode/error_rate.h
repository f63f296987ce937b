// Word and character error rates, counted as in jiwer: the minimum number of insertions, deletions
// and substitutions that turn the reference into the hypothesis. Ties between alignments are
// resolved deterministically, as in jiwer.
//
//   ErrorCounts total;
//   for (const auto& [reference, hypothesis] : pairs) total += word_errors(reference, hypothesis);
//   total.rate();  // of the corpus: all errors over all reference words
#pragma once

#include <cstdint>
#include <string_view>

namespace sotto::decode {

struct ErrorCounts {
  int64_t insertions = 0;
  int64_t deletions = 0;
  int64_t substitutions = 0;
  // Words or characters of the reference.
  int64_t reference_length = 0;

  int64_t errors() const { return insertions + deletions + substitutions; }

  // Errors divided by the length of the reference: above 1 where much was inserted. For an empty
  // reference the number of insertions, as in jiwer: 0 where the hypothesis is empty too.
  double rate() const;

  ErrorCounts& operator+=(const ErrorCounts& other);
  friend bool operator==(const ErrorCounts&, const ErrorCounts&) = default;
};

// Words are separated by ASCII white space. Case and punctuation count: normalise before.
ErrorCounts word_errors(std::string_view reference, std::string_view hypothesis);

// Characters are UTF-8 code points, including spaces except for leading and trailing ones. A byte
// that is not valid UTF-8 is a character of its own, equal only to itself.
ErrorCounts character_errors(std::string_view reference, std::string_view hypothesis);

}  // namespace sotto::decode
