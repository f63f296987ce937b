// Encoding and decoding with a vocabulary.
#include <algorithm>
#include <array>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/full_case.h"
#include "sotto/data/text/vocabulary.h"

namespace sotto::data {

namespace {

void strip_left(std::u32string& text) {
  text.erase(0, std::min(text.find_first_not_of(U' '), text.size()));
}
void strip_right(std::u32string& text) {
  text.erase(text.find_last_not_of(U' ') + 1);
}

// Equivalent to transformers' clean_up_tokenization().
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kReplacements = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kReplacements) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
}

}  // namespace

bool Vocabulary::has_all(std::span<const char32_t> characters) const {
  const auto is_among = [&](char32_t code) {
    return std::ranges::find(characters, code) != characters.end();
  };
  const bool has_token = std::ranges::any_of(tokens_, [&](const auto& one) {
    const bool is_whole = one.first.size() > 1 || one.second.strips_left ||
                          one.second.strips_right || one.second.is_single_word;
    return is_whole && std::ranges::all_of(one.first, is_among);
  });
  return !has_token && std::ranges::all_of(characters, [&](char32_t character) {
    Encoded encoded;
    encode_character(character, encoded);
    return encoded.labels.size() == 1 && encoded.unknown.empty();
  });
}

Vocabulary::Encoded Vocabulary::encode(std::string_view text) const {
  if (!is_utf8(text)) {
    throw DataError({.attempted = "reading a transcript",
                     .found = "bytes that are not UTF-8",
                     .expected = "text in UTF-8"});
  }
  Encoded encoded;
  if (tokens_.empty()) {
    for_each_code_point(text, [&](char32_t code) { encode_character(code, encoded); });
    return encoded;
  }
  for (const std::u32string& piece : pieces_of(text)) {
    const auto token = tokens_.find(piece);
    if (token != tokens_.end()) {
      encode_token(token->second, piece, encoded);
    } else {
      for (const char32_t code : piece) encode_character(code, encoded);
    }
  }
  return encoded;
}

std::vector<std::u32string> Vocabulary::pieces_of(std::string_view text) const {
  std::vector<std::u32string> pieces = trie_.split(code_points_of(text));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto found = tokens_.find(pieces[i]);
    if (found == tokens_.end()) continue;
    std::u32string* const left = i > 0 && !pieces[i - 1].empty() ? &pieces[i - 1] : nullptr;
    std::u32string* const right =
        i + 1 < pieces.size() && !pieces[i + 1].empty() ? &pieces[i + 1] : nullptr;
    const std::u32string before = left != nullptr ? *left : U"";
    const std::u32string after = right != nullptr ? *right : U"";
    if (found->second.strips_right && right != nullptr) strip_left(*right);
    if (found->second.strips_left && left != nullptr) strip_right(*left);
    if (!found->second.is_single_word) continue;
    if (!before.empty() && before.back() != U' ') {
      *left += pieces[i];
      pieces[i].clear();
    } else if (!after.empty() && after.front() != U' ') {
      *right = pieces[i] + *right;
      pieces[i].clear();
    }
  }
  std::erase(pieces, std::u32string());
  return pieces;
}

void Vocabulary::encode_token(const Token& token, std::u32string_view piece,
                              Encoded& encoded) const {
  if (token.number < size() && token.number != blank_) {
    encoded.labels.push_back(static_cast<int32_t>(token.number));
  } else {
    note_unknown(to_utf8(piece), encoded);
  }
}

void Vocabulary::encode_character(char32_t code, Encoded& encoded) const {
  const bool in_upper_case = settings_ && settings_->lower_case;
  for (const char32_t one : in_upper_case ? full_upper(code) : std::u32string(1, code)) {
    const auto found = labels_.find(to_utf8({&one, 1}));
    if (found != labels_.end() && found->second != blank_) {
      encoded.labels.push_back(found->second);
    } else {
      note_unknown(to_utf8({&code, 1}), encoded);
    }
  }
}

void Vocabulary::note_unknown(std::string_view what, Encoded& encoded) const {
  if (unknown_) encoded.labels.push_back(*unknown_);
  if (std::ranges::find(encoded.unknown, what) == encoded.unknown.end())
    encoded.unknown.emplace_back(what);
}

std::string Vocabulary::decode(std::span<const int32_t> labels) const {
  std::string text;
  for (const int32_t label : labels) {
    SOTTO_ASSERT(label >= 0 && label < size(), "label {} of {}", label, size());
    text += texts_[static_cast<size_t>(label)];
  }
  return finish_text(std::move(text));
}

std::string Vocabulary::finish_text(std::string text) const {
  if (settings_ && settings_->lower_case) text = full_lower(text);
  if (settings_ && settings_->cleans_up) clean_up(text);
  return text;
}

std::string Vocabulary::decoded_form(std::string_view text) const {
  if (!settings_) return std::string(text);
  std::string spelled;
  for_each_code_point(text, [&](char32_t code) {
    if (code == U' ') {
      spelled += settings_->space;
    } else {
      // Goes through the upper case that labels have: a sharp s then becomes two letters.
      spelled += to_utf8(settings_->lower_case ? full_upper(code) : std::u32string(1, code));
    }
  });
  return finish_text(std::move(spelled));
}

}  // namespace sotto::data
