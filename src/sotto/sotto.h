// sotto as a library: configure a run, see its plan, train it epoch by epoch, evaluate it, read
// what memory it took.
//
//   #include <sotto/sotto.h>
//
//   sotto::Training training({.file = "configs/digits.yaml",
//                             .settings = {"data.train=train.jsonl", "memory=300MiB"}},
//                            "runs/digits");
//   std::cout << training.plan().needed_bytes << " bytes will be taken\n";
//   while (!training.is_finished()) {
//     const sotto::TrainingResult epoch = training.train_epoch();
//     std::cout << "loss " << epoch.loss << '\n';
//   }
//   std::cout << training.memory()->measured_peak_bytes << " bytes were taken\n";
//   std::cout << "WER " << *sotto::Recogniser("runs/digits").evaluate("test.jsonl").wer << '\n';
//
// The run is that of `sotto train` with the same configuration: the same plan, checks and files,
// byte for byte, but for log.txt, which is what the command prints. Nothing of
// LibTorch is in this header. Errors are those of sotto/core/error.h. While a Training or a
// Recogniser lives, tensors that this process makes on its device lie in its budget: those made
// later must go first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {

// What `sotto train` takes as --config, --set and --model.
struct Config {
  // YAML or JSON; empty: every setting has its default.
  std::filesystem::path file = {};
  // Laid over it in their order: "memory=8GiB", "epochs=2". What is not named, or `auto`, is
  // decided by a plan for the budget.
  std::vector<std::string> settings = {};
  // A preset, a folder of Hugging Face, or the id of one in its cache; empty: as the settings say.
  std::string model = {};
};

// The configuration with all settings, those not named too, each under what it means. Throws
// ConfigError for a key that there is not or a value that it cannot have, DataError where the file
// cannot be read.
std::string to_yaml(const Config& config);

// What is known before the first step.
struct Plan {
  std::string device = {};
  // What the run may take; of that, what libraries take on a GPU before anything of ours.
  int64_t budget_bytes = 0;
  int64_t library_bytes = 0;
  // Of the largest step that can come, by the dry run, and where in it: "backward of layer 3".
  int64_t needed_bytes = 0;
  std::string needed_in = {};
  // Most frames of a micro-batch; none: a step is one micro-batch.
  std::optional<int64_t> max_frames = {};
  int64_t num_parameters = 0;
  // What is trained on: utterances and their length, or rows of text and their tokens.
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
  // Utterances that are left out by the policies of the configuration.
  int64_t num_skipped = 0;
  int64_t steps_an_epoch = 0;
  int64_t total_steps = 0;
  // Above 1 where a run goes on.
  int64_t first_step = 1;
};

// How good a network is.
struct Scores {
  // Of speech, as shares: 0.1 is 10 %.
  std::optional<double> wer = {};
  std::optional<double> cer = {};
  // Of text.
  std::optional<double> perplexity = {};
  double loss = 0.0;
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
};

// Bytes of the first step as the dry run had them, and as they were.
struct MemoryReport {
  // At the peak: weights, gradients, optimizer, activations, workspace, data.
  struct Part {
    std::string name;
    int64_t planned_bytes = 0;
    int64_t measured_bytes = 0;
  };
  std::vector<Part> parts = {};
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  // To the byte, in every part and in where the peak is.
  bool is_equal = false;
  // Of all steps until now.
  int64_t largest_peak_bytes = 0;
};

// What one call of train_epoch() or train() did.
struct TrainingResult {
  // Updates of the run until now, and the loss of the last.
  int64_t step = 0;
  double loss = 0.0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
  double seconds = 0.0;
  // Steps that were run again because memory ran out.
  int64_t num_restarts = 0;
  // Of the last evaluation on data.dev, where there was one.
  std::optional<Scores> scores = {};
};

// One step, as it is told while the run goes on.
struct StepProgress {
  int64_t step = 0;  // from 1
  int64_t total_steps = 0;
  double loss = 0.0;
  double learning_rate = 0.0;
  int64_t peak_bytes = 0;
  double seconds = 0.0;
};

struct TrainingOptions {
  // Goes on from the newest whole checkpoint in the folder, with the configuration that it has;
  // without one the run begins.
  bool resumes = false;
  // Each may be absent: after every step; what the user should know, in one line; asked after every
  // step, true saves and ends the call.
  std::function<void(const StepProgress&)> stepped = {};
  std::function<void(const std::string&)> warned = {};
  std::function<bool()> should_stop = {};
};

class Training {
 public:
  // Reads configuration and data, fits the run into its budget, allocates. Throws ConfigError and
  // DataError before anything was trained; the message of a budget that does not suffice names one
  // that would.
  Training(const Config& config, const std::filesystem::path& folder,
           const TrainingOptions& options = {});
  ~Training();
  Training(Training&& other) noexcept;
  Training& operator=(Training&&) = delete;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  const Plan& plan() const;
  bool is_finished() const;

  // Trains to the end of the epoch that is begun, and saves. Throws OutOfMemory after a checkpoint
  // where a step does not fit after all retries, DataError where a file cannot be read.
  TrainingResult train_epoch();
  // The same to the end of the run.
  TrainingResult train();

  // None before the first step.
  const std::optional<MemoryReport>& memory() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct RecogniserOptions {
  // "8GiB", "12GB", "90%" of what is free, or "auto".
  std::string memory = "auto";
  // "cpu", "cuda" or "cuda:N".
  std::string device = "cpu";
};

class Recogniser {
 public:
  // `folder`: a checkpoint, or a run, of which the best is taken, else the newest. Throws DataError
  // where there is none.
  explicit Recogniser(const std::filesystem::path& folder, const RecogniserOptions& options = {});
  ~Recogniser();
  Recogniser(Recogniser&& other) noexcept;
  Recogniser& operator=(Recogniser&&) = delete;
  Recogniser(const Recogniser&) = delete;
  Recogniser& operator=(const Recogniser&) = delete;

  // On a manifest; of a language model on a text.
  Scores evaluate(const std::filesystem::path& data);

  // What is said in audio files, in their order.
  std::vector<std::string> transcribe(const std::vector<std::filesystem::path>& files);

  // Most bytes that were taken so far.
  int64_t peak_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sotto
