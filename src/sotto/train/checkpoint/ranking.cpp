#include "sotto/train/checkpoint/ranking.h"

#include <algorithm>
#include <optional>
#include <set>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

std::optional<RunState> readable_state(const fs::path& folder) {
  try {
    return read_state(folder);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Returns the best checkpoints of each evaluation data and, where asked for, of each stage, and
// those that cannot be ranked because their state cannot be read.
std::set<fs::path> best_or_unreadable(const fs::path& run_folder, const KeptCheckpoints& kept) {
  std::set<fs::path> found;
  std::set<uint64_t> fingerprints;
  std::set<int64_t> stages;
  const auto add_best = [&](const std::vector<RankedCheckpoint>& ranked, int64_t count) {
    for (int64_t i = 0; i < std::min(count, std::ssize(ranked)); ++i)
      found.insert(ranked[static_cast<size_t>(i)].path);
  };
  for (const fs::path& path : list_checkpoints(run_folder)) {
    const std::optional<RunState> state = readable_state(path);
    if (!state) {
      found.insert(path);
    } else if (state->metric) {
      fingerprints.insert(state->dev_fingerprint);
      if (kept.keeps_best_of_stages) stages.insert(state->stage);
    }
  }
  for (const uint64_t fingerprint : fingerprints) {
    add_best(rank_checkpoints(run_folder, fingerprint), kept.num_best);
    for (const int64_t stage : stages)
      add_best(rank_checkpoints(run_folder, fingerprint, stage), 1);
  }
  return found;
}

}  // namespace

std::vector<RankedCheckpoint> rank_checkpoints(const fs::path& run_folder, uint64_t dev_fingerprint,
                                               std::optional<int64_t> stage) {
  std::vector<RankedCheckpoint> ranked;
  for (const fs::path& path : list_checkpoints(run_folder)) {
    const std::optional<RunState> state = readable_state(path);
    if (state && state->metric && state->dev_fingerprint == dev_fingerprint &&
        (!stage || state->stage == *stage))
      ranked.push_back({.path = path, .step = state->step, .metric = *state->metric});
  }
  std::ranges::sort(ranked, [](const RankedCheckpoint& a, const RankedCheckpoint& b) {
    return a.metric != b.metric ? a.metric < b.metric : a.step > b.step;
  });
  return ranked;
}

uint64_t dev_fingerprint_of(const fs::path& run_folder) {
  const std::vector<fs::path> all = list_checkpoints(run_folder);
  for (auto path = all.rbegin(); path != all.rend(); ++path) {
    if (const std::optional<RunState> state = readable_state(*path)) return state->dev_fingerprint;
  }
  return 0;
}

bool is_among_best_checkpoints(const fs::path& run_folder, int64_t count, const RunState& state) {
  if (!state.metric || count == 0) return false;
  const std::vector<RankedCheckpoint> ranked = rank_checkpoints(run_folder, state.dev_fingerprint);
  const int64_t num_better = std::ranges::count_if(ranked, [&](const RankedCheckpoint& other) {
    return other.step != state.step && other.metric < *state.metric;
  });
  return num_better < count;
}

bool is_best_of_stage(const fs::path& run_folder, const RunState& state) {
  if (!state.metric) return false;
  return std::ranges::none_of(rank_checkpoints(run_folder, state.dev_fingerprint, state.stage),
                              [&](const RankedCheckpoint& other) {
                                return other.step != state.step && other.metric < *state.metric;
                              });
}

void remove_other_checkpoints(const fs::path& run_folder, const KeptCheckpoints& kept) {
  const std::set<fs::path> best = kept.num_best > 0 || kept.keeps_best_of_stages
                                      ? best_or_unreadable(run_folder, kept)
                                      : std::set<fs::path>();
  std::vector<fs::path> older = list_checkpoints(run_folder);
  older.resize(static_cast<size_t>(std::max(std::ssize(older) - kept.num_newest, int64_t{0})));
  for (const fs::path& path : older) {
    if (!best.contains(path)) remove_folder(path);
  }
}

}  // namespace sotto::train
