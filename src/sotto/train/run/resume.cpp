#include "sotto/train/run/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <map>
#include <string_view>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/optim/schedule.h"
#include "sotto/train/run/run_files.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

void note(const Note& noted, const std::string& text) {
  if (noted) noted(text);
}

// Returns the last intact checkpoint of the list.
std::optional<fs::path> newest_whole(const std::vector<fs::path>& all, const Note& noted) {
  for (auto path = all.rbegin(); path != all.rend(); ++path) {
    try {
      check_checkpoint(*path, CheckpointPart::kAll);
      return *path;
    } catch (const DataError& error) {
      note(noted, fmt::format("{} cannot be used: {}", path->string(), error.what()));
    }
  }
  return std::nullopt;
}

// What happens when a setting is given again with a different value.
enum class Rule {
  // It changes the result.
  kRefused,
  // It changes only the speed or the length of the run.
  kAllowed,
  // The contents of the named files are compared, wherever they are stored.
  kContent
};

struct KeyRule {
  // A key, or a prefix of several keys up to a dot.
  std::string_view key;
  Rule rule;
};

// Keys that are not listed are refused.
constexpr std::array kRules = {
    KeyRule{"name", Rule::kAllowed},
    KeyRule{"memory", Rule::kAllowed},
    KeyRule{"host_memory", Rule::kAllowed},
    KeyRule{"device", Rule::kAllowed},
    KeyRule{"deterministic", Rule::kAllowed},
    // State is converted where that is lossless; otherwise loading refuses it.
    KeyRule{"numerics", Rule::kAllowed},
    KeyRule{"precision.", Rule::kAllowed},
    KeyRule{"tier", Rule::kAllowed},
    KeyRule{"optimizer.state", Rule::kAllowed},
    KeyRule{"model.loss_rows", Rule::kAllowed},
    KeyRule{"micro_batch", Rule::kAllowed},
    KeyRule{"max_frames", Rule::kAllowed},
    KeyRule{"evaluation_micro_batch", Rule::kAllowed},
    KeyRule{"adaptive_batching", Rule::kAllowed},
    KeyRule{"epochs", Rule::kAllowed},
    KeyRule{"max_steps", Rule::kAllowed},
    KeyRule{"evaluate_every", Rule::kAllowed},
    KeyRule{"checkpoint_every", Rule::kAllowed},
    KeyRule{"checkpoint_seconds", Rule::kAllowed},
    KeyRule{"keep_checkpoints", Rule::kAllowed},
    KeyRule{"keep_best", Rule::kAllowed},
    // Like other evaluation data, another search is noted.
    KeyRule{"decode.", Rule::kAllowed},
    KeyRule{"early_stopping", Rule::kAllowed},
    KeyRule{"early_stopping_difference", Rule::kAllowed},
    KeyRule{"release_caches_every", Rule::kAllowed},
    KeyRule{"data.loader_threads", Rule::kAllowed},
    KeyRule{"data.loader_memory", Rule::kAllowed},
    KeyRule{"data.cache", Rule::kAllowed},
    KeyRule{"data.cache_size", Rule::kAllowed},
    // Training data is compared when it is read; other evaluation data is noted.
    KeyRule{"data.train", Rule::kAllowed},
    KeyRule{"data.dev", Rule::kAllowed},
    KeyRule{"data.tokenizer", Rule::kContent},
};

Rule rule_of(std::string_view key) {
  for (const KeyRule& entry : kRules) {
    if (entry.key.ends_with('.') ? key.starts_with(entry.key) : key == entry.key) return entry.rule;
  }
  return Rule::kRefused;
}

