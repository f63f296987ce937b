// Public corpora of speech and of text: what they are, under which licence, and how to get them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

struct Corpus {
  std::string name;
  std::string what;
  // "960 h", "100 million words"
  std::string amount;
  // Of the files to load, about.
  std::string size;
  std::string licence;
  // Where it is described.
  std::string page;
  // Files that can be loaded without asking; empty where the page has to be visited.
  std::vector<std::string> files;
  // What to do where there are none.
  std::string steps;
  // What reads it: "sotto data import --form librispeech"
  std::string import;
};

// All that we know of, speech first.
const std::vector<Corpus>& public_corpora();

// By its name; none where there is no such.
std::optional<Corpus> find_corpus(std::string_view name);

}  // namespace sotto::data
