// `sotto logits`: writes the logits of every frame of an audio file, for comparing a network with
// others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/units.h"
#include "sotto/device/opened_device.h"
#include "sotto/models/files/tensor_file.h"
#include "sotto/train/recognition/recogniser.h"

namespace sotto::cli {

namespace {

struct LogitsOptions {
  std::string model;
  std::string audio;
  std::string out;
  std::string memory = "auto";
  std::string device = "cpu";
};

void run_logits(const LogitsOptions& options) {
  const device::OpenedDevice opened(MemorySize::parse(options.memory), options.device);
  train::Recogniser recogniser(options.model, opened.budget_bytes, opened.device);
  check_is_another(options.out, options.audio);
  const at::Tensor logits = recogniser.logits(options.audio);
  models::write_tensors(options.out, {{.name = "logits", .tensor = logits}});
  std::cout << fmt::format("{} frames of {} entries in {}\n", logits.size(0), logits.size(1),
                           options.out);
}

}  // namespace

void add_logits(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits of every frame of an audio file");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<LogitsOptions>();
  command
      ->add_option(
          "--model", options->model,
          "Run (its best checkpoint), checkpoint, Hugging Face folder, id in the local cache, or "
          ".nemo archive")
      ->required();
  command->add_option("--audio", options->audio, "WAV, FLAC, OGG or MP3")->required();
  command->add_option("--out", options->out, "File for the tensor `logits` [frames, entries]")
      ->required();
  add_memory_option(*command, options->memory);
  command->add_option("--device", options->device, "Device: cpu, cuda or cuda:N");
  command->footer(example(
      "  sotto logits --model facebook/wav2vec2-base-960h --audio a.wav --out a.safetensors",
      "hf download facebook/wav2vec2-base-960h, and an audio file"));
  command->callback([options] { run_logits(*options); });
}

}  // namespace sotto::cli
