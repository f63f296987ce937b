// sotto as a library: two epochs on a corpus inside a budget, what memory that took, and how good
// the network is then. A corpus is made by `sotto data demo --out data`.
//
//   train_digits data/train.jsonl data/dev.jsonl runs/example
#include <sotto/sotto.h>

#include <exception>
#include <iomanip>
#include <iostream>
#include <string>

namespace {

void print_plan(const sotto::Plan& plan) {
  std::cout << "plan: " << plan.num_utterances << " utterances, " << plan.total_steps << " steps, "
            << plan.needed_bytes << " of " << plan.budget_bytes << " bytes on " << plan.device
            << '\n';
}

void print_row(const std::string& name, int64_t planned, int64_t measured) {
  std::cout << std::left << std::setw(12) << name << std::right << std::setw(12) << planned
            << std::setw(12) << measured << '\n';
}

void print_memory(const sotto::MemoryReport& memory) {
  std::cout << "bytes of the first step, planned and measured:\n";
  for (const sotto::MemoryReport::Part& part : memory.parts)
    print_row(part.name, part.planned_bytes, part.measured_bytes);
  print_row("peak", memory.planned_peak_bytes, memory.measured_peak_bytes);
  std::cout << (memory.is_equal ? "equal to the byte\n" : "NOT equal\n");
}

void train(const std::string& train_manifest, const std::string& dev_manifest,
           const std::string& folder) {
  // Every key of docs/training.md and configs/ can be set so; .file reads a YAML file first.
  const sotto::Config config{.settings = {"data.train=" + train_manifest,
                                          "data.dev=" + dev_manifest, "model.preset=tiny",
                                          "memory=50MiB", "effective_batch=8", "epochs=2"}};
  sotto::Training training(config, folder);
  print_plan(training.plan());
  while (!training.is_finished()) {
    const sotto::TrainingResult epoch = training.train_epoch();
    std::cout << "step " << epoch.step << ": loss " << epoch.loss << ", WER "
              << 100.0 * epoch.scores->wer.value() << " %\n";
  }
  print_memory(training.memory().value());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: train_digits TRAIN.jsonl DEV.jsonl FOLDER\n";
    return 2;
  }
  try {
    train(argv[1], argv[2], argv[3]);
    const sotto::Scores best = sotto::Recogniser(argv[3]).evaluate(argv[2]);
    std::cout << "best: WER " << 100.0 * best.wer.value() << " % of " << best.num_utterances
              << " utterances\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "train_digits: " << error.what() << '\n';
    return 1;
  }
}
