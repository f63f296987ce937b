#include "sotto/train/run/padding.h"

#include <algorithm>

namespace sotto::train {

namespace {

// Adds up batches and what they would take if padded to their longest item.
struct PaddedSum {
  double used = 0.0;
  double padded = 0.0;

  void add(std::span<const float> batch) {
    if (batch.empty()) return;
    for (const float length : batch) used += static_cast<double>(length);
    padded += static_cast<double>(std::ranges::max(batch)) * static_cast<double>(batch.size());
  }
  double wasted_share() const { return padded > 0.0 ? 1.0 - used / padded : 0.0; }
};

}  // namespace

Padding padding_of(std::span<const float> lengths, const data::EpochOrder& epoch) {
  if (lengths.empty() || epoch.num_steps() == 0) return {};
  PaddedSum shuffled, sorted;
  std::vector<float> batch;
  for (int64_t step = 0; step < epoch.num_steps(); ++step) {
    batch.clear();
    for (const uint32_t item : epoch.utterances(step)) batch.push_back(lengths[item]);
    shuffled.add(batch);
  }
  const auto size =
      static_cast<size_t>((std::ssize(lengths) + epoch.num_steps() - 1) / epoch.num_steps());
  std::vector<float> by_length(lengths.begin(), lengths.end());
  std::ranges::sort(by_length);
  for (size_t first = 0; first < by_length.size(); first += size)
    sorted.add(std::span(by_length).subspan(first, std::min(size, by_length.size() - first)));
  return {.batch = static_cast<int64_t>(size),
          .shuffled_share = shuffled.wasted_share(),
          .sorted_share = sorted.wasted_share()};
}

}  // namespace sotto::train
