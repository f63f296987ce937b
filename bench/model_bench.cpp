// sotto_model_bench: forward and backward of a whole wav2vec2 or conformer on the CPU in fp32, all
// utterances in one micro-batch, by tier: seconds, and the peak memory in addition to weights and
// gradients. Nothing is dropped or masked. bench/compare_cpu.py runs it beside the same network in
// PyTorch.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "program.h"
#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/core/units.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/device/torch_memory.h"
#include "sotto/models/conformer/conformer.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/report/table.h"
#include "sotto/train/step/step.h"

namespace {

using namespace sotto;  // NOLINT: a program of one file

constexpr int64_t kVocabulary = 32;
// As people speak; compare_cpu.py has the same number.
constexpr double kLabelsASecond = 12.0;

struct Arguments {
  std::string model = "wav2vec2-base";
  std::vector<double> seconds = {2.0, 3.9, 5.7, 7.6, 9.4, 11.3, 13.1, 15.0};
  std::vector<std::string> tiers = {"norms", "block"};
  int64_t repeat = 3;
  bool is_frozen = false;
  std::string json;
};

train::RunConfig config_of(const Arguments& arguments) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset(arguments.model);
  if (config.model.find<models::ConformerOptions>() != nullptr && !arguments.is_frozen) {
    config.model.as<models::ConformerOptions>().dropout = 0.0;
    return config;
  }
  if (config.model.find<models::Wav2Vec2Options>() == nullptr) {
    throw ConfigError(
        {.attempted = "choosing a model",
         .found = fmt::format("'{}'{}", arguments.model, arguments.is_frozen ? ", frozen" : ""),
         .expected = "a preset of wav2vec2 or conformer, such as wav2vec2-base; only wav2vec2 has "
                     "a feature encoder to freeze"});
  }
  models::Wav2Vec2Options& model = config.model.as<models::Wav2Vec2Options>();
  model.dropout = 0.0;
  model.activation_dropout = 0.0;
  model.feature_dropout = 0.0;
  model.final_dropout = 0.0;
  model.layer_drop = 0.0;
  model.mask = false;
  model.freeze_feature_encoder = arguments.is_frozen;
  return config;
}

// Noise with labels of no meaning, no two neighbours alike.
std::vector<data::Example> make_examples(const std::vector<double>& seconds, int64_t sample_rate) {
  const RandomStream stream({.seed = 1, .purpose = Purpose::kAugmentation});
  std::vector<data::Example> examples;
  uint64_t drawn = 0;  // stays a multiple of four, as fill_normal wants it
  for (const double length : seconds) {
    data::Example& example = examples.emplace_back();
    example.utterance = std::ssize(examples) - 1;
    example.rows = static_cast<int64_t>(length * static_cast<double>(sample_rate));
    example.values.resize(static_cast<size_t>(example.rows));
    stream.fill_normal(example.values, drawn);
    drawn += (static_cast<uint64_t>(example.rows) + 3) / 4 * 4;
    const auto num_labels = static_cast<int64_t>(length * kLabelsASecond);
    for (int64_t label = 0; label < num_labels; ++label)
      example.labels.push_back(
          static_cast<int32_t>(1 + (7 * label + example.utterance) % (kVocabulary - 1)));
  }
  return examples;
}

// What is measured: one forward and one backward of all examples, into gradients that begin at 0.
class Update {
 public:
  Update(const train::RunConfig& config, const at::Device& device)
      : device_(device),
        model_(train::make_model(config, {.vocabulary = kVocabulary, .blank = 0}, device,
                                 /*trains=*/true)) {
    model_->parameters().zero_gradients();
  }

  // The loss; 0 on Meta. Throws DataError where an utterance is too short for its labels.
  double run(const std::vector<data::Example>& examples, nn::Tier tier) {
    std::vector<int64_t> indices(examples.size());
    std::iota(indices.begin(), indices.end(), int64_t{0});
    std::vector<int64_t> label_lengths;
    for (const data::Example& example : examples)
      label_lengths.push_back(std::ssize(example.labels));
    const std::vector<float> weights =
        models::utterance_weights(models::Reduction::kCtcMean, label_lengths);

    model_->parameters().zero_gradients();
    device::HostMemory host(device_.type());
    device::StagingBuffer unused(host);
    const data::MicroBatch batch = data::make_micro_batch(
        examples, indices, unused, {.device = device_, .decoder = model_->outline().decoder});
    nn::HostTape on_host(host);
    nn::Tape tape(std::vector<nn::Tier>(static_cast<size_t>(model_->num_tapes()), tier), &on_host);
    const nn::StepContext step{.step = 1};
    const models::Losses losses = model_->forward(batch, step, weights, tape);
    model_->backward(batch, step, tape);
    if (!losses.infeasible.empty()) {
      throw DataError({.attempted = "measuring a model",
                       .found = "utterances with fewer frames than their labels need",
                       .expected = "longer ones: see --seconds"});
    }
    if (device_.is_meta()) return 0.0;
    double loss = 0.0;
    for (size_t term = 0; term < losses.terms.size(); ++term) {
      const float* of_utterances = losses.terms[term].const_data_ptr<float>();
      loss += model_->outline().loss_terms[term].weight *
              std::inner_product(weights.begin(), weights.end(), of_utterances, 0.0);
    }
    return loss;
  }

  int64_t num_values() const {
    int64_t count = 0;
    for (const nn::Parameter& parameter : model_->parameters().parameters())
      count += parameter.spec.num_values();
    return count;
  }

