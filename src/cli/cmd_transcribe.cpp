// `sotto transcribe`: the text of audio files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "opened_device.h"
#include "sotto/train/recogniser.h"

namespace sotto::cli {

namespace {

struct TranscribeOptions {
  std::string checkpoint;
  std::vector<std::string> files;
  std::string memory = "auto";
  std::string device = "cpu";
  bool json = false;
};

void run_transcribe(const TranscribeOptions& options) {
  const OpenedDevice opened(MemorySize::parse(options.memory), options.device);
  train::Recogniser recogniser(options.checkpoint, opened.budget_bytes, opened.device);
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  const std::vector<std::string> texts = recogniser.transcribe(files);
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (size_t i = 0; i < texts.size(); ++i)
      json.push_back({{"audio_filepath", options.files[i]}, {"text", texts[i]}});
    std::cout << json.dump(2) << '\n';
    return;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts.size() > 1) std::cout << options.files[i] << ": ";
    std::cout << texts[i] << '\n';
  }
}

}  // namespace

void add_transcribe(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("transcribe", "The text of audio files");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<TranscribeOptions>();
  command->add_option("files", options->files, "WAV, FLAC, OGG or MP3")->required();
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Folder of a run (its best is taken) or of a checkpoint")
      ->required();
  command->add_option("--memory", options->memory,
                      "Budget: 8GiB, 12GB, 90% (of what is free) or auto");
  command->add_option("--device", options->device, "What to run on: cpu, cuda or cuda:N");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(example("  sotto transcribe --checkpoint runs/digits a.flac b.mp3"));
  command->callback([options] { run_transcribe(*options); });
}

}  // namespace sotto::cli
