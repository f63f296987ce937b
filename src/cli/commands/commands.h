// The commands of the program: one function and one cmd_*.cpp each. To add one, declare its
// function here and call it in main.cpp. The function adds the command with its options and, as the
// command's callback, what it does; it does nothing else, because it runs for every command line.
#pragma once

namespace CLI {
class App;
}

namespace sotto::cli {

// Options that every command takes, complete when a command's callback runs.
struct GlobalOptions {
  // Debug lines in the log.
  bool verbose = false;
};

// `sotto plan`: from a budget to a run.
void add_plan(CLI::App& app, const GlobalOptions& global);

// `sotto rehearse`: the worst steps of a run, really taken.
void add_rehearse(CLI::App& app, const GlobalOptions& global);

// `sotto find-batch`: the largest batch, by trying.
void add_find_batch(CLI::App& app, const GlobalOptions& global);

// `sotto train`: a run inside a budget.
void add_train(CLI::App& app, const GlobalOptions& global);

// `sotto eval`: error rates of a checkpoint.
void add_eval(CLI::App& app, const GlobalOptions& global);

// `sotto transcribe`: the text of audio files.
void add_transcribe(CLI::App& app, const GlobalOptions& global);

// `sotto average`: the mean of checkpoints.
void add_average(CLI::App& app, const GlobalOptions& global);

// `sotto export`: a model as a folder that transformers loads.
void add_export(CLI::App& app, const GlobalOptions& global);

// `sotto logits`: what a network says of each frame.
void add_logits(CLI::App& app, const GlobalOptions& global);

// `sotto data`: corpora made, fetched, imported, split and checked.
void add_data(CLI::App& app, const GlobalOptions& global);

// `sotto tokenizer`: tokenizers, made and used.
void add_tokenizer(CLI::App& app, const GlobalOptions& global);

// `sotto prove memory`: predicted against measured memory of training steps.
void add_prove(CLI::App& app, const GlobalOptions& global);

// `sotto profile`: what this machine is.
void add_profile(CLI::App& app, const GlobalOptions& global);

}  // namespace sotto::cli
