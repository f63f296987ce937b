#include "sotto/models/tokenizer_config.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "sotto/core/atomic_folder.h"
#include "sotto/data/vocabulary.h"

namespace sotto::models {

void write_tokenizer_config(const std::filesystem::path& folder) {
  const data::Vocabulary vocabulary = data::Vocabulary::read(folder / "vocab.json");
  const auto entry = [&](int32_t number) {
    return vocabulary.entries()[static_cast<size_t>(number)];
  };
  const auto where_there = [&](const char* name) -> nlohmann::ordered_json {
    if (vocabulary.find(name)) return name;
    return nullptr;
  };
  const nlohmann::ordered_json config = {
      {"tokenizer_class", "Wav2Vec2CTCTokenizer"},
      {"pad_token", entry(vocabulary.blank())},
      // Of entries that are not in the vocabulary transformers would make new ones, which the
      // network does not have.
      {"unk_token", entry(vocabulary.unknown().value_or(vocabulary.blank()))},
      {"bos_token", where_there("<s>")},
      {"eos_token", where_there("</s>")},
      {"word_delimiter_token", "|"},
      {"replace_word_delimiter_char", " "},
      {"do_lower_case", false}};
  const std::string text = config.dump(2) + "\n";
  write_text_synced(folder / "tokenizer_config.json", text);
}

}  // namespace sotto::models
