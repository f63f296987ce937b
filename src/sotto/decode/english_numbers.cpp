#include "sotto/decode/english_numbers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/decode/english_number_words.h"
#include "sotto/decode/python_text.h"

namespace sotto::decode {

namespace {

using Text = std::u32string;
using View = std::u32string_view;

// Words for digits: zeros, ones and tens.
bool is_decimal_word(const Text* word) {
  return is_number_word(word, NumberWord::kZero) || is_number_word(word, NumberWord::kOnes) ||
         is_number_word(word, NumberWord::kTens);
}

// Returns whether it is a number in digits: \d+(\.\d+)?
bool is_in_digits(View word) {
  const size_t point = word.find(U'.');
  const auto all_digits = [](View part) {
    return !part.empty() && std::ranges::all_of(part, is_python_digit);
  };
  if (point == View::npos) return all_digits(word);
  return all_digits(word.substr(0, point)) && all_digits(word.substr(point + 1));
}

Text digits_of(int value) {
  const std::string text = std::to_string(value);
  return {text.begin(), text.end()};
}

// --- whole numbers of any size, as their decimal digits

Text without_leading_zeros(View digits) {
  const size_t first = digits.find_first_not_of(U'0');
  return first == View::npos ? U"0" : Text(digits.substr(first));
}

// Adds to the last digits, which are zero: any number of a multiple of its power of ten.
Text with_last_digits(const Text& number, int value) {
  Text last = digits_of(value);
  if (number.size() <= last.size()) return last;
  return number.substr(0, number.size() - last.size()) + last;
}

bool ends_with_zeros(const Text& number, size_t count) {
  return number == U"0" ||
         (number.size() > count && number.substr(number.size() - count) == Text(count, U'0'));
}

Text sum_of_digits(const Text& a, const Text& b) {
  Text sum;
  char32_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) || carry > 0; ++i) {
    const auto digit = [&](const Text& number) {
      return i < number.size() ? number[number.size() - 1 - i] - U'0' : 0;
    };
    const char32_t total = digit(a) + digit(b) + carry;
    sum += static_cast<char32_t>(U'0' + total % 10);
    carry = total / 10;
  }
  std::ranges::reverse(sum);
  return without_leading_zeros(sum);
}

// Multiplies the last three digits, as in "two thousand three" "hundred".
Text times_last_three(const Text& number, int zeros) {
  const size_t kept = number.size() > 3 ? number.size() - 3 : 0;
  const Text before = number.substr(0, kept) + Text(3, U'0');
  const Text product = number.substr(kept) + Text(static_cast<size_t>(zeros), U'0');
  return sum_of_digits(without_leading_zeros(before), without_leading_zeros(product));
}

