// Command line options for text normalisation rules, as in data.text of a configuration.
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

// Returns the total size of files, for a progress bar; missing files count as 0.
int64_t total_bytes(const std::vector<std::filesystem::path>& files);

}  // namespace sotto::cli