 private:
  at::Device device_;
  std::unique_ptr<models::Model> model_;
};

// The process's largest resident memory since the last forget_resident_peak(), in bytes.
int64_t resident_peak() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  int64_t kibibytes = 0;
  status >> kibibytes;
  return kibibytes * 1024;
}

// From now on the peak is that of what follows.
void forget_resident_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

// The arena's bytes that are neither weights nor gradients, at its peak.
int64_t beyond_parameters(const device::MemoryReport& report) {
  const auto held = [&](device::Category category) {
    return report.at_peak[static_cast<size_t>(category)];
  };
  return report.peak - held(device::Category::kWeights) - held(device::Category::kGradients);
}

// What the update needs, from a dry run.
device::MemoryReport plan(const train::RunConfig& config,
                          const std::vector<data::Example>& examples, nn::Tier tier) {
  const auto nothing =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, nothing);
  Update update(config, at::kMeta);
  update.run(examples, tier);
  return nothing->report();
}

struct Row {
  std::string tier;
  double seconds = 0.0;  // median
  double speed = 0.0;    // seconds of audio a second
  double loss = 0.0;
  int64_t num_values = 0;  // of all parameters
  int64_t arena_peak = 0;
  int64_t activation_peak = 0;  // of that, beyond weights and gradients
  int64_t resident_growth = 0;  // of the process, from weights and gradients on
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// In an arena of exactly the bytes that the dry run asked for.
Row measure(const Arguments& arguments, const std::vector<data::Example>& examples,
            const std::string& tier_name) {
  const train::RunConfig config = config_of(arguments);
  const nn::Tier tier = value_of(tier_name, nn::kTiers);
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost,
                                                     plan(config, examples, tier).high_water);
  const device::ArenaGuard guard(at::kCPU, arena);
  Update update(config, at::kCPU);
  arena->reset_peak();
  forget_resident_peak();
  const int64_t resident_before = resident_peak();

  Row row{.tier = tier_name, .num_values = update.num_values()};
  std::vector<double> seconds;
  for (int64_t i = 0; i <= arguments.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    row.loss = update.run(examples, tier);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    // The first one warms up.
    if (i > 0) seconds.push_back(taken.count());
  }
  const device::MemoryReport report = arena->report();
  row.seconds = median(seconds);
  row.speed =
      std::accumulate(arguments.seconds.begin(), arguments.seconds.end(), 0.0) / row.seconds;
  row.arena_peak = report.peak;
  row.activation_peak = beyond_parameters(report);
  row.resident_growth = resident_peak() - resident_before;
  return row;
}

std::string state_of(const Arguments& arguments) {
  return arguments.is_frozen ? "frozen" : "trained";
}

nlohmann::ordered_json to_json(const Arguments& arguments, const Row& row) {
  return {{"model", arguments.model},
          {"parameters", row.num_values},
          {"tier", row.tier},
          {"feature_encoder", state_of(arguments)},
          {"threads", at::get_num_threads()},
          {"seconds", row.seconds},
          {"audio_seconds_per_second", row.speed},
          {"loss", row.loss},
          {"arena_peak_bytes", row.arena_peak},
          {"activation_peak_bytes", row.activation_peak},
          {"resident_growth_bytes", row.resident_growth}};
}

void run(const Arguments& arguments) {
  const train::RunConfig config = config_of(arguments);
  const std::vector<data::Example> examples =
      make_examples(arguments.seconds, config.model.sample_rate());
  report::Table table({{"tier"},
                       {"seconds", report::Align::kRight},
                       {"audio-s/s", report::Align::kRight},
                       {"loss", report::Align::kRight},
                       {"arena peak bytes", report::Align::kRight},
                       {"activation peak bytes", report::Align::kRight},
                       {"resident growth", report::Align::kRight}});
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const std::string& tier : arguments.tiers) {
    const Row row = measure(arguments, examples, tier);
    table.add_row({tier, fmt::format("{:.2f}", row.seconds), fmt::format("{:.2f}", row.speed),
                   fmt::format("{:.4f}", row.loss), fmt::format("{}", row.arena_peak),
                   fmt::format("{}", row.activation_peak), format_bytes(row.resident_growth)});
    results.push_back(to_json(arguments, row));
  }
  fmt::print("{}, feature encoder {}, {} threads\n\n{}", arguments.model, state_of(arguments),
             at::get_num_threads(), table.to_string());
  if (arguments.json.empty()) return;
  std::ofstream file(arguments.json);
  file << results.dump(2) << "\n";
  if (!file.flush())
    throw DataError({.attempted = "writing " + arguments.json, .found = "it cannot be written"});
}

int run_program(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::string> tiers;
  for (const auto& [name, tier] : nn::kTiers) tiers.emplace_back(name);
  CLI::App app("Measure forward and backward of a network on the CPU: seconds and memory by tier");
  app.add_option("--model", arguments.model, "A preset of wav2vec2 or conformer")
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "Of each utterance")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  app.add_option("--tier", arguments.tiers, "What is kept for backward")
      ->check(CLI::IsMember(tiers))
      ->capture_default_str();
  app.add_option("--repeat", arguments.repeat, "Measured times, behind one to warm up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--frozen", arguments.is_frozen, "Do not train the feature encoder");
  app.add_option("--json", arguments.json, "File for the numbers");
  CLI11_PARSE(app, argc, argv);
  run(arguments);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors("sotto_model_bench", [&] { return run_program(argc, argv); });
}
