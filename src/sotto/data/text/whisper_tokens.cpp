#include "sotto/data/text/whisper_tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"

namespace sotto::data {

namespace {

struct Language {
  std::string_view name;
  std::string_view code;
};

// In the order of their tokens; the last one came with large-v3. Then other names.
constexpr std::array kLanguages = std::to_array<Language>({
    {"english", "en"},        {"chinese", "zh"},     {"german", "de"},        {"spanish", "es"},
    {"russian", "ru"},        {"korean", "ko"},      {"french", "fr"},        {"japanese", "ja"},
    {"portuguese", "pt"},     {"turkish", "tr"},     {"polish", "pl"},        {"catalan", "ca"},
    {"dutch", "nl"},          {"arabic", "ar"},      {"swedish", "sv"},       {"italian", "it"},
    {"indonesian", "id"},     {"hindi", "hi"},       {"finnish", "fi"},       {"vietnamese", "vi"},
    {"hebrew", "he"},         {"ukrainian", "uk"},   {"greek", "el"},         {"malay", "ms"},
    {"czech", "cs"},          {"romanian", "ro"},    {"danish", "da"},        {"hungarian", "hu"},
    {"tamil", "ta"},          {"norwegian", "no"},   {"thai", "th"},          {"urdu", "ur"},
    {"croatian", "hr"},       {"bulgarian", "bg"},   {"lithuanian", "lt"},    {"latin", "la"},
    {"maori", "mi"},          {"malayalam", "ml"},   {"welsh", "cy"},         {"slovak", "sk"},
    {"telugu", "te"},         {"persian", "fa"},     {"latvian", "lv"},       {"bengali", "bn"},
    {"serbian", "sr"},        {"azerbaijani", "az"}, {"slovenian", "sl"},     {"kannada", "kn"},
    {"estonian", "et"},       {"macedonian", "mk"},  {"breton", "br"},        {"basque", "eu"},
    {"icelandic", "is"},      {"armenian", "hy"},    {"nepali", "ne"},        {"mongolian", "mn"},
    {"bosnian", "bs"},        {"kazakh", "kk"},      {"albanian", "sq"},      {"swahili", "sw"},
    {"galician", "gl"},       {"marathi", "mr"},     {"punjabi", "pa"},       {"sinhala", "si"},
    {"khmer", "km"},          {"shona", "sn"},       {"yoruba", "yo"},        {"somali", "so"},
    {"afrikaans", "af"},      {"occitan", "oc"},     {"georgian", "ka"},      {"belarusian", "be"},
    {"tajik", "tg"},          {"sindhi", "sd"},      {"gujarati", "gu"},      {"amharic", "am"},
    {"yiddish", "yi"},        {"lao", "lo"},         {"uzbek", "uz"},         {"faroese", "fo"},
    {"haitian creole", "ht"}, {"pashto", "ps"},      {"turkmen", "tk"},       {"nynorsk", "nn"},
    {"maltese", "mt"},        {"sanskrit", "sa"},    {"luxembourgish", "lb"}, {"myanmar", "my"},
    {"tibetan", "bo"},        {"tagalog", "tl"},     {"malagasy", "mg"},      {"assamese", "as"},
    {"tatar", "tt"},          {"hawaiian", "haw"},   {"lingala", "ln"},       {"hausa", "ha"},
    {"bashkir", "ba"},        {"javanese", "jw"},    {"sundanese", "su"},     {"cantonese", "yue"},
});
constexpr std::array kOtherNames = std::to_array<Language>({
    {"burmese", "my"},
    {"valencian", "ca"},
    {"flemish", "nl"},
    {"haitian", "ht"},
    {"letzeburgesch", "lb"},
    {"pushto", "ps"},
    {"panjabi", "pa"},
    {"moldavian", "ro"},
    {"moldovan", "ro"},
    {"sinhalese", "si"},
    {"castilian", "es"},
    {"mandarin", "zh"},
});
constexpr std::string_view kEnglish = "en";

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return lower;
}

// Returns the code of a language; empty for one that Whisper does not know.
std::string_view code_of(std::string_view name) {
  for (const Language& language : kLanguages) {
    if (name == language.name || name == language.code) return language.code;
  }
  for (const Language& language : kOtherNames) {
    if (name == language.name) return language.code;
  }
  return {};
}

// Returns "maltese (mt), malay (ms)": names that are written alike, and codes with the same first
// letter.
std::string similar_names(const std::string& name,
                          const std::map<std::string, int32_t>& languages) {
  std::vector<std::string> similar;
  std::vector<std::string> names;
  const auto shown = [](const Language& language) {
    return fmt::format("{} ({})", language.name, language.code);
  };
  for (const Language& language : kLanguages) names.emplace_back(language.name);
  const std::optional<std::string> most = nearest(name, names);
  for (const Language& language : kLanguages) {
    if (most == language.name) similar.push_back(shown(language));
  }
  constexpr size_t kMostShown = 6;
  for (const Language& language : kLanguages) {
    const bool is_known = languages.contains(std::string(language.code)) && most != language.name;
    if (similar.size() < kMostShown && is_known && !name.empty() &&
        language.name.front() == name.front())
      similar.push_back(shown(language));
  }
  return similar.empty() ? "english (en)" : fmt::format("{}", fmt::join(similar, ", "));
}

}  // namespace

