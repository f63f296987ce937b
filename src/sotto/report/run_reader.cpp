#include "sotto/report/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/folder_lock.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/words.h"
#include "sotto/report/run_files_json.h"
#include "sotto/report/run_records.h"

namespace sotto::report {

namespace {

namespace fs = std::filesystem;

// Of facts.json, memory.json and limits.json.
constexpr int64_t kFormatVersionOfFiles = 1;

// The end of a log is enough to see how the run ended.
constexpr std::streamoff kLogTail = std::streamoff{64} << 10;

// Not a DataError: a damaged file is left out, a newer one ends the report.
class NewerFormat : public std::exception {
 public:
  explicit NewerFormat(int64_t version) : version_(version) {}
  int64_t version() const { return version_; }

 private:
  int64_t version_;
};

void check_version(int64_t version, int64_t known) {
  if (version > known) throw NewerFormat(version);
}

// Reads one file of the folder, unless it is missing.
void read_file(RunContent& run, const char* name,
               const std::function<void(const fs::path&)>& read) {
  const fs::path path = run.folder / name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  try {
    read(path);
  } catch (const NewerFormat& newer) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = fmt::format("its format_version is {}", newer.version()),
                     .expected = "a format that this version knows",
                     .hint = "A newer sotto wrote this."});
  } catch (const std::exception& error) {
    run.problems.push_back(fmt::format("{}: {}", name, error.what()));
  }
}

nlohmann::json read_json(const fs::path& path) {
  // Reading a pipe would block until a writer opens it.
  const std::string text = fs::is_regular_file(path) ? read_text_file(path) : std::string();
  nlohmann::json json =
      parse_json_object(text, {.path = path, .part = "it", .expected = "a file of a run"});
  const auto version = json.find("format_version");
  if (version != json.end() && version->is_number_integer())
    check_version(version->get<int64_t>(), kFormatVersionOfFiles);
  return json;
}

void list_settings(const ConfigNode& node, const std::string& prefix,
                   std::vector<NamedText>& settings) {
  for (const ConfigNode& child : node.children) {
    const std::string key = prefix + child.key;
    if (child.kind == ConfigNode::Kind::kMap) {
      list_settings(child, key + ".", settings);
    } else if (child.is_scalar()) {
      settings.push_back({.name = key, .text = child.text});
    } else {
      settings.push_back({.name = key, .text = format_yaml_value(child)});
    }
  }
}

void read_configuration(RunContent& run, const fs::path& path) {
  const ConfigNode root = parse_yaml(read_text_file(path), path.string());
  if (root.kind != ConfigNode::Kind::kMap)
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = "no settings",
                     .expected = "a configuration as sotto writes it"});
  if (const ConfigNode* version = root.find("format_version"))
    check_version(parse_integer(version->text).value_or(0), kConfigFormatVersion);
  list_settings(root, "", run.settings);
}

// Returns the records before the first line that is none.
std::vector<nlohmann::json> records_before_damage(const fs::path& path) {
  std::vector<nlohmann::json> records;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) break;
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<nlohmann::json> read_records(RunContent& run, const fs::path& path) {
  try {
    return read_run_record(path).records;
  } catch (const DataError& error) {
    std::vector<nlohmann::json> records = records_before_damage(path);
    if (records.empty()) throw;
    run.problems.push_back(fmt::format("{}: {} The {} lines before it are used.",
                                       path.filename().string(), error.what(), records.size()));
    return records;
  }
}

void read_metrics(RunContent& run, const fs::path& path) {
  // The version first: what follows the header of a newer format may look like damage.
  std::ifstream file(path);
  std::string header;
  std::getline(file, header);
  const nlohmann::json first = nlohmann::json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (first.is_object() && first.contains("format_version") &&
      first["format_version"].is_number_integer())
    check_version(first["format_version"].get<int64_t>(), kRunRecordFormatVersion);
  const int64_t num_strange = add_records(read_records(run, path), run);
  if (num_strange > 0)
    run.problems.push_back(
        fmt::format("{}: {} of an unexpected form", path.filename().string(),
                    num_strange == 1 ? "1 line" : fmt::format("{} lines", num_strange)));
}

