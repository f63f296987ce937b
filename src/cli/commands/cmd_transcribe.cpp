// `sotto transcribe`: transcribes audio files.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/decode_choice.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/transcript_server.h"
#include "cli/views/json_text.h"
#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/opened_device.h"
#include "sotto/train/recognition/recogniser.h"

namespace sotto::cli {

namespace {

struct Options {
  std::string model;
  std::vector<std::string> files;
  std::string memory = "auto";
  std::string device = "cpu";
  train::TranscribeOptions windows;
  DecodeChoice decode;
  std::vector<std::string> overrides;
  bool srt = false;
  bool json = false;
  bool serves = false;
};

void check(const Options& options) {
  if (options.serves && !options.files.empty()) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "--serve and files",
                       .expected = "one of them: --serve reads the names of files from its input"});
  }
  if (!options.serves && options.files.empty()) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "no file",
                       .expected = "WAV, FLAC, OGG or MP3 files",
                       .hint = "See 'sotto transcribe --help'."});
  }
  if (options.srt && options.json) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "--srt and --json",
                       .expected = "one of them",
                       .hint = "Remove one."});
  }
  if (options.srt && options.files.size() > 1) {
    throw ConfigError({.attempted = "transcribing audio",
                       .found = fmt::format("--srt and {} files", options.files.size()),
                       .expected = "one file: subtitles are numbered from 1 in each",
                       .hint = "Call sotto transcribe once per file."});
  }
}

std::string to_text(const std::string& file, const decode::Transcript& transcript,
                    const Options& options) {
  if (options.srt) return decode::to_srt(transcript);
  const std::string name = options.files.size() > 1 ? file + ": " : "";
  return name + transcript.text + "\n";
}

// Transcribes the files in order: unreadable ones do not prevent output for the others.
void transcribe_all(train::Recogniser& recogniser, const Options& options) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<std::string> failed;
  for (const std::string& file : options.files) {
    try {
      const decode::Transcript transcript = recogniser.transcribe(file, options.windows);
      if (options.json) {
        json.push_back(transcript_json(file, transcript));
      } else {
        std::cout << to_text(file, transcript, options) << std::flush;
      }
    } catch (const DataError& error) {
      if (options.files.size() == 1) throw;
      spdlog::error("{}", error.what());
      failed.push_back(file);
    }
  }
  if (options.json) std::cout << json_text(json);
  if (failed.empty()) return;
  throw DataError({.attempted = fmt::format("transcribing {} files", options.files.size()),
                   .found = fmt::format("{} could not be transcribed: {}", failed.size(),
                                        fmt::join(failed, ", ")),
                   .expected = "audio files that can be read",
                   .hint = "The transcripts of the others were printed; the reasons are above."});
}

// Returns the run's search overridden by --set.
decode::DecodeOptions search_of(const train::Recogniser& recogniser,
                                const std::vector<std::string>& sets) {
  constexpr std::array kOfEvaluations = {"decode.normalizer=", "decode.spellings=",
                                         "decode.remove_diacritics=", "decode.split_letters="};
  for (const std::string& text : sets) {
    const bool is_of_evaluations =
        std::ranges::any_of(kOfEvaluations, [&](const char* key) { return text.starts_with(key); });
    if (is_of_evaluations) {
      throw ConfigError({.attempted = "reading the settings of a transcription",
                         .found = fmt::format("--set {}, which has no effect", text),
                         .expected = "settings of the search, such as decode.beam=8",
                         .hint = "Texts are normalised where they are compared: sotto eval."});
    }
    if (text.starts_with("decode.")) continue;
    throw ConfigError({.attempted = "reading the settings of a transcription",
                       .found = fmt::format("--set {}", text),
                       .expected = "settings of decode, such as decode.beam=8"});
  }
  train::RunConfig changed = recogniser.checkpoint().config;
  read_group(load_overrides(sets), as_group(changed));
  return changed.decode;
}

void run_transcribe(const Options& options) {
  check(options);
  const device::OpenedDevice opened(MemorySize::parse(options.memory), options.device);
  train::Recogniser recogniser(options.model, opened.budget_bytes, opened.device);
  options.decode.apply(recogniser, search_of(recogniser, options.overrides), options.overrides);
  if (options.serves) return serve_transcripts(recogniser, options.windows, std::cin, std::cout);
  transcribe_all(recogniser, options);
}

}  // namespace

void add_transcribe(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("transcribe", "Transcribe audio files, with the time of each word");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<Options>();
  command->add_option("files", options->files, "WAV, FLAC, OGG or MP3");
  command
      ->add_option(
          "--model,--checkpoint", options->model,
          "Run (its best checkpoint), checkpoint, Hugging Face folder, id in the local cache, or "
          ".nemo archive")
      ->required();
  add_memory_option(*command, options->memory);
  command->add_option("--device", options->device, "Device: cpu, cuda or cuda:N");
  command
      ->add_option("--window", options->windows.window_s,
                   "Length of the windows of a long file, in seconds (30)")
      ->check(positive());
  command
      ->add_option("--overlap", options->windows.overlap_s,
                   "Overlap of neighbouring windows, in seconds (6)")
      ->check(not_negative());
  options->decode.add_to(*command);
  command
      ->add_option("--set", options->overrides,
                   "Override the run's search: decode.max_tokens_per_frame=0.5 (repeatable)")
      ->allow_extra_args(false);
  CLI::Option* srt = command->add_flag("--srt", options->srt, "Print subtitles");
  CLI::Option* json =
      command->add_flag("--json", options->json, "Print JSON, with the time of each word");
  command
      ->add_flag("--serve", options->serves,
                 "Answer requests on standard input, one JSON object per line, until it ends")
      ->excludes(srt)
      ->excludes(json);
  command->footer(example("  sotto transcribe --model runs/tiny-1 a.flac b.mp3",
                          "a run in runs/tiny-1, as sotto train --help makes it, and audio files"));
  command->callback([options] { run_transcribe(*options); });
}

}  // namespace sotto::cli
