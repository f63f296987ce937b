// `sotto profile`: describes this machine, a model or a corpus, as a table or as JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/commands/commands.h"
#include "cli/commands/number_checks.h"
#include "cli/views/calibration_view.h"
#include "cli/views/cards_view.h"
#include "cli/views/corpus_view.h"
#include "cli/views/holders_view.h"
#include "cli/views/json_text.h"
#include "cli/views/progress.h"
#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/units.h"
#include "sotto/device/hardware.h"
#include "sotto/models/model_profile.h"
#include "sotto/plan/run/model_choice.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

using report::Align;
using report::Table;

constexpr const char* kUnknown = "unknown";

struct ProfileOptions {
  std::string model;
  int64_t vocabulary = 0;
  std::vector<std::string> overrides;
  std::string data;
  std::string sample;
  uint64_t seed = 1;
  bool calibrates = false;
  std::string device = "cpu";
  bool lists_cards = false;
  bool json = false;
};

std::string or_unknown(const std::string& text) {
  return text.empty() ? kUnknown : text;
}

std::string describe_cores(const device::HostInfo& host) {
  if (!host.cpu_quota_cores) return fmt::format("{}", host.num_cores);
  return fmt::format("{} (container limit: CPU time of {:.2g} cores)", host.num_cores,
                     *host.cpu_quota_cores);
}

std::string describe_ram(const device::HostInfo& host) {
  std::string text = format_bytes(host.total_bytes);
  if (host.container_limit_bytes)
    text += fmt::format(" (container limit; the machine has {})", format_bytes(host.machine_bytes));
  return text;
}

std::string machine_table(const device::HardwareProfile& profile) {
  const device::HostInfo& host = profile.host;
  Table table({{}, {}});
  table.add_row({"machine", fmt::format("{}, {}", host.operating_system, host.architecture)});
  table.add_row({"CPU", host.cpu_model});
  table.add_row({"cores", describe_cores(host)});
  table.add_row({"RAM", describe_ram(host)});
  table.add_row({"RAM free", format_bytes(host.free_bytes)});
  if (!profile.gpu.gpus.empty()) {
    table.add_row({"driver", or_unknown(profile.gpu.driver_version)});
    table.add_row({"CUDA", profile.gpu.cuda_version.empty()
                               ? kUnknown
                               : fmt::format("up to {}", profile.gpu.cuda_version)});
  }
  return table.to_string();
}

std::string gpu_table(const std::vector<device::GpuInfo>& gpus) {
  Table table({{"GPU", Align::kRight},
               {"name"},
               {"memory", Align::kRight},
               {"free", Align::kRight},
               {"capability", Align::kRight},
               {"SMs", Align::kRight}});
  for (const device::GpuInfo& gpu : gpus) {
    table.add_row({fmt::format("{}", gpu.index), or_unknown(gpu.name),
                   gpu.memory ? format_bytes(gpu.memory->total_bytes) : kUnknown,
                   gpu.memory ? format_bytes(gpu.memory->free_bytes) : kUnknown,
                   gpu.capability
                       ? fmt::format("{}.{}", gpu.capability->major, gpu.capability->minor)
                       : kUnknown,
                   gpu.num_sms ? fmt::format("{}", *gpu.num_sms) : kUnknown});
  }
  return table.to_string();
}

std::string render(const device::HardwareProfile& profile) {
  std::string text = machine_table(profile);
  std::vector<std::string> notes = profile.gpu.notes;
  if (profile.gpu.gpus.empty()) {
    const std::string reason = notes.empty() ? "the driver gives no reason" : notes.front();
    text += fmt::format("\nno NVIDIA GPU found ({})\n", reason);
    if (!notes.empty()) notes.erase(notes.begin());
  } else {
    text += "\n" + gpu_table(profile.gpu.gpus) + holders_table(profile.gpu.gpus);
  }
  if (!notes.empty()) text += '\n';
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  return text;
}

models::ModelProfile model_profile(const ProfileOptions& options) {
  models::ModelOptions model = plan::choose_model(options.model).options;
  read_group(load_overrides(options.overrides), as_group(model));
  const int64_t usual = model.usual_vocabulary();
  return models::profile_model(model,
                               {.vocabulary = options.vocabulary > 0 ? options.vocabulary : usual});
}

std::string render(const models::ModelProfile& profile) {
  const auto millions = [](int64_t count) {
    return fmt::format("{:.2f} million", static_cast<double>(count) / 1e6);
  };
  Table table({{"model"}, {profile.preset}});
  table.add_row({"family", profile.family});
  table.add_row({"layers", fmt::format("{} of width {}", profile.layers, profile.width)});
  table.add_row({"vocabulary", fmt::format("{}", profile.vocabulary)});
  table.add_row({"parameters", millions(profile.parameters)});
  table.add_row({"trainable", millions(profile.trainable)});
  Table bytes({{"bytes of"}, {"kind"}, {"memory", Align::kRight}});
  for (const models::ModelProfile::Bytes& row : profile.bytes)
    bytes.add_row({row.what, row.kind, format_bytes(row.bytes)});
  return table.to_string() + "\n" + bytes.to_string();
}

