#include "sotto/decode/text_normalizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/full_case.h"
#include "sotto/data/text/unicode.h"
#include "sotto/decode/english_numbers.h"
#include "sotto/decode/python_text.h"

namespace sotto::decode {

namespace {

using data::CharacterKind;
using data::UnicodeForm;
using Text = std::u32string;
using View = std::u32string_view;

Text code_points_in_lower_case(std::string_view text) {
  return code_points_of(data::full_lower(text));
}

Text in_form(const Text& text, UnicodeForm form) {
  const std::string bytes = to_utf8(text);
  return is_ascii(bytes) ? text : code_points_of(data::Unicode::normalise(bytes, form));
}

bool is_one_of(char32_t code, View codes) {
  return codes.find(code) != View::npos;
}

// Removes texts in angle and square brackets: [<\[][^>\]]*[>\]]
Text without_brackets(View text) {
  Text made;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = is_one_of(text[at], U"<[") ? text.find_first_of(U">]", at) : View::npos;
    if (end == View::npos) {
      made += text[at];
      // Without an end there is none for later brackets either.
      if (is_one_of(text[at], U"<[")) return made + Text(text.substr(at + 1));
    } else {
      at = end;
    }
  }
  return made;
}

// Removes texts in parentheses, which are not empty: \(([^)]+?)\)
Text without_parentheses(View text) {
  Text made;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = text[at] == U'(' ? text.find(U')', at) : View::npos;
    if (end == View::npos || end == at + 1) {
      made += text[at];
      if (text[at] == U'(' && end == View::npos) return made + Text(text.substr(at + 1));
    } else {
      at = end;
    }
  }
  return made;
}

Text with_single_spaces(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_spaces(text, at);
    made += end > at ? U' ' : text[at];
    at = std::max(end, at + 1);
  }
  return made;
}

bool is_mark_or_symbol(CharacterKind kind) {
  return kind == CharacterKind::kNonspacingMark || kind == CharacterKind::kMark ||
         kind == CharacterKind::kPunctuation || kind == CharacterKind::kSymbol;
}

Text without_symbols(const Text& text) {
  Text made = in_form(text, UnicodeForm::kNfkc);
  for (char32_t& code : made) {
    if (is_mark_or_symbol(kind_of(code))) code = U' ';
  }
  return made;
}

// Letters that Unicode does not decompose.
View plain_form_of(char32_t code) {
  switch (code) {
    case U'œ': return U"oe";
    case U'Œ': return U"OE";
    case U'ø': return U"o";
    case U'Ø': return U"O";
    case U'æ': return U"ae";
    case U'Æ': return U"AE";
    case U'ß': return U"ss";
    case U'ẞ': return U"SS";
    case U'đ': return U"d";
    case U'Đ': return U"D";
    case U'ð': return U"d";
    case U'Ð': return U"D";
    case U'þ':
    case U'Þ': return U"th";
    case U'ł': return U"l";
    case U'Ł': return U"L";
    default: return {};
  }
}

Text without_symbols_and_diacritics(const Text& text, View kept) {
  Text made;
  for (const char32_t code : in_form(text, UnicodeForm::kNfkd)) {
    const View plain = plain_form_of(code);
    if (is_one_of(code, kept)) {
      made += code;
    } else if (!plain.empty()) {
      made += plain;
    } else if (const CharacterKind kind = kind_of(code); kind != CharacterKind::kNonspacingMark) {
      made += is_mark_or_symbol(kind) ? U' ' : code;
    }
  }
  return made;
}

// --- English

constexpr View kHesitations[] = {U"hmm", U"mm", U"mhm", U"mmm", U"uh", U"um"};

constexpr WordRule kContractions[] = {// contractions with a spelling of their own
                                      {U"won't", U"will not"},
                                      {U"can't", U"can not"},
                                      {U"let's", U"let us"},
                                      {U"ain't", U"aint"},
                                      {U"y'all", U"you all"},
                                      {U"wanna", U"want to"},
                                      {U"gotta", U"got to"},
                                      {U"gonna", U"going to"},
                                      {U"i'ma", U"i am going to"},
                                      {U"imma", U"i am going to"},
                                      {U"woulda", U"would have"},
                                      {U"coulda", U"could have"},
                                      {U"shoulda", U"should have"},
                                      {U"ma'am", U"madam"},
                                      // titles
                                      {U"mr", U"mister "},
                                      {U"mrs", U"missus "},
                                      {U"st", U"saint "},
                                      {U"dr", U"doctor "},
                                      {U"prof", U"professor "},
                                      {U"capt", U"captain "},
                                      {U"gov", U"governor "},
                                      {U"ald", U"alderman "},
                                      {U"gen", U"general "},
                                      {U"sen", U"senator "},
                                      {U"rep", U"representative "},
                                      {U"pres", U"president "},
                                      {U"rev", U"reverend "},
                                      {U"hon", U"honorable "},
                                      {U"asst", U"assistant "},
                                      {U"assoc", U"associate "},
                                      {U"lt", U"lieutenant "},
                                      {U"col", U"colonel "},
                                      {U"jr", U"junior "},
                                      {U"sr", U"senior "},
                                      {U"esq", U"esquire "},
                                      // perfect tenses
                                      {U"'d been", U" had been", false},
                                      {U"'s been", U" has been", false},
                                      {U"'d gone", U" had gone", false},
                                      {U"'s gone", U" has gone", false},
                                      {U"'d done", U" had done", false},
                                      {U"'s got", U" has got", false},
                                      // endings
                                      {U"n't", U" not", false},
                                      {U"'re", U" are", false},
                                      {U"'s", U" is", false},
                                      {U"'d", U" would", false},
                                      {U"'ll", U" will", false},
                                      {U"'t", U" not", false},
                                      {U"'ve", U" have", false},
                                      {U"'m", U" am", false}};

