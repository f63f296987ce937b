// `sotto transcribe`: transcribes audio files.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/decode_choice.h"
#include "cli/commands/number_checks.h"
#include "cli/commands/transcript_output.h"
#include "cli/commands/transcript_server.h"
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
  TranscriptOutputOptions output;
  bool serves = false;
};

void check(const Options& options) {
  if (options.serves && !options.files.empty())
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "--serve and files",
                       .expected = "one of them: --serve reads the names of files from its input",
                       .hint = "Remove one."});
  if (!options.serves && options.files.empty())
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "no file",
                       .expected = "WAV, FLAC, OGG or MP3 files",
                       .hint = "See 'sotto transcribe --help'."});
  if (options.serves && options.output.is_given())
    throw ConfigError({.attempted = "transcribing audio",
                       .found = "--serve and a format or file of transcripts",
                       .expected = "one of them: answers of --serve are JSON on standard output",
                       .hint = "Remove one."});
}

// Transcribes the files in order: unreadable ones do not prevent output for the others.
void transcribe_all(train::Recogniser& recogniser, const Options& options,
                    TranscriptOutput& output) {
  std::vector<std::string> failed;
  for (size_t i = 0; i < options.files.size(); ++i) {
    const std::string& file = options.files[i];
    decode::Transcript transcript;
    try {
      transcript = recogniser.transcribe(file, options.windows);
    } catch (const DataError& error) {
      if (options.files.size() == 1) throw;
      spdlog::error("{}", error.what());
      failed.push_back(file);
      continue;
    }
    output.write(i, transcript);
  }
  output.finish();
  if (failed.empty()) return;
  throw DataError({.attempted = fmt::format("transcribing {} files", options.files.size()),
                   .found = fmt::format("{} could not be transcribed: {}", failed.size(),
                                        fmt::join(failed, ", ")),
                   .expected = "audio files that can be read",
                   .hint = "The transcripts of the others were written; the reasons are above."});
}

// Returns the run's configuration overridden by --set: its search, and the prompts of Whisper.
train::RunConfig config_for(const train::Recogniser& recogniser,
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
    const bool is_of_prompts = text.starts_with("data.language=") || text.starts_with("data.task=");
    if (text.starts_with("decode.") || is_of_prompts) continue;
    throw ConfigError({.attempted = "reading the settings of a transcription",
                       .found = fmt::format("--set {}", text),
                       .expected = "settings of decode, such as decode.beam=8, or for whisper "
                                   "data.language and data.task"});
  }
  train::RunConfig changed = recogniser.checkpoint().config;
  read_group(load_overrides(sets), as_group(changed));
  train::check_prompt_effects(changed);
  return changed;
}

void run_transcribe(const Options& options) {
  check(options);
  TranscriptOutput output(options.output, options.files);
  const device::OpenedDevice opened(MemorySize::parse(options.memory), options.device);
  train::Recogniser recogniser(options.model, opened.budget_bytes, opened.device);
  const train::RunConfig changed = config_for(recogniser, options.overrides);
  recogniser.set_data_options(changed.data);
  options.decode.apply(recogniser, changed.decode, options.overrides);
  if (options.serves) return serve_transcripts(recogniser, options.windows, std::cin, std::cout);
  transcribe_all(recogniser, options, output);
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
  options->output.add_to(*command);
  command->add_flag("--serve", options->serves,
                    "Answer requests on standard input, one JSON object per line, until it ends");
  command->footer(
      example("  sotto transcribe --model runs/tiny-1 a.flac b.mp3\n"
              "  sotto transcribe --model runs/tiny-1 talk.mp3 --out talk.srt",
              "a run in runs/tiny-1, as sotto train --help makes it, and audio files"));
  command->callback([options] { run_transcribe(*options); });
}

}  // namespace sotto::cli