std::string tail_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kLogTail));
  return {std::istreambuf_iterator<char>(file), {}};
}

// How the latest process ended, as far as its log tells.
void read_log(RunContent& run, const fs::path& path) {
  if (!fs::is_regular_file(path)) return;
  const std::string log = tail_of(path);
  for (const std::string_view line : split_lines(log)) {
    if (line.starts_with("format_version ")) {
      run.state = RunState::kInterrupted;
      run.error.clear();
    } else if (line.starts_with("Done after step ")) {
      run.state = RunState::kComplete;
    } else if (line.starts_with("Stopped and saved")) {
      run.state = RunState::kStopped;
    } else if (line.starts_with("Stopped early")) {
      run.state = RunState::kEndedEarly;
    } else if (line.starts_with("sotto: ")) {
      run.state = RunState::kFailed;
      run.error = line.substr(std::string_view("sotto: ").size());
    }
  }
}

void find_state(RunContent& run) {
  if (is_locked(run.folder)) {
    run.state = RunState::kRunning;
    return;
  }
  read_file(run, "log.txt", [&](const fs::path& path) { read_log(run, path); });
  // A run without a log, such as one of the library.
  const bool has_all_steps = run.total_steps() > 0 && run.last_step() >= run.total_steps();
  if (run.state == RunState::kInterrupted && has_all_steps) run.state = RunState::kComplete;
  const bool is_short = run.total_steps() > 0 && !has_all_steps && run.problems.empty();
  if (run.state == RunState::kComplete && is_short)
    run.problems.push_back(fmt::format("metrics.jsonl: ends at step {} of {}, the last one",
                                       run.last_step(), run.total_steps()));
}

void find_checkpoints(RunContent& run) {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(run.folder / "checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-")) continue;
    if (const std::optional<int64_t> step = parse_integer(name.substr(5)))
      run.checkpoints.push_back(*step);
  }
  std::ranges::sort(run.checkpoints);
  run.has_best_checkpoint = fs::is_directory(run.folder / "best", error);
}

void check_folder(const fs::path& folder) {
  const std::string attempted = fmt::format("reading the run in {}", folder.string());
  std::error_code error;
  if (!fs::exists(folder, error))
    throw DataError({.attempted = attempted,
                     .found = error ? error.message() : "no such folder",
                     .expected = "the folder of a run",
                     .hint = "sotto train prints it as 'Files'."});
  if (!fs::is_directory(folder, error))
    throw DataError({.attempted = attempted, .found = "a file", .expected = "the folder of a run"});
  const bool is_empty = fs::is_empty(folder, error);
  if (error)
    throw DataError({.attempted = attempted,
                     .found = error.message(),
                     .expected = "a folder that this user may read"});
  if (is_empty)
    throw DataError({.attempted = attempted,
                     .found = "an empty folder",
                     .expected = "the folder of a run",
                     .hint = "sotto train --out writes one."});
  if (!fs::exists(folder / "metrics.jsonl", error) && !fs::exists(folder / "config.yaml", error))
    throw DataError({.attempted = attempted,
                     .found = "neither metrics.jsonl nor config.yaml",
                     .expected = "the folder of a run",
                     .hint = "Name the folder that sotto train prints as 'Files'."});
}

}  // namespace

RunContent read_run(const fs::path& folder) {
  check_folder(folder);
  RunContent run;
  run.folder = folder;
  const fs::path whole = fs::absolute(folder).lexically_normal();
  run.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  read_file(run, "config.yaml", [&](const fs::path& path) { read_configuration(run, path); });
  read_file(run, "facts.json",
            [&](const fs::path& path) { run.facts = facts_of(read_json(path)); });
  read_file(run, "memory.json",
            [&](const fs::path& path) { run.memory = step_memory_of(read_json(path)); });
  read_file(run, "limits.json",
            [&](const fs::path& path) { run.learned_limits = learned_limits_of(read_json(path)); });
  read_file(run, "metrics.jsonl", [&](const fs::path& path) { read_metrics(run, path); });
  find_checkpoints(run);
  find_state(run);
  return run;
}

}  // namespace sotto::report
