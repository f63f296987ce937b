#include "cli/commands/text_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <system_error>

namespace sotto::cli {

namespace {

template <class Enum, size_t N>
void add_choice(CLI::App& command, const std::string& option, Enum& value, const std::string& help,
                const std::array<Named<Enum>, N>& names) {
  std::vector<std::string> words;
  for (const Named<Enum>& entry : names) words.emplace_back(entry.name);
  command
      .add_option_function<std::string>(
          option, [&value, names](const std::string& word) { value = value_of(word, names); }, help)
      ->check(CLI::IsMember(words))
      ->default_str(std::string(name_of(value, names)));
}

}  // namespace

void add_text_rules(CLI::App& command, data::TextRules& rules) {
  add_choice(command, "--unicode", rules.unicode, "Unicode normalisation", data::kUnicodeForms);
  add_choice(command, "--case", rules.letter_case, "Case of letters", data::kLetterCases);
  add_choice(command, "--punctuation", rules.punctuation, "Punctuation and symbols",
             data::kPunctuations);
  command.add_option("--keep-characters", rules.keep_characters,
                     "Characters that are kept when punctuation is removed, such as \"'-\"");
}

int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t bytes = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace sotto::cli