// Removes YAML quotes: the value as a user would write it.
std::string without_quotes(const std::string& value) {
  const bool is_quoted = value.size() > 2 && value.front() == '"' && value.back() == '"';
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

struct Difference {
  std::string key;
  std::string was;
  std::string is;

  std::string to_string() const {
    if (key == "stages") return "the stages are not those of the run";
    return fmt::format("{} was {} and is {}", key, without_quotes(was), without_quotes(is));
  }
};

std::vector<Difference> differences(const RunConfig& before, const RunConfig& config) {
  std::map<std::string, std::string> was;
  for (const OptionInfo& option : list_options(before)) was[option.key] = option.value;
  std::vector<Difference> found;
  for (const OptionInfo& option : list_options(config)) {
    const auto entry = was.find(option.key);
    if (entry != was.end() && entry->second == option.value) continue;
    found.push_back({.key = option.key,
                     .was = entry == was.end() ? "absent" : entry->second,
                     .is = option.value});
    // Another preset changes all keys of the network: report only the preset.
    if (option.key == "model.preset") break;
  }
  return found;
}

bool is_refused(const Difference& difference, const Checkpoint& checkpoint,
                const RunConfig& config) {
  // A run that stopped at a broken file may be resumed without it; the other utterances are the
  // same.
  if (difference.key == "data.broken") return difference.is != "skip";
  switch (rule_of(difference.key)) {
    case Rule::kAllowed: return false;
    case Rule::kRefused: return true;
    case Rule::kContent:
      return config.data.tokenizer.empty() ||
             data::Tokenizer::read(config.data.tokenizer, checkpoint.tokenizer.rules())
                     .fingerprint() != checkpoint.tokenizer.fingerprint();
  }
  return true;
}

// A checkpoint without read permission is neither missing nor damaged.
void check_readable(const fs::path& folder) {
  if (access(folder.c_str(), R_OK | X_OK) == 0 || errno != EACCES) return;
  throw DataError({.attempted = fmt::format("reading {}", folder.string()),
                   .found = "permission denied",
                   .expected = "a checkpoint that this user may read"});
}

// Checkpoints of an earlier run in a folder, each list oldest first.
struct EarlierRun {
  std::vector<fs::path> checkpoints;
  // Fallbacks where none of them can be used, in ascending preference: the best one, then those
  // that were set aside.
  std::vector<fs::path> others;

  explicit EarlierRun(const fs::path& folder)
      : checkpoints(list_checkpoints(folder)), others(list_set_aside(folder)) {
    const fs::path best = folder / kBestFolder;
    std::error_code ignored;
    if (fs::exists(best, ignored)) check_readable(best);
    if (is_checkpoint(best)) others.insert(others.begin(), best);
    for (const fs::path& path : checkpoints) check_readable(path);
  }
  bool is_there() const { return !checkpoints.empty() || !others.empty(); }
};

bool is_inside(const fs::path& path, const fs::path& folder) {
  const fs::path from_folder =
      fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !from_folder.empty() && *from_folder.begin() != "..";
}

// A run resumed from elsewhere would overwrite the run in this folder.
void check_named(const fs::path& checkpoint, const fs::path& folder) {
  std::error_code ignored;
  if (!is_checkpoint(checkpoint) && fs::is_directory(checkpoint, ignored) &&
      EarlierRun(checkpoint).is_there())
    throw ConfigError(
        {.attempted = fmt::format("resuming from {}", checkpoint.string()),
         .found = "the folder of a run",
         .expected = "one of its checkpoints",
         .hint = fmt::format("--out {} --resume uses the latest of them.", checkpoint.string())});
  if (!fs::exists(checkpoint, ignored))
    throw DataError({.attempted = fmt::format("resuming from {}", checkpoint.string()),
                     .found = "no such folder",
                     .expected = "a checkpoint of a run"});
  check_checkpoint(checkpoint, CheckpointPart::kAll);
  if (is_inside(checkpoint, folder) || !EarlierRun(folder).is_there()) return;
  throw ConfigError({.attempted = fmt::format("resuming from {}", checkpoint.string()),
                     .found = fmt::format("checkpoints of another run in {}", folder.string()),
                     .expected = "the run's own folder, or one without checkpoints",
                     .hint = "Choose another folder with --out or another name."});
}

}  // namespace

AliasedRequest request_with(const AliasedRequest& named, bool resumes) {
  if (resumes && named.resume_from)
    throw ConfigError({.attempted = "resuming a run",
                       .found = fmt::format("--resume, which uses the latest checkpoint, and "
                                            "resume_from_checkpoint={}",
                                            named.resume_from->string()),
                       .expected = "one of them"});
  return {.resumes = resumes || named.resumes, .resume_from = named.resume_from};
}

std::optional<fs::path> choose_checkpoint(const FolderLock& lock, const AliasedRequest& request,
                                          const Note& noted) {
  if (request.resume_from) {
    check_named(*request.resume_from, lock.folder());
    return request.resume_from;
  }
  // A checkpoint that was being replaced may be restored to its name.
  if (request.resumes) clear_leftovers(lock.folder());
  const EarlierRun earlier(lock.folder());
  if (!request.resumes) {
    if (!earlier.is_there()) return std::nullopt;
    throw ConfigError({.attempted = fmt::format("starting a run in {}", lock.folder().string()),
                       .found = "checkpoints of an earlier run",
                       .expected = "a folder without checkpoints",
                       .hint = "--resume continues it; --out or another name starts a new one."});
  }
  if (std::optional<fs::path> newest = newest_whole(earlier.checkpoints, noted)) return newest;
  if (std::optional<fs::path> newest = newest_whole(earlier.others, noted)) {
    note(noted, fmt::format("no other checkpoint of the run can be used: continuing from {}",
                            newest->string()));
    return newest;
  }
  note(noted,
       fmt::format("{} has no usable checkpoint: starting from scratch", lock.folder().string()));
  return std::nullopt;
}