nlohmann::ordered_json to_json(const models::ModelProfile& profile) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"preset", profile.preset},
                                 {"family", profile.family},
                                 {"layers", profile.layers},
                                 {"width", profile.width},
                                 {"vocabulary", profile.vocabulary},
                                 {"parameters", profile.parameters},
                                 {"trainable_parameters", profile.trainable}};
  for (const models::ModelProfile::Bytes& row : profile.bytes)
    json["bytes"].push_back({{"what", row.what}, {"kind", row.kind}, {"bytes", row.bytes}});
  return json;
}

int64_t sample_size(const std::string& text) {
  if (text.empty()) return data::CorpusProfileOptions().sample;
  if (text == "all") return 0;
  int64_t size = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (code == std::errc{} && end == text.data() + text.size() && size > 0) return size;
  throw ConfigError({.attempted = "reading --sample",
                     .found = fmt::format("'{}'", text),
                     .expected = "a number of files, such as 200, or all"});
}

void profile_data(const ProfileOptions& options) {
  Progress progress("inspecting files");
  const data::CorpusProfile profile = data::profile_corpus(
      data::Manifest::read(options.data),
      {.sample = sample_size(options.sample),
       .seed = options.seed,
       .on_progress = [&](int64_t done, int64_t total) { progress.show(done, total, "files"); }});
  progress.clear();
  std::cout << (options.json ? json_text(cli::to_json(profile)) : cli::render(profile));
}

void run_profile(const ProfileOptions& options) {
  if (options.calibrates) return calibrate(options.device, options.json);
  if (options.lists_cards) {
    std::cout << (options.json ? cards_json() : cards_text());
    return;
  }
  if (!options.data.empty() && !options.model.empty()) {
    throw ConfigError({.attempted = "choosing what to describe",
                       .found = "--data and --model",
                       .expected = "one of them at a time"});
  }
  if (options.data.empty() && !options.sample.empty()) {
    throw ConfigError({.attempted = "sampling a corpus",
                       .found = "--sample without --data",
                       .expected = "--data"});
  }
  if (!options.data.empty()) return profile_data(options);
  if (!options.model.empty()) {
    const models::ModelProfile profile = model_profile(options);
    std::cout << (options.json ? json_text(to_json(profile)) : render(profile));
    return;
  }
  if (!options.overrides.empty() || options.vocabulary > 0) {
    throw ConfigError({.attempted = "describing this machine",
                       .found = "settings of a model without --model",
                       .expected = "--model"});
  }
  const device::HardwareProfile profile = device::read_hardware();
  if (!options.json) {
    std::cout << render(profile);
    return;
  }
  std::cout << json_text(device::to_json(profile));
}

}  // namespace

void add_profile(CLI::App& app, const GlobalOptions&) {
  CLI::App* command = app.add_subcommand("profile", "Describe this machine, a model or a corpus");
  // Shared, because the callback is copied and has to outlive this function.
  auto options = std::make_shared<ProfileOptions>();
  command->add_option(
      "--model", options->model,
      "Describe a model: a preset, a Hugging Face folder, an id in the local cache, or a .nemo "
      "archive");
  command->add_option("--vocabulary", options->vocabulary, "Vocabulary size of its output")
      ->check(positive());
  command->add_option("--set", options->overrides, "Override a setting of the model: key=value")
      ->allow_extra_args(false);
  command->add_option("--data", options->data, "Describe a corpus: its manifest");
  command->add_option("--sample", options->sample,
                      "Number of files of the corpus to inspect (200), or all");
  command->add_option("--seed", options->seed, "Random seed of the sample");
  CLI::Option* calibrates =
      command->add_flag("--calibrate", options->calibrates,
                        "Measure the speed of the device for later plans (takes a few seconds)");
  CLI::Option* cards = command->add_flag("--cards", options->lists_cards,
                                         "List the cards that can be planned for by name");
  for (const char* other : {"--model", "--data", "--vocabulary", "--set", "--sample", "--seed"}) {
    calibrates->excludes(command->get_option(other));
    cards->excludes(command->get_option(other));
  }
  cards->excludes(calibrates);
  command->add_option("--device", options->device, "Device to measure: cpu, cuda or cuda:N")
      ->needs(calibrates);
  command->add_flag("--json", options->json, "Print JSON, bytes as whole numbers");
  command->footer(example("  sotto profile\n  sotto profile --model xls-r-1b"));
  command->callback([options] { run_profile(*options); });
}

}  // namespace sotto::cli
