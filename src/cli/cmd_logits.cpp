// `sotto logits`: what a network says of each frame of an audio file, for comparing it with others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "command_line.h"
#include "commands.h"
#include "model_choice.h"
#include "sotto/core/error.h"
#include "sotto/data/audio.h"
#include "sotto/data/micro_batch.h"
#include "sotto/models/wav2vec2.h"

namespace sotto::cli {

namespace {

struct LogitsOptions {
  std::string model;
  std::string audio;
  std::string out;
};

void run_logits(const LogitsOptions& options) {
  const ModelChoice choice = choose_model(options.model);
  if (!choice.folder) {
    throw ConfigError(
        {.attempted = "computing logits",
         .found = fmt::format("the preset '{}', which has no weights", options.model),
         .expected = "a folder with weights, or a Hugging Face id in the local cache"});
  }
  models::Wav2Vec2 model(choice.options.wav2vec2, models::shape_of_hugging_face(*choice.folder),
                         {.trains = false});
  models::load_hugging_face(*choice.folder, model);
  data::Example example;
  example.values = data::read_audio({.path = options.audio}, choice.options.sample_rate());
  example.rows = std::ssize(example.values);
  if (example.rows < choice.options.min_rows(/*feature_dim=*/0)) {
    throw DataError(
        {.attempted = fmt::format("computing logits of {}", options.audio),
         .found = fmt::format("{} samples", example.rows),
         .expected = fmt::format("at least {}", choice.options.min_rows(/*feature_dim=*/0))});
  }
  device::HostMemory host(at::kCPU);
  device::StagingBuffer unused(host);
  const std::vector<int64_t> places = {0};
  const at::Tensor logits =
      model.logits(data::make_micro_batch({&example, 1}, places, at::kCPU, unused));
  models::write_tensors(options.out, {{.name = "logits", .tensor = logits}});
  std::cout << fmt::format("{} frames of {} entries in {}\n", logits.size(0), logits.size(1),
                           options.out);
}

}  // namespace

void add_logits(CLI::App& app, const GlobalOptions&) {
  CLI::App* command =
      app.add_subcommand("logits", "What a network says of each frame of an audio file");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<LogitsOptions>();
  command->add_option("--model", options->model, "Folder of Hugging Face, or an id in its cache")
      ->required();
  command->add_option("--audio", options->audio, "WAV, FLAC, OGG or MP3")->required();
  command->add_option("--out", options->out, "File for the tensor `logits` [frames, entries]")
      ->required();
  command->footer(example(
      "  sotto logits --model facebook/wav2vec2-base-960h --audio a.wav --out a.safetensors",
      "hf download facebook/wav2vec2-base-960h, and an audio file"));
  command->callback([options] { run_logits(*options); });
}

}  // namespace sotto::cli