RunConfig resumed_config(const RunConfig& before, const ConfigNode& named) {
  RunConfig config = before;
  const ConfigNode* const numerics = named.find("numerics");
  if (numerics != nullptr && numerics->text != name_of(before.numerics, kNumerics))
    config.precision = {};
  read_group(named, as_group(config));
  return config;
}

std::vector<std::string> check_settings(const Checkpoint& checkpoint, const RunConfig& config) {
  std::vector<std::string> notes;
  std::vector<std::string> refused;
  for (const Difference& difference : differences(checkpoint.config, config)) {
    auto& list = is_refused(difference, checkpoint, config) ? refused : notes;
    list.push_back(difference.to_string());
  }
  if (refused.empty()) return notes;
  throw ConfigError({.attempted = "resuming a run",
                     .found = fmt::format("{}", fmt::join(refused, "; ")),
                     .expected = "the settings of the run",
                     .hint = "Omit them to continue with those, or start a new run with another "
                             "name; --init-from gives it the weights of this one."});
}

uint64_t order_fingerprint(const data::Source& source) {
  const std::vector<float> lengths = source.lengths();
  uint64_t hash = lengths.size();
  for (size_t index = 0; index < lengths.size(); ++index) {
    const auto utterance = static_cast<uint64_t>(source.utterance_at(static_cast<int64_t>(index)));
    hash = hash_combine(hash, utterance << 32U ^ std::bit_cast<uint32_t>(lengths[index]));
  }
  return hash;
}

namespace {

constexpr const char* kNewRun =
    "Restore it, or start a new run with another name; --init-from gives it the weights of this "
    "one.";

[[noreturn]] void refuse_data(const std::string& found, const std::string& hint) {
  throw DataError({.attempted = "resuming a run",
                   .found = found,
                   .expected = "the data of the run so far",
                   .hint = hint});
}

}  // namespace

void check_lines(const Checkpoint& before, uint64_t fingerprint, const fs::path& file) {
  if (before.state.data_fingerprint == fingerprint) return;
  const fs::path& was = before.config.data.train;
  refuse_data(was == file ? fmt::format("{} has changed", file.string())
                          : fmt::format("{} differs from {}", file.string(), was.string()),
              kNewRun);
}

void check_items(const RunState& before, const data::Source& source) {
  if (before.order_fingerprint != 0 && before.order_fingerprint != order_fingerprint(source))
    refuse_data(fmt::format("the utterances selected from {} have changed", source.name()),
                before.longest_fitting_s > 0.0
                    ? "data.too_large skips what does not fit: use the same --memory as before."
                    : kNewRun);
  if (before.file_hashes.empty()) return;
  const std::vector<data::FileHash> files = source.hash_files(kHashedFiles);
  std::string first;
  int64_t num_changed = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i < before.file_hashes.size() && files[i].hash == before.file_hashes[i]) continue;
    if (num_changed++ == 0) first = files[i].path;
  }
  if (num_changed == 0 && files.size() == before.file_hashes.size()) return;
  refuse_data(
      fmt::format("{} of {} compared files have changed since the run began, the first is {}",
                  num_changed, files.size(), first),
      kNewRun);
}

RunLength length_of(const RunConfig& config, int64_t steps_per_epoch) {
  const int64_t total = total_steps(config, steps_per_epoch);
  return {.total_steps = total, .schedule_steps = total};
}

RunLength length_of(const RunConfig& config, int64_t steps_per_epoch, const Checkpoint& before) {
  const int64_t schedule = before.state.schedule_steps > 0
                               ? before.state.schedule_steps
                               : total_steps(before.config, steps_per_epoch);
  const int64_t all = config.epochs * steps_per_epoch;
  int64_t total = all;
  if (config.max_steps > 0 && config.max_steps != before.config.max_steps) {
    total = config.max_steps;
  } else if (config.max_steps > 0) {
    total = std::min(config.max_steps, std::max(all, schedule));
  }
  return {.total_steps = total, .schedule_steps = std::max(schedule, total)};
}

std::string describe_change(const RunLength& before, const RunLength& now, int64_t next_step,
                            const optim::ScheduleOptions& schedule) {
  if (now.schedule_steps == before.schedule_steps) {
    if (now.total_steps >= now.schedule_steps || now.total_steps == before.total_steps) return {};
    return fmt::format("the run stops at step {}; its schedule remains that of {} steps",
                       now.total_steps, now.schedule_steps);
  }
  const double was = optim::rate_at(schedule, next_step, before.schedule_steps);
  const double is = optim::rate_at(schedule, next_step, now.schedule_steps);
  std::string text = fmt::format("the run is extended from {} to {} steps: ", before.schedule_steps,
                                 now.schedule_steps);
  if (was == is) return text + fmt::format("the rate of step {} stays {:.2e}", next_step, is);
  return text + fmt::format(
                    "its schedule is stretched, and the rate of step {} is {:.2e} instead "
                    "of {:.2e}",
                    next_step, is, was);
}

}  // namespace sotto::train
