// The commands below `sotto data`, one function and one cmd_data_*.cpp each.
#pragma once

namespace CLI {
class App;
}

namespace sotto::cli {

// `sotto data import`: manifests from corpora as they come.
void add_data_import(CLI::App& data);

// `sotto data check`: what is wrong with a corpus.
void add_data_check(CLI::App& data);

// `sotto data split`: a manifest in parts to train, develop and test on.
void add_data_split(CLI::App& data);

// `sotto data text`: a text corpus, split by documents.
void add_data_text(CLI::App& data);

// `sotto data fetch`: public corpora, and how to get them.
void add_data_fetch(CLI::App& data);

}  // namespace sotto::cli
