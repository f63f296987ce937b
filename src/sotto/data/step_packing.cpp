#include "sotto/data/step_packing.h"

#include <algorithm>

namespace sotto::data {

namespace {

struct Room {
  int64_t frames, labels, utterances;

  bool takes(const UtteranceSize& size) const {
    return size.frames <= frames && size.labels <= labels && utterances > 0;
  }
  void take(const UtteranceSize& size) {
    frames -= size.frames;
    labels -= size.labels;
    --utterances;
  }
};

Room whole_room(const MicroBatchLimits& limits) {
  return {.frames = limits.max_frames,
          .labels = limits.max_labels,
          .utterances = limits.max_utterances};
}

// First fit of the places in the given order.
std::vector<std::vector<int64_t>> first_fit(std::span<const UtteranceSize> sizes,
                                            const MicroBatchLimits& limits,
                                            const std::vector<int64_t>& places) {
  std::vector<std::vector<int64_t>> micro_batches;
  std::vector<Room> rooms;
  for (const int64_t place : places) {
    const UtteranceSize& size = sizes[static_cast<size_t>(place)];
    const auto room =
        std::ranges::find_if(rooms, [&](const Room& candidate) { return candidate.takes(size); });
    const auto index = static_cast<size_t>(room - rooms.begin());
    if (room == rooms.end()) {
      rooms.push_back(whole_room(limits));
      micro_batches.emplace_back();
    }
    rooms[index].take(size);
    micro_batches[index].push_back(place);
  }
  return micro_batches;
}

}  // namespace

StepPacking pack_step(std::span<const UtteranceSize> sizes, const MicroBatchLimits& limits) {
  StepPacking packing;
  std::vector<int64_t> places;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool fits = whole_room(limits).takes(sizes[i]);
    (fits ? places : packing.too_large).push_back(static_cast<int64_t>(i));
  }
  const auto of = [&](int64_t UtteranceSize::* field) {
    return [&sizes, field](int64_t place) { return sizes[static_cast<size_t>(place)].*field; };
  };
  // Stable: equals stay in the order of the step.
  std::ranges::stable_sort(places, std::greater<>(), of(&UtteranceSize::frames));
  packing.micro_batches = first_fit(sizes, limits, places);
  std::ranges::stable_sort(places, std::greater<>(), of(&UtteranceSize::labels));
  std::vector<std::vector<int64_t>> by_labels = first_fit(sizes, limits, places);
  if (by_labels.size() < packing.micro_batches.size()) packing.micro_batches = by_labels;

  const auto longest = [&](const std::vector<int64_t>& micro_batch) {
    int64_t frames = 0;
    for (const int64_t place : micro_batch)
      frames = std::max(frames, of(&UtteranceSize::frames)(place));
    return frames;
  };
  std::ranges::stable_sort(packing.micro_batches, std::greater<>(), longest);
  for (std::vector<int64_t>& micro_batch : packing.micro_batches) std::ranges::sort(micro_batch);
  return packing;
}

}  // namespace sotto::data
