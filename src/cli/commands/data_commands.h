// The subcommands of `sotto data`, one function and one cmd_data_*.cpp each.
#pragma once

namespace CLI {
class App;
}

namespace sotto::cli {

// `sotto data import`: makes manifests from corpora in their original formats.
void add_data_import(CLI::App& data);

// `sotto data check`: finds problems in a corpus.
void add_data_check(CLI::App& data);

// `sotto data split`: splits a manifest into train, dev and test parts.
void add_data_split(CLI::App& data);

// `sotto data text`: splits a text corpus by documents.
void add_data_text(CLI::App& data);

// `sotto data fetch`: lists and downloads public corpora.
void add_data_fetch(CLI::App& data);

}  // namespace sotto::cli
