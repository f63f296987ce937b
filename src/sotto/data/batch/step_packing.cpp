#include "sotto/data/batch/step_packing.h"

#include <algorithm>
#include <optional>

namespace sotto::data {

namespace {

using MicroBatches = std::vector<std::vector<int64_t>>;

struct Room {
  int64_t frames, labels, nodes, utterances;

  bool takes(const ItemSize& size) const {
    return size.frames <= frames && size.labels <= labels && size.nodes <= nodes && utterances > 0;
  }
  void take(const ItemSize& size) {
    frames -= size.frames;
    labels -= size.labels;
    nodes -= size.nodes;
    --utterances;
  }
};

Room whole_room(const MicroBatchLimits& limits) {
  return {.frames = limits.max_frames,
          .labels = limits.max_labels,
          .nodes = limits.max_nodes,
          .utterances = limits.max_utterances};
}

// First fit of the indices in the given order.
MicroBatches first_fit(std::span<const ItemSize> sizes, const MicroBatchLimits& limits,
                       const std::vector<int64_t>& positions) {
  MicroBatches micro_batches;
  std::vector<Room> rooms;
  for (const int64_t position : positions) {
    const ItemSize& size = sizes[static_cast<size_t>(position)];
    const auto room =
        std::ranges::find_if(rooms, [&](const Room& candidate) { return candidate.takes(size); });
    const auto index = static_cast<size_t>(room - rooms.begin());
    if (room == rooms.end()) {
      rooms.push_back(whole_room(limits));
      micro_batches.emplace_back();
    }
    rooms[index].take(size);
    micro_batches[index].push_back(position);
  }
  return micro_batches;
}

// Returns a lower bound of the number of micro-batches.
int64_t fewest_conceivable(std::span<const ItemSize> sizes, const MicroBatchLimits& limits,
                           const std::vector<int64_t>& positions) {
  int64_t frames = 0;
  int64_t labels = 0;
  int64_t nodes = 0;
  for (const int64_t position : positions) {
    frames += sizes[static_cast<size_t>(position)].frames;
    labels += sizes[static_cast<size_t>(position)].labels;
    nodes += sizes[static_cast<size_t>(position)].nodes;
  }
  const auto needed = [](int64_t total, int64_t limit) { return (total - 1) / limit + 1; };
  return std::max({needed(frames, limits.max_frames), needed(labels, limits.max_labels),
                   needed(nodes, limits.max_nodes),
                   needed(std::ssize(positions), limits.max_utterances), int64_t{1}});
}

// Distributes to `count` micro-batches, each utterance to the shortest that has room; std::nullopt
// if one has no room.
std::optional<MicroBatches> spread(std::span<const ItemSize> sizes, const MicroBatchLimits& limits,
                                   const std::vector<int64_t>& positions, int64_t count) {
  MicroBatches micro_batches(static_cast<size_t>(count));
  std::vector<Room> rooms(static_cast<size_t>(count), whole_room(limits));
  for (const int64_t position : positions) {
    const ItemSize& size = sizes[static_cast<size_t>(position)];
    std::optional<size_t> best;
    for (size_t i = 0; i < rooms.size(); ++i) {
      if (rooms[i].takes(size) && (!best || rooms[i].frames > rooms[*best].frames)) best = i;
    }
    if (!best) return std::nullopt;
    rooms[*best].take(size);
    micro_batches[*best].push_back(position);
  }
  return micro_batches;
}

MicroBatches pack(std::span<const ItemSize> sizes, const MicroBatchLimits& limits,
                  std::vector<int64_t> positions) {
  if (positions.empty()) return {};
  const auto by = [&](int64_t ItemSize::* field) {
    return
        [&sizes, field](int64_t position) { return sizes[static_cast<size_t>(position)].*field; };
  };
  // Stable: equal items stay in the order of the step.
  std::vector<int64_t> by_labels = positions;
  std::ranges::stable_sort(by_labels, std::greater<>(), by(&ItemSize::labels));
  std::ranges::stable_sort(positions, std::greater<>(), by(&ItemSize::frames));
  MicroBatches fitted = first_fit(sizes, limits, positions);
  MicroBatches fitted_by_labels = first_fit(sizes, limits, by_labels);
  if (fitted_by_labels.size() < fitted.size()) fitted = std::move(fitted_by_labels);
  for (int64_t count = fewest_conceivable(sizes, limits, positions); count <= std::ssize(fitted);
       ++count) {
    for (const std::vector<int64_t>& order : {positions, by_labels}) {
      if (std::optional<MicroBatches> found = spread(sizes, limits, order, count))
        return std::move(*found);
    }
  }
  return fitted;
}

MicroBatches pack_by_count(int64_t num_utterances, int64_t count) {
  MicroBatches micro_batches;
  for (int64_t position = 0; position < num_utterances; ++position) {
    if (micro_batches.empty() || std::ssize(micro_batches.back()) == count)
      micro_batches.emplace_back();
    micro_batches.back().push_back(position);
  }
  return micro_batches;
}

}  // namespace

StepPacking pack_step(std::span<const ItemSize> sizes, const MicroBatchLimits& limits) {
  StepPacking packing;
  if (limits.is_adaptive) {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool fits = whole_room(limits).takes(sizes[i]);
      (fits ? positions : packing.too_large).push_back(static_cast<int64_t>(i));
    }
    packing.micro_batches = pack(sizes, limits, std::move(positions));
  } else {
    packing.micro_batches = pack_by_count(std::ssize(sizes), limits.max_utterances);
  }
  const auto longest = [&](const std::vector<int64_t>& micro_batch) {
    int64_t frames = 0;
    for (const int64_t position : micro_batch)
      frames = std::max(frames, sizes[static_cast<size_t>(position)].frames);
    return frames;
  };
  std::ranges::stable_sort(packing.micro_batches, std::greater<>(), longest);
  for (std::vector<int64_t>& micro_batch : packing.micro_batches) std::ranges::sort(micro_batch);
  return packing;
}

}  // namespace sotto::data
