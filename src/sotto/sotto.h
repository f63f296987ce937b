// sotto as a library: configure a run, inspect its plan, train it epoch by epoch, evaluate it, and
// read its memory use.
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
// byte for byte, except for log.txt, which contains the output of the command. This header does not
// depend on LibTorch. Errors are those of sotto/core/error.h. While a Training or a Recogniser
// exists, tensors that this process creates on its device are allocated in its budget: objects must
// be destroyed in reverse order of creation.
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

// Equivalent of --config, --set and --model of `sotto train`.
struct Config {
  // YAML or JSON; empty: every setting has its default.
  std::filesystem::path file = {};
  // Settings that override the file, in order: "memory=8GiB", "epochs=2". Those that a plan decides
  // (`numerics`, `tier`, `max_frames` and so on) are planned for the budget unless they are given.
  std::vector<std::string> settings = {};
  // A preset, a Hugging Face folder, the id of one in its cache, or a `.nemo` archive; empty: taken
  // from the settings.
  std::string model = {};
};

// Returns the configuration with all settings, including defaults, each with a description. Throws
// ConfigError for an unknown key or an invalid value, DataError where the file cannot be read.
std::string to_yaml(const Config& config);

// Facts known before the first step.
struct Plan {
  std::string device = {};
  // Memory budget of the run; and the part of it that libraries take on a GPU.
  int64_t budget_bytes = 0;
  int64_t library_bytes = 0;
  // Peak of the largest possible step, from the dry run, and its moment: "backward of layer 3".
  int64_t needed_bytes = 0;
  std::string needed_in = {};
  // Maximum frames per micro-batch; none: a step is one micro-batch.
  std::optional<int64_t> max_frames = {};
  int64_t num_parameters = 0;
  // Training data: utterances and their duration, or rows of text and their tokens.
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
  // Utterances skipped by the policies of the configuration.
  int64_t num_skipped = 0;
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  // First step of this process; above 1 for a resumed run.
  int64_t first_step = 1;
};

// Results of an evaluation.
struct Scores {
  // Error rates of speech as fractions: 0.1 is 10 %.
  std::optional<double> wer = {};
  std::optional<double> cer = {};
  // Text only.
  std::optional<double> perplexity = {};
  double loss = 0.0;
  int64_t num_utterances = 0;
  double audio_seconds = 0.0;
};

// Bytes of the first step as predicted by the dry run, and as measured.
struct MemoryReport {
  // Bytes at the peak: weights, gradients, optimizer, activations, workspace, data.
  struct Part {
    std::string name;
    int64_t planned_bytes = 0;
    int64_t measured_bytes = 0;
  };
  std::vector<Part> parts = {};
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  // Every part and the moment of the peak are equal, to the byte.
  bool is_equal = false;
  // Maximum over all steps so far.
  int64_t largest_peak_bytes = 0;
};

// Result of one call of train_epoch() or train().
struct TrainingResult {
  // Updates of the run so far, and the loss of the last one.
  int64_t step = 0;
  double loss = 0.0;
  double audio_seconds = 0.0;
  int64_t num_tokens = 0;
  double seconds = 0.0;
  // Number of times that a step was run again because memory ran out.
  int64_t num_restarts = 0;
  // Last evaluation on data.dev, if any.
  std::optional<Scores> scores = {};
};

// One step, as reported during the run.
struct StepProgress {
  int64_t step = 0;  // from 1
  int64_t total_steps = 0;
  double loss = 0.0;
  double learning_rate = 0.0;
  int64_t peak_bytes = 0;
  double seconds = 0.0;
};

struct TrainingOptions {
  // Resumes from the latest intact checkpoint in the folder, with its configuration; without one
  // the run starts from scratch.
  bool resumes = false;
  // Optional callbacks: after every step; warnings for the user, one line each; and asked after
  // every step, where true saves and ends the call.
  std::function<void(const StepProgress&)> stepped = {};
  std::function<void(const std::string&)> warned = {};
  std::function<bool()> should_stop = {};
};

class Training {
 public:
  // Reads configuration and data, fits the run into its budget, allocates. Throws ConfigError and
  // DataError before anything is trained; if the budget is too small, the message names a
  // sufficient one.
  Training(const Config& config, const std::filesystem::path& folder,
           const TrainingOptions& options = {});
  ~Training();
  Training(Training&& other) noexcept;
  Training& operator=(Training&&) = delete;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  const Plan& plan() const;
  bool is_finished() const;

  // Trains to the end of the current epoch, and saves. Throws OutOfMemory, after writing a
  // checkpoint, where a step does not fit after all retries, DataError where a file cannot be read.
  TrainingResult train_epoch();
  // Trains to the end of the run, with the same guarantees.
  TrainingResult train();

  // None before the first step.
  const std::optional<MemoryReport>& memory() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct RecogniserOptions {
  // "8GiB", "12GB", "90%" of the free memory, or "auto".
  std::string memory = "auto";
  // "cpu", "cuda" or "cuda:N".
  std::string device = "cpu";
};

class Recogniser {
 public:
  // `folder`: a checkpoint, or a run (its best checkpoint, else its latest). Throws DataError where
  // there is none.
  explicit Recogniser(const std::filesystem::path& folder, const RecogniserOptions& options = {});
  ~Recogniser();
  Recogniser(Recogniser&& other) noexcept;
  Recogniser& operator=(Recogniser&&) = delete;
  Recogniser(const Recogniser&) = delete;
  Recogniser& operator=(const Recogniser&) = delete;

  // Evaluates on a manifest, or on a text for a language model.
  Scores evaluate(const std::filesystem::path& data);

  // Transcribes audio files, in order.
  std::vector<std::string> transcribe(const std::vector<std::filesystem::path>& files);

  // Peak memory so far, in bytes.
  int64_t peak_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sotto
