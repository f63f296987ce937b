// The words of which numbers consist in English, as Whisper's normaliser knows them: "nineteen",
// "twentieth", "millions", "percent", "double".
#pragma once

#include <string>
#include <string_view>

namespace sotto::decode {

enum class NumberWord {
  kZero,
  kOnes,          // one to nineteen
  kOnesSuffixed,  // ones, first
  kTens,          // twenty to ninety
  kTensSuffixed,  // twenties, twentieth
  kMultiplier,    // hundred to decillion: the value is the number of its zeros
  kMultiplierSuffixed,
  kSignBefore,     // minus
  kCurrencyAfter,  // dollars
  kPercent,        // percent
  kPer,            // per cent
  kAnd,
  kRepeat,  // double, triple: the value is the number of times
  kPoint
};

struct NumberMeaning {
  NumberWord word;
  int value = 0;
  // "st", or a sign.
  std::u32string suffix = {};
};

// Returns what a word means in a number; null for other words.
const NumberMeaning* number_meaning(std::u32string_view word);

// Returns whether a word means that; false for null, which is no word.
bool is_number_word(const std::u32string* word, NumberWord kind);

}  // namespace sotto::decode
