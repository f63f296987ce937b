// The options by which a command takes the rules of texts, as data.text has them in a
// configuration.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sotto/data/text/text_rules.h"

namespace CLI {
class App;
}

namespace sotto::cli {

// Adds --unicode, --case, --punctuation and --keep-characters. `rules` must outlive the command;
// they are checked by their validate().
void add_text_rules(CLI::App& command, data::TextRules& rules);

// Bytes of files together, for a bar of progress; what is not there counts 0.
int64_t total_bytes(const std::vector<std::filesystem::path>& files);

}  // namespace sotto::cli
