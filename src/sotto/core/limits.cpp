#include "sotto/core/limits.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "sotto/core/error.h"

namespace sotto {

namespace {

struct Field {
  std::string_view key;
  int64_t MicroBatchLimits::* value;
};

constexpr std::array kFields = {Field{"max_frames", &MicroBatchLimits::max_frames},
                                Field{"max_labels", &MicroBatchLimits::max_labels},
                                Field{"max_nodes", &MicroBatchLimits::max_nodes},
                                Field{"max_utterances", &MicroBatchLimits::max_utterances}};

constexpr const char* kAdaptive = "adaptive";

[[noreturn]] void refuse_limits(const std::string& found, const std::string& expected) {
  throw DataError(
      {.attempted = "reading the limits of micro-batches", .found = found, .expected = expected});
}

}  // namespace

MicroBatchLimits raised_to(MicroBatchLimits limits, const LargestItem& item) {
  limits.max_frames = std::max(limits.max_frames, item.frames);
  limits.max_labels = std::max(limits.max_labels, item.labels);
  limits.max_nodes = std::max(limits.max_nodes, item.nodes);
  return limits;
}

MicroBatchLimits narrower(const MicroBatchLimits& a, const MicroBatchLimits& b) {
  return {.max_frames = std::min(a.max_frames, b.max_frames),
          .max_labels = std::min(a.max_labels, b.max_labels),
          .max_nodes = std::min(a.max_nodes, b.max_nodes),
          .max_utterances = std::min(a.max_utterances, b.max_utterances),
          .is_adaptive = a.is_adaptive && b.is_adaptive};
}

std::string describe(const MicroBatchLimits& limits) {
  std::string text;
  if (limits.is_adaptive && limits.max_frames != MicroBatchLimits::kUnlimited)
    text = fmt::format("{} frames", limits.max_frames);
  if (limits.max_utterances != MicroBatchLimits::kUnlimited)
    text += fmt::format("{}{} utterances", text.empty() ? "" : " and ", limits.max_utterances);
  return text.empty() ? "the whole step" : text;
}

nlohmann::json to_json(const MicroBatchLimits& limits) {
  nlohmann::json json = nlohmann::json::object();
  for (const Field& field : kFields) {
    const int64_t value = limits.*field.value;
    const bool is_unlimited = value == MicroBatchLimits::kUnlimited;
    // Networks without a lattice write what they always wrote.
    if (is_unlimited && field.value == &MicroBatchLimits::max_nodes) continue;
    json[std::string(field.key)] = is_unlimited ? nlohmann::json() : nlohmann::json(value);
  }
  json[kAdaptive] = limits.is_adaptive;
  return json;
}

MicroBatchLimits limits_from_json(const nlohmann::json& json) {
  if (!json.is_object()) refuse_limits(json.dump(), "an object");
  MicroBatchLimits limits;
  for (const auto& [key, value] : json.items()) {
    if (key == kAdaptive) {
      if (!value.is_boolean())
        refuse_limits(fmt::format("{} is {}", key, value.dump()), "true or false");
      limits.is_adaptive = value.get<bool>();
      continue;
    }
    const Field* known = nullptr;
    for (const Field& field : kFields) {
      if (field.key == key) known = &field;
    }
    if (known == nullptr) {
      refuse_limits(fmt::format("unknown key '{}'", key),
                    "max_frames, max_labels, max_nodes, max_utterances and adaptive");
    }
    if (value.is_null()) continue;
    // Older runs on a corpus without labels wrote 0.
    if (known->value == &MicroBatchLimits::max_labels && value == 0) {
      limits.max_labels = 1;
      continue;
    }
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      refuse_limits(fmt::format("{} is {}", key, value.dump()), "a whole number of at least 1");
    limits.*known->value = value.get<int64_t>();
  }
  return limits;
}

}  // namespace sotto