// Reads digits of any script with at most one point, ".5" and "3." included, and multiplies by a
// power of ten. std::nullopt where it is no number, or the product is not whole.
std::optional<Text> scaled(View text, int zeros) {
  Text whole, fraction;
  bool has_point = false;
  for (const char32_t code : text) {
    if (code == U'.' && !has_point) {
      has_point = true;
    } else if (is_python_digit(code)) {
      const int value =
          is_ascii_digit(code) ? static_cast<int>(code - U'0') : data::Unicode::digit_value(code);
      (has_point ? fraction : whole) += static_cast<char32_t>(U'0' + value);
    } else {
      return std::nullopt;
    }
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  while (fraction.ends_with(U'0')) fraction.pop_back();
  if (std::ssize(fraction) > zeros) return std::nullopt;
  fraction.resize(static_cast<size_t>(zeros), U'0');
  return without_leading_zeros(whole + fraction);
}

// --- the words of a text, one after the other

// What has been read of a number. Text is put together from digits that were read one by one, as in
// "one oh one"; a whole number can be added to and multiplied.
struct Value {
  Text digits;
  bool is_text = false;

  // Digits to which others are appended; those of a zero are dropped, as in Python's `value or ""`.
  Text or_empty() const { return !is_text && digits == U"0" ? Text() : digits; }
};

class NumberReader {
 public:
  explicit NumberReader(const std::vector<Text>& words) : words_(words) {}

  std::vector<Text> read() {
    for (at_ = 0; at_ < words_.size(); ++at_) read_word();
    flush();
    return std::move(made_);
  }

 private:
  const Text& current() const { return words_[at_]; }
  const Text* previous() const { return at_ == 0 ? nullptr : &words_[at_ - 1]; }
  const Text* next() const { return at_ + 1 == words_.size() ? nullptr : &words_[at_ + 1]; }
  bool next_is_in_digits() const { return next() != nullptr && is_in_digits(*next()); }
  bool next_may_be_number() const {
    return next_is_in_digits() || (next() != nullptr && number_meaning(*next()) != nullptr);
  }

  // Writes a result with the sign before it; the number that was read is done.
  void put(const Text& result) {
    made_.push_back(sign_ + result);
    sign_.clear();
    value_.reset();
  }
  void flush() {
    if (value_) put(value_->digits);
  }
  void set(Text digits) { value_ = Value{.digits = std::move(digits)}; }
  void set_text(Text digits) { value_ = Value{.digits = std::move(digits), .is_text = true}; }
  void append(const Text& digits) { set_text((value_ ? value_->or_empty() : Text()) + digits); }

  void read_word() {
    const bool has_sign = View(U"-+£€$¢").find(current().front()) != View::npos;
    const View digits = View(current()).substr(has_sign ? 1 : 0);
    if (is_in_digits(digits)) return read_digits(digits, has_sign);
    const NumberMeaning* meaning = number_meaning(current());
    if (meaning == nullptr) {
      flush();
      return put(current());
    }
    read_number_word(*meaning);
  }

  void read_number_word(const NumberMeaning& meaning) {
    switch (meaning.word) {
      case NumberWord::kZero: return append(U"0");
      case NumberWord::kOnes: return set_part(with_ones(meaning.value));
      case NumberWord::kOnesSuffixed: return put(with_ones(meaning.value).digits + meaning.suffix);
      case NumberWord::kTens: return set_part(with_tens(meaning.value));
      case NumberWord::kTensSuffixed: return put(with_tens(meaning.value).digits + meaning.suffix);
      case NumberWord::kMultiplier: return multiply(meaning.value);
      case NumberWord::kMultiplierSuffixed: return multiply_and_put(meaning);
      case NumberWord::kSignBefore: return read_sign(meaning.suffix);
      case NumberWord::kCurrencyAfter: return read_currency(meaning.suffix);
      case NumberWord::kPercent: return value_ ? put(value_->digits + U"%") : put(current());
      case NumberWord::kPer: return read_per();
      default: return read_special(meaning);
    }
  }

  void read_digits(View digits, bool has_sign) {
    if (value_ && value_->is_text && value_->digits.ends_with(U'.')) {
      value_->digits += current();
      return;
    }
    flush();
    if (has_sign) sign_.assign(1, current().front());
    if (const std::optional<Text> whole = scaled(digits, 0)) return set(*whole);
    set_text(Text(digits));
  }

  void set_part(Value value) { value_ = std::move(value); }

  // Returns the value with a number below twenty after it: added where there is room, else
  // appended.
  Value with_ones(int ones) const {
    if (!value_) return {.digits = digits_of(ones)};
    const Text& digits = value_->digits;
    if (value_->is_text || is_number_word(previous(), NumberWord::kOnes)) {
      // The last zero is replaced by the digit.
      if (is_number_word(previous(), NumberWord::kTens) && ones < 10)
        return {.digits = digits.substr(0, digits.size() - 1) + digits_of(ones), .is_text = true};
    } else if (ends_with_zeros(digits, ones < 10 ? 1 : 2)) {
      return {.digits = with_last_digits(digits, ones)};
    }
    return {.digits = digits + digits_of(ones), .is_text = true};
  }

  Value with_tens(int tens) const {
    if (!value_) return {.digits = digits_of(tens)};
    if (!value_->is_text && ends_with_zeros(value_->digits, 2))
      return {.digits = with_last_digits(value_->digits, tens)};
    return {.digits = value_->digits + digits_of(tens), .is_text = true};
  }

  void multiply(int zeros) {
    const Text power = U"1" + Text(static_cast<size_t>(zeros), U'0');
    if (!value_) return set(power);
    if (!value_->is_text && value_->digits != U"0")
      return set(times_last_three(value_->digits, zeros));
    if (const std::optional<Text> product = scaled(value_->digits, zeros)) return set(*product);
    flush();
    set(power);
  }

  void multiply_and_put(const NumberMeaning& meaning) {
    const Text power = U"1" + Text(static_cast<size_t>(meaning.value), U'0');
    if (!value_) return put(power + meaning.suffix);
    if (!value_->is_text)
      return put(times_last_three(value_->digits, meaning.value) + meaning.suffix);
    if (const std::optional<Text> product = scaled(value_->digits, meaning.value))
      return put(*product + meaning.suffix);
    flush();
    put(power + meaning.suffix);
  }

  void read_sign(const Text& sign) {
    flush();
    if (next_may_be_number()) {
      sign_ = sign;
    } else {
      put(current());
    }
  }

  void read_currency(const Text& sign) {
    if (!value_) return put(current());
    sign_ = sign;
    flush();
  }

  void read_per() {
    if (!value_) return put(current());
    if (next() != nullptr && *next() == U"cent") {
      put(value_->digits + U"%");
      ++at_;
      return;
    }
    flush();
    put(current());
  }

  void read_special(const NumberMeaning& meaning) {
    if (!next_may_be_number()) {
      flush();
      return put(current());
    }
    if (meaning.word == NumberWord::kAnd) {
      // It says nothing after "hundred".
      if (is_number_word(previous(), NumberWord::kMultiplier)) return;
      flush();
      put(current());
    } else if (meaning.word == NumberWord::kRepeat) {
      read_repeat(meaning.value);
    } else if (is_decimal_word(next()) || next_is_in_digits()) {
      append(U".");
    }
  }

  void read_repeat(int times) {
    const bool is_digit =
        is_number_word(next(), NumberWord::kOnes) || is_number_word(next(), NumberWord::kZero);
    if (!is_digit) {
      flush();
      return put(current());
    }
    const Text digits = digits_of(number_meaning(*next())->value);
    Text repeated;
    for (int i = 0; i < times; ++i) repeated += digits;
    append(repeated);
    ++at_;
  }

  const std::vector<Text>& words_;
  size_t at_ = 0;
  std::vector<Text> made_;
  std::optional<Value> value_;
  // The sign before the number that is being read.
  Text sign_;
};

// --- before and after

// Returns the end of "and a half" that begins at `at`; `at` if there is none.
size_t end_of_half(View text, size_t at) {
  if (!is_boundary(text, at) || !text.substr(at).starts_with(U"and")) return at;
  size_t end = end_of_spaces(text, at + 3);
  if (end == at + 3 || end == text.size() || text[end] != U'a') return at;
  const size_t after = end_of_spaces(text, end + 1);
  if (after == end + 1 || !text.substr(after).starts_with(U"half")) return at;
  end = after + 4;
  return is_boundary(text, end) ? end : at;
}

Text with_halves_as_digits(View text) {
  std::vector<Text> parts;
  const auto add = [&](View segment, bool is_last) {
    const std::vector<Text> words = split_at_spaces(segment);
    if (words.empty()) return;
    parts.emplace_back(segment);
    if (is_last) return;
    const Text* last = &words.back();
    const bool is_number = is_decimal_word(last) || is_number_word(last, NumberWord::kMultiplier);
    parts.emplace_back(is_number ? U"point five" : U"and a half");
  };
  size_t begin = 0;
  for (size_t at = text.find(U"and"); at != View::npos;) {
    const size_t end = end_of_half(text, at);
    if (end > at) {
      add(text.substr(begin, at - begin), false);
      begin = end;
    }
    at = text.find(U"and", std::max(end, at + 1));
  }
  add(text.substr(begin), true);
  return join_with_spaces(parts);
}

bool is_lower_letter(char32_t code) {
  return code >= U'a' && code <= U'z';
}

// Separates digits from letters, but not from "st", "nd", "rd", "th" and "s" that end a word.
Text with_suffixes_apart(View text) {
  Text spaced;
  for (const char32_t code : text) {
    const char32_t last = spaced.empty() ? U' ' : spaced.back();
    if ((is_lower_letter(last) && is_ascii_digit(code)) ||
        (is_ascii_digit(last) && is_lower_letter(code)))
      spaced += U' ';
    spaced += code;
  }
  Text made;
  for (size_t at = 0; at < spaced.size(); ++at) {
    const size_t end = end_of_spaces(spaced, at);
    bool is_suffix = false;
    for (const View suffix : {U"st", U"nd", U"rd", U"th", U"s"}) {
      is_suffix |=
          View(spaced).substr(end).starts_with(suffix) && is_boundary(spaced, end + suffix.size());
    }
    if (end > at && at > 0 && is_ascii_digit(spaced[at - 1]) && is_suffix) at = end;
    made += spaced[at];
  }
  return made;
}

// Returns how many digits, one or two, are at `at` and followed by a boundary; 0 if there are none.
size_t num_final_digits(View text, size_t at) {
  size_t count = 0;
  while (count < 2 && at + count < text.size() && is_ascii_digit(text[at + count])) ++count;
  return count > 0 && is_boundary(text, at + count) ? count : 0;
}

bool is_currency(char32_t code) {
  return code == U'€' || code == U'£' || code == U'$';
}

// "$2 and ¢7" is "$2.07".
Text with_cents_added(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (is_currency(text[at]) && end < text.size() && is_ascii_digit(text[end])) ++end;
    size_t cents = end;
    if (end > at + 1 && text.substr(end).starts_with(U' ')) {
      cents = end + 1;
      if (text.substr(cents).starts_with(U"and ")) cents += 4;
    }
    const bool has_sign = cents > end && cents < text.size() && text[cents] == U'¢';
    const size_t count = has_sign ? num_final_digits(text, cents + 1) : 0;
    if (count == 0) {
      made += text[at++];
      continue;
    }
    made += text.substr(at, end - at);
    made += count == 1 ? U".0" : U".";
    made += text.substr(cents + 1, count);
    at = cents + 1 + count;
  }
  return made;
}

// "$0.07" is "¢7".
Text with_cents_alone(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const bool begins = is_currency(text[at]) && at + 2 < text.size() && text[at + 1] == U'0' &&
                        text[at + 2] != U'\n';
    const size_t count = begins ? num_final_digits(text, at + 3) : 0;
    if (count == 0) {
      made += text[at++];
      continue;
    }
    made += U"¢" + without_leading_zeros(text.substr(at + 3, count));
    at += 3 + count;
  }
  return made;
}

}  // namespace

Text numbers_as_digits(const Text& text) {
  const Text prepared = with_suffixes_apart(with_halves_as_digits(text));
  const Text read = join_with_spaces(NumberReader(split_at_spaces(prepared)).read());
  const Text money = with_cents_alone(with_cents_added(read));
  const Text one = replace_words(money, {.text = U"1", .replacement = U"one"});
  return replace_words(one, {.text = U"1s", .replacement = U"ones"});
}

}  // namespace sotto::decode
