// `sotto transcribe`: the text of audio files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "beam_choice.h"
#include "command_line.h"
#include "commands.h"
#include "opened_device.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/train/recogniser.h"

namespace sotto::cli {

namespace {

struct Options {
  std::string model;
  std::vector<std::string> files;
  std::string memory = "auto";
  std::string device = "cpu";
  train::TranscribeOptions windows;
  BeamChoice beam;
  bool srt = false;
  bool json = false;
};

void check(const Options& options) {
  if (options.srt && options.json) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "--srt and --json",
                       .expected = "one of them"});
  }
  if (options.srt && options.files.size() > 1) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = fmt::format("--srt and {} files", options.files.size()),
                       .expected = "one file: subtitles are numbered from 1 in each"});
  }
  const train::TranscribeOptions& windows = options.windows;
  if (windows.overlap_s < windows.window_s) return;
  throw ConfigError({.attempted = "transcribing audio",
                     .found = fmt::format("windows of {} s that overlap by {} s", windows.window_s,
                                          windows.overlap_s),
                     .expected = "an overlap below the window"});
}

nlohmann::ordered_json to_json(const std::string& file, const train::Transcript& transcript) {
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  for (const train::Transcript::Word& word : transcript.words)
    words.push_back({{"word", word.text}, {"start", word.start_s}, {"end", word.end_s}});
  return {{"audio_filepath", file},
          {"duration", transcript.seconds},
          {"text", transcript.text},
          {"words", std::move(words)}};
}

void run_transcribe(const Options& options) {
  check(options);
  const OpenedDevice opened(MemorySize::parse(options.memory), options.device);
  train::Recogniser recogniser(options.model, opened.budget_bytes, opened.device);
  const std::unique_ptr<train::BeamSearch> beam =
      options.beam.open(recogniser.checkpoint().tokenizer);
  train::TranscribeOptions how = options.windows;
  how.beam = beam.get();
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  const std::vector<train::Transcript> transcripts = recogniser.transcribe(files, how);
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (size_t i = 0; i < transcripts.size(); ++i)
      json.push_back(to_json(options.files[i], transcripts[i]));
    std::cout << json.dump(2) << '\n';
    return;
  }
  for (size_t i = 0; i < transcripts.size(); ++i) {
    if (options.srt) {
      std::cout << train::to_srt(transcripts[i]);
      continue;
    }
    if (transcripts.size() > 1) std::cout << options.files[i] << ": ";
    std::cout << transcripts[i].text << '\n';
  }
}

}  // namespace

void add_transcribe(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("transcribe", "The text of audio files, with the times of words");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<Options>();
  command->add_option("files", options->files, "WAV, FLAC, OGG or MP3")->required();
  command
      ->add_option("--model,--checkpoint", options->model,
                   "Run (its best is taken), checkpoint, Hugging Face folder, or id in its cache")
      ->required();
  command->add_option("--memory", options->memory,
                      "Budget: 8GiB, 12GB, 90% (of what is free) or auto");
  command->add_option("--device", options->device, "What to run on: cpu, cuda or cuda:N");
  command
      ->add_option("--window", options->windows.window_s,
                   "Seconds of a long file that are recognised at a time (30)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--overlap", options->windows.overlap_s,
                   "Seconds that neighbouring windows have in common (6)")
      ->check(CLI::NonNegativeNumber);
  options->beam.add_to(*command);
  command->add_flag("--srt", options->srt, "Print subtitles");
  command->add_flag("--json", options->json, "Print JSON, with the time of each word");
  command->footer(example("  sotto transcribe --model runs/digits a.flac b.mp3"));
  command->callback([options] { run_transcribe(*options); });
}

}  // namespace sotto::cli