WhisperTokens::WhisperTokens(const ByteBpe& vocabulary) {
  const auto need = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const std::optional<int32_t> number = vocabulary.find(name);
      if (number && vocabulary.is_special(*number)) return *number;
    }
    throw ConfigError({.attempted = "finding the special tokens of Whisper",
                       .found = fmt::format("a vocabulary of {} entries without {}",
                                            vocabulary.size(), *names.begin()),
                       .expected = "the vocabulary of a Whisper model, with its special tokens",
                       .hint =
                           "Use the tokenizer files of the model's folder, added_tokens.json or "
                           "tokenizer.json included."});
  };
  start_ = need({"<|startoftranscript|>"});
  end_ = need({"<|endoftext|>"});
  no_timestamps_ = need({"<|notimestamps|>"});
  previous_ = need({"<|startofprev|>"});
  no_speech_ = need({"<|nospeech|>", "<|nocaptions|>"});
  first_timestamp_ = vocabulary.find("<|0.00|>").value_or(no_timestamps_ + 1);
  // The files of English alone name languages and tasks as well, which its networks never saw. It
  // has GPT-2's vocabulary, which ends with this number.
  constexpr int32_t kEndOfGpt2 = 50'256;
  if (end_ == kEndOfGpt2) return;
  for (const Language& language : kLanguages) {
    if (const auto number = vocabulary.find(fmt::format("<|{}|>", language.code)))
      languages_.emplace(language.code, *number);
  }
  if (!is_multilingual()) return;
  transcribe_ = need({"<|transcribe|>"});
  translate_ = need({"<|translate|>"});
}

int32_t WhisperTokens::task(WhisperTask task) const {
  const std::optional<int32_t> number = task == WhisperTask::kTranscribe ? transcribe_ : translate_;
  if (number) return *number;
  throw ConfigError(
      {.attempted = "choosing the task of Whisper",
       .found = fmt::format("{} for a model of English alone", name_of(task, kWhisperTasks)),
       .expected = "a multilingual model",
       .hint = "Models whose names end in .en transcribe English and nothing else."});
}

int32_t WhisperTokens::language(std::string_view name) const {
  const std::string lower = in_lower_case(name);
  const std::string code(code_of(lower));
  if (const auto found = languages_.find(code); found != languages_.end()) return found->second;
  if (!is_multilingual()) {
    throw ConfigError({.attempted = "choosing the language of Whisper",
                       .found = fmt::format("'{}' for a model of English alone", name),
                       .expected = "english, or a multilingual model",
                       .hint = "Models whose names end in .en know no other language."});
  }
  throw ConfigError(
      {.attempted = "choosing the language of Whisper",
       .found = name.empty() ? "no language" : fmt::format("'{}', which it does not know", name),
       .expected = fmt::format("one of its {} languages, such as {}", languages_.size(),
                               similar_names(lower, languages_)),
       .hint = "A language that Whisper does not know is trained under the token of a related one, "
               "for example data.language: ms (Malay) for Iban."});
}

int32_t WhisperTokens::timestamp(double seconds) const {
  if (!(seconds >= 0.0 && seconds <= kLastTimestamp)) {
    throw DataError({.attempted = "writing a timestamp of Whisper",
                     .found = fmt::format("{} s", seconds),
                     .expected = fmt::format("0 to {} s", kLastTimestamp),
                     .hint = "Cut recordings into parts of at most 30 s."});
  }
  return first_timestamp_ + static_cast<int32_t>(std::lround(seconds / kTimestampStep));
}

std::optional<double> WhisperTokens::seconds_of(int32_t label) const {
  const int32_t index = label - first_timestamp_;
  if (index < 0 || index >= kNumTimestamps) return std::nullopt;
  return kTimestampStep * index;
}

std::vector<int32_t> WhisperTokens::prompt(const WhisperPrompt& prompt) const {
  std::vector<int32_t> tokens;
  const bool is_english_alone = !is_multilingual();
  if (!is_english_alone) {
    tokens = {language(prompt.language), task(prompt.task)};
  } else {
    if (!prompt.language.empty() && code_of(in_lower_case(prompt.language)) != kEnglish)
      language(prompt.language);
    if (prompt.task != WhisperTask::kTranscribe) task(prompt.task);
  }
  if (!prompt.has_timestamps) tokens.push_back(no_timestamps_);
  return tokens;
}

std::vector<int32_t> WhisperTokens::targets(const WhisperPrompt& prompt,
                                            std::span<const int32_t> text) const {
  std::vector<int32_t> tokens = this->prompt(prompt);
  tokens.insert(tokens.end(), text.begin(), text.end());
  tokens.push_back(end_);
  return tokens;
}

std::vector<int32_t> WhisperTokens::decoder_input(std::span<const int32_t> targets) const {
  SOTTO_ASSERT(!targets.empty(), "no targets");
  std::vector<int32_t> tokens = {start_};
  tokens.insert(tokens.end(), targets.begin(), targets.end() - 1);
  return tokens;
}

}  // namespace sotto::data
