#include "sotto/plan/host_choices.h"

#include <algorithm>
#include <cmath>

#include "sotto/core/units.h"
#include "sotto/train/step/run_data.h"

namespace sotto::plan {

namespace {

using train::RunConfig;

// More threads did not increase training speed in measurements with a GPU.
constexpr int64_t kMostThreads = 8;
// Decoded audio may take one part in this many of the free memory.
constexpr int64_t kCachedPart = 4;
// Writing checkpoints takes at most one part in this many of the time, on a disk of this speed.
constexpr double kPartsBetweenCheckpoints = 50.0;
constexpr double kDiskBytesPerS = 200e6;
constexpr double kLeastIntervalSeconds = 600.0;

Reason choose_threads(RunConfig& config, bool is_cuda, const device::HostInfo& host) {
  int64_t& threads = config.data.loader_threads;
  std::string brief, why;
  if (config.model.task().is_text()) {
    threads = 1;
    brief = why = "text needs no decoding";
  } else if (!is_cuda) {
    threads = 1;
    brief = why = "one thread prefetches, the others compute";
  } else {
    threads = std::clamp<int64_t>(host.num_cores - 1, 1, kMostThreads);
    brief = why = fmt::format("{} cores, one of them reserved for the step", host.num_cores);
  }
  return {
      .key = "data.loader_threads", .value = std::to_string(threads), .brief = brief, .why = why};
}

Reason choose_cache(RunConfig& config, double decoded_bytes, int64_t room_bytes) {
  const bool is_kept = !config.is_single_pass() && decoded_bytes <= static_cast<double>(room_bytes);
  config.data.cache = is_kept ? data::CacheKind::kMemory : data::CacheKind::kNone;
  const std::string size = format_bytes(std::llround(decoded_bytes));
  std::string brief = fmt::format("{} decoded, which does not fit into RAM", size);
  std::string why;
  if (is_kept) {
    brief = fmt::format("{} decoded, which fits into RAM", size);
    why = fmt::format("the decoded audio takes {}, which fits into RAM", size);
  } else if (config.is_single_pass()) {
    brief = why = "one epoch reads every file once";
  } else {
    why = fmt::format("the decoded audio takes {}, more than a quarter of the free RAM ({})", size,
                      format_bytes(room_bytes));
  }
  return {.key = "data.cache",
          .value = std::string(name_of(config.data.cache, data::kCacheKinds)),
          .brief = brief,
          .why = why};
}

// Bytes of weights, moments and remainders.
int64_t checkpoint_bytes(const device::MemoryReport& worst, const RunConfig& config) {
  const auto at = [&](device::Category category) {
    return worst.at_peak[static_cast<size_t>(category)];
  };
  const int64_t state = config.optimizer.state == optim::StateLocation::kHost
                            ? worst.host_peak
                            : at(device::Category::kOptimizer);
  return at(device::Category::kWeights) + state;
}

Reason choose_interval(RunConfig& config, const device::MemoryReport& worst) {
  const int64_t bytes = checkpoint_bytes(worst, config);
  const double writing_s = static_cast<double>(bytes) / kDiskBytesPerS;
  config.checkpoint_seconds =
      60.0 *
      std::ceil(std::max(kLeastIntervalSeconds, kPartsBetweenCheckpoints * writing_s) / 60.0);
  const double percent = 100.0 * writing_s / config.checkpoint_seconds;
  return {
      .key = "checkpoint_seconds",
      .value = format_duration(config.checkpoint_seconds),
      .brief = fmt::format("{} each, {:.1f} % of the time", format_bytes(bytes), percent),
      .why = fmt::format("at most {} of work is lost; writing {} takes under {:.1f} % of the time",
                         format_duration(config.checkpoint_seconds), format_bytes(bytes),
                         std::ceil(10.0 * percent) / 10.0)};
}

// Cutting or skipping utterances changes the result, so the budget never decides it.
Reason explain_chunking(const RunConfig& config, std::vector<float> lengths) {
  std::ranges::sort(lengths);
  const auto at_share = [&](double share) {
    const auto index = static_cast<size_t>(share * static_cast<double>(lengths.size() - 1));
    return double{lengths[index]};
  };
  const double longest_s = at_share(1.0);
  std::string brief = fmt::format("the longest utterance, {:.1f} s, fits", longest_s);
  std::string why = fmt::format(
      "the longest utterance, {:.1f} s, fits (median {:.1f} s, 99th percentile {:.1f} s)",
      longest_s, at_share(0.5), at_share(0.99));
  if (config.data.too_large != data::Policy::kError) {
    brief = fmt::format("the longest remaining utterance has {:.1f} s", longest_s);
    why = fmt::format(
        "applied to utterances that do not fit; the longest remaining one has {:.1f} s (median "
        "{:.1f} s, 99th percentile {:.1f} s)",
        longest_s, at_share(0.5), at_share(0.99));
  }
  return {.key = "data.too_large",
          .value = std::string(name_of(config.data.too_large, data::kTooLongPolicies)),
          .brief = brief,
          .why = why};
}

int64_t largest_tensor_bytes(const PlanRequest& request) {
  const std::unique_ptr<models::Model> model =
      request.config.model.make(request.shape, {.device = at::kMeta});
  int64_t most = 0;
  for (const nn::Parameter& parameter : model->parameters().parameters())
    most = std::max(most, parameter.spec.num_values());
  return 4 * most;
}

}  // namespace

HostChoices choose_on_host(Candidate& candidate, const PlanRequest& request,
                           const data::Source& source, double epoch_s,
                           const device::HostInfo& host) {
  RunConfig& config = candidate.config;
  const bool is_cuda = request.target.is_cuda();
  const bool is_text = config.model.task().is_text();
  const bool is_audio = !is_text && request.shape.feature_dim == 0;
  HostChoices choices;
  choices.memory.kept = candidate.fit.worst.host_peak;
  // On a CPU, device memory is host memory.
  const int64_t taken = choices.memory.kept + (is_cuda ? 0 : request.budget.bytes);
  const int64_t room = std::max<int64_t>(0, host.free_bytes - taken) / kCachedPart;
  const double decoded_bytes =
      is_audio ? 4.0 * static_cast<double>(config.model.sample_rate()) * epoch_s : 0.0;
  if (request.open.loader_threads) choices.reasons.push_back(choose_threads(config, is_cuda, host));
  if (request.open.cache && is_audio)
    choices.reasons.push_back(choose_cache(config, decoded_bytes, room));
  if (request.open.checkpoint_seconds)
    choices.reasons.push_back(choose_interval(config, candidate.fit.worst));
  if (!is_text) {
    Reason chunking = explain_chunking(config, source.lengths());
    chunking.is_setting = false;
    choices.reasons.push_back(std::move(chunking));
  }
  choices.memory.decoded_ahead = is_text ? 0 : train::loader_bytes(config.data);
  if (config.data.cache == data::CacheKind::kMemory)
    choices.memory.audio_cache =
        std::min(static_cast<int64_t>(decoded_bytes), host.free_bytes / kCachedPart);
  choices.memory.checkpoint = 2 * largest_tensor_bytes(request);
  return choices;
}

}  // namespace sotto::plan