// \b(hmm|mm|mhm|mmm|uh|um)\b in one pass. Of two that begin at one place, only one ends a word.
Text without_hesitations(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const auto matches = [&](View word) {
      return text.substr(at).starts_with(word) && is_boundary(text, at) &&
             is_boundary(text, at + word.size());
    };
    const auto* found = std::ranges::find_if(kHesitations, matches);
    if (found == std::end(kHesitations)) {
      made += text[at++];
    } else {
      at += found->size();
    }
  }
  return made;
}

// Removes white space before apostrophes.
Text without_space_before_apostrophes(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_spaces(text, at);
    if (end == at) {
      made += text[at++];
      continue;
    }
    if (end == text.size() || text[end] != U'\'') made += text.substr(at, end - at);
    at = end;
  }
  return made;
}

// (\d),(\d): each digit belongs to one match, so that "1,2,3" is "12,3".
Text without_commas_in_numbers(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const bool matches = at + 2 < text.size() && text[at + 1] == U',' &&
                         is_python_digit(text[at]) && is_python_digit(text[at + 2]);
    made += text[at];
    if (matches) made += text[at + 2];
    at += matches ? 3 : 1;
  }
  return made;
}

// ([SYMBOLS])([^0-9]) as " \2", and at the end of the text, too, if `also_at_end`.
Text with_symbols_apart(View text, View symbols, bool also_at_end) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const bool is_last = at + 1 == text.size();
    const bool matches =
        is_one_of(text[at], symbols) && (is_last ? also_at_end : !is_ascii_digit(text[at + 1]));
    made += matches ? U' ' : text[at];
    if (matches && !is_last) made += text[at + 1];
    at += matches ? 2 : 1;
  }
  return made;
}

// ([^0-9])% as "\1 "
Text without_lonely_percents(View text) {
  Text made;
  for (size_t at = 0; at < text.size();) {
    const bool matches = !is_ascii_digit(text[at]) && at + 1 < text.size() && text[at + 1] == U'%';
    made += text[at];
    if (matches) made += U' ';
    at += matches ? 2 : 1;
  }
  return made;
}

}  // namespace

Spellings parse_spellings(std::string_view text, const std::string& source) {
  const std::filesystem::path path = source;
  const nlohmann::json words = parse_json_object(
      text, {.path = path, .part = "it", .expected = "words and their American spellings"});
  Spellings spellings;
  for (const auto& [british, american] : words.items()) {
    if (!american.is_string()) {
      throw DataError({.attempted = fmt::format("reading the spellings {}", source),
                       .found = fmt::format("\"{}\": {}", british, shown(american)),
                       .expected = "words and their American spellings",
                       .hint = "Use the normalizer.json of a Whisper model."});
    }
    spellings.emplace(code_points_of(british), code_points_of(american.get<std::string>()));
  }
  return spellings;
}

TextNormalizer::TextNormalizer(Options options) : options_(std::move(options)) {}

std::string TextNormalizer::apply(std::string_view text) const {
  switch (options_.kind) {
    case NormalizerKind::kNone: break;
    case NormalizerKind::kBasic: return basic(text);
    case NormalizerKind::kEnglish: return english(text);
  }
  return std::string(text);
}

std::string TextNormalizer::basic(std::string_view text) const {
  Text made = without_parentheses(without_brackets(code_points_in_lower_case(text)));
  made = options_.removes_diacritics ? without_symbols_and_diacritics(made, {})
                                     : without_symbols(made);
  std::string clean = data::full_lower(to_utf8(made));
  if (options_.splits_letters)
    clean = fmt::format("{}", fmt::join(data::Unicode::graphemes(clean), " "));
  return to_utf8(with_single_spaces(code_points_of(clean)));
}

std::string TextNormalizer::english(std::string_view text) const {
  Text made = without_parentheses(without_brackets(code_points_in_lower_case(text)));
  made = without_hesitations(made);
  made = without_space_before_apostrophes(made);
  for (const WordRule& rule : kContractions) made = replace_words(made, rule);
  made = without_commas_in_numbers(made);
  made = with_symbols_apart(made, U".", /*also_at_end=*/true);
  made = without_symbols_and_diacritics(made, U".%$¢€£");
  made = numbers_as_digits(made);
  std::vector<Text> words = split_at_spaces(made);
  for (Text& word : words) {
    if (const auto found = options_.spellings.find(word); found != options_.spellings.end())
      word = found->second;
  }
  made = with_symbols_apart(join_with_spaces(words), U".$¢€£", /*also_at_end=*/false);
  return to_utf8(with_single_spaces(without_lonely_percents(made)));
}

}  // namespace sotto::decode
