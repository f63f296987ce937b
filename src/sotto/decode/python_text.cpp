#include "sotto/decode/python_text.h"

#include <cctype>

namespace sotto::decode {

using data::CharacterKind;

CharacterKind kind_of(char32_t code) {
  if (code >= 0x80) return data::Unicode::kind_of(code);
  const auto c = static_cast<int>(code);
  if (std::isalpha(c) != 0) return CharacterKind::kLetter;
  if (std::isdigit(c) != 0) return CharacterKind::kDigit;
  return std::ispunct(c) != 0 ? CharacterKind::kPunctuation : CharacterKind::kOther;
}

bool is_python_space(char32_t code) {
  return data::is_white_space(code) || (code >= 0x1C && code <= 0x1F);
}

bool is_python_digit(char32_t code) {
  return kind_of(code) == CharacterKind::kDigit;
}

bool is_python_word(char32_t code) {
  const CharacterKind kind = kind_of(code);
  return code == '_' || kind == CharacterKind::kLetter || kind == CharacterKind::kDigit ||
         kind == CharacterKind::kNumber;
}

bool is_boundary(std::u32string_view text, size_t at) {
  const bool before = at > 0 && is_python_word(text[at - 1]);
  const bool after = at < text.size() && is_python_word(text[at]);
  return before != after;
}

size_t end_of_spaces(std::u32string_view text, size_t at) {
  while (at < text.size() && is_python_space(text[at])) ++at;
  return at;
}

std::vector<std::u32string> split_at_spaces(std::u32string_view text) {
  std::vector<std::u32string> words;
  for (size_t at = end_of_spaces(text, 0); at < text.size(); at = end_of_spaces(text, at)) {
    const size_t begin = at;
    while (at < text.size() && !is_python_space(text[at])) ++at;
    words.emplace_back(text.substr(begin, at - begin));
  }
  return words;
}

std::u32string join_with_spaces(const std::vector<std::u32string>& words) {
  std::u32string text;
  for (const std::u32string& word : words) {
    if (&word != &words.front()) text += U' ';
    text += word;
  }
  return text;
}

std::u32string replace_words(std::u32string_view text, const WordRule& rule) {
  std::u32string made;
  size_t done = 0;
  for (size_t at = text.find(rule.text); at != std::u32string_view::npos;) {
    const size_t end = at + rule.text.size();
    const bool matches = is_boundary(text, end) && (!rule.is_whole || is_boundary(text, at));
    if (matches) {
      made += text.substr(done, at - done);
      made += rule.replacement;
      done = end;
    }
    at = text.find(rule.text, matches ? end : at + 1);
  }
  made += text.substr(done);
  return made;
}

}  // namespace sotto::decode
