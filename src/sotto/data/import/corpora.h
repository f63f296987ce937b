// Public corpora of speech and of text: description, licence, and how to download them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

struct Corpus {
  std::string name;
  std::string what;
  // Examples: "960 h", "100 million words"
  std::string amount;
  // Approximate download size.
  std::string size;
  std::string licence;
  // URL of its description.
  std::string page;
  // Files that can be downloaded directly; empty if the page has to be visited.
  std::vector<std::string> files;
  // Instructions if there are no such files.
  std::string steps;
  // Command that imports it: "sotto data import --form librispeech"
  std::string import;
};

// Returns all known corpora, speech first.
const std::vector<Corpus>& public_corpora();

// Looks up a corpus by name; std::nullopt if there is none.
std::optional<Corpus> find_corpus(std::string_view name);

}  // namespace sotto::data
