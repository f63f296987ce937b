// The commands of the program: one function and one cmd_*.cpp each. To add one, declare its
// function here and call it in main.cpp. The function registers the command with its options and
// its callback; it does nothing else, because it runs for every command line.
#pragma once

namespace CLI {
class App;
}

namespace sotto::cli {

// Options of every command, complete when a command's callback runs.
struct GlobalOptions {
  // Include debug lines in the log.
  bool verbose = false;
};

// `sotto plan`: finds the settings of a run for a budget.
void add_plan(CLI::App& app, const GlobalOptions& global);

// `sotto rehearse`: runs the worst steps of a run.
void add_rehearse(CLI::App& app, const GlobalOptions& global);

// `sotto find-batch`: finds the largest batch by trial.
void add_find_batch(CLI::App& app, const GlobalOptions& global);

// `sotto train`: trains within a budget.
void add_train(CLI::App& app, const GlobalOptions& global);

// `sotto eval`: computes error rates of a checkpoint.
void add_eval(CLI::App& app, const GlobalOptions& global);

// `sotto transcribe`: transcribes audio files.
void add_transcribe(CLI::App& app, const GlobalOptions& global);

// `sotto average`: averages checkpoints.
void add_average(CLI::App& app, const GlobalOptions& global);

// `sotto export`: exports a model as a folder that transformers loads.
void add_export(CLI::App& app, const GlobalOptions& global);

// `sotto logits`: writes the logits of every frame.
void add_logits(CLI::App& app, const GlobalOptions& global);

// `sotto data`: makes, fetches, imports, splits and checks corpora.
void add_data(CLI::App& app, const GlobalOptions& global);

// `sotto tokenizer`: trains and applies tokenizers.
void add_tokenizer(CLI::App& app, const GlobalOptions& global);

// `sotto prove memory`: compares predicted and measured memory of training steps.
void add_prove(CLI::App& app, const GlobalOptions& global);

// `sotto lab`: runs suites of experiments and compares them.
void add_lab(CLI::App& app, const GlobalOptions& global);

// `sotto doctor`: checks the installation.
void add_doctor(CLI::App& app, const GlobalOptions& global);

// `sotto report`: shows what runs have recorded.
void add_report(CLI::App& app, const GlobalOptions& global);

// `sotto profile`: describes this machine, a model or a corpus.
void add_profile(CLI::App& app, const GlobalOptions& global);

}  // namespace sotto::cli
