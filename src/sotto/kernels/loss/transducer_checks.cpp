#include "sotto/kernels/loss/transducer_checks.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {

namespace {

void check_labels(const Transducer::Inputs& in, int64_t num_entries, int64_t blank) {
  for (int64_t u = 0; u < in.labels.num_utterances(); ++u) {
    for (const int32_t label : in.labels.of(u)) {
      if (label >= 0 && label < num_entries && label != blank) continue;
      throw DataError({.attempted = "computing the transducer loss",
                       .found = fmt::format("label {}{} in utterance {} of the pack", label,
                                            label == blank ? ", the blank," : "", u),
                       .expected = fmt::format("labels from 0 to {} other than the blank, {}",
                                               num_entries - 1, blank),
                       .hint = "The labels must come from the tokenizer of this model."});
    }
  }
}

void check_durations(const std::vector<int64_t>& durations) {
  SOTTO_ASSERT(std::ssize(durations) <= Transducer::kMaxDurations, "{} durations",
               durations.size());
  for (size_t i = 0; i < durations.size(); ++i) {
    const bool is_new = std::find(durations.begin(), durations.begin() + static_cast<int64_t>(i),
                                  durations[i]) == durations.begin() + static_cast<int64_t>(i);
    SOTTO_ASSERT(durations[i] >= 0 && is_new, "a duration of {} frames at index {}", durations[i],
                 i);
  }
}

void check_layout(const Transducer::Inputs& in) {
  SOTTO_ASSERT(in.encoder.size(0) == in.frames.num_frames(), "{} rows for {} frames",
               in.encoder.size(0), in.frames.num_frames());
  SOTTO_ASSERT(in.prediction.size(0) == in.predictions.num_frames(), "{} rows for {} predictions",
               in.prediction.size(0), in.predictions.num_frames());
  const int64_t utterances = in.frames.num_utterances();
  SOTTO_ASSERT(
      in.predictions.num_utterances() == utterances && in.labels.num_utterances() == utterances,
      "frames of {} utterances, predictions of {}, labels of {}", utterances,
      in.predictions.num_utterances(), in.labels.num_utterances());
  for (size_t u = 0; u < in.labels.lengths().size(); ++u) {
    SOTTO_ASSERT(in.predictions.lengths()[u] == in.labels.lengths()[u] + 1,
                 "{} predictions for {} labels in utterance {}", in.predictions.lengths()[u],
                 in.labels.lengths()[u], u);
  }
  SOTTO_ASSERT(in.without_durations.empty() ||
                   static_cast<int64_t>(in.without_durations.size()) == utterances,
               "{} flags for {} utterances", in.without_durations.size(), utterances);
  SOTTO_ASSERT(in.labels.device_values().device() == in.encoder.device(), "labels are on {}",
               in.labels.device_values().device().str());
}

}  // namespace

void check_transducer(const Transducer::Inputs& in, const Transducer::Options& options) {
  check_rows(in.encoder, "encoder");
  check_rows(in.prediction, "prediction");
  check_rows(in.weight, "weight");
  const int64_t width = in.encoder.size(1);
  for (const at::Tensor& other : {in.prediction, in.weight}) {
    SOTTO_ASSERT(other.size(1) == width && other.scalar_type() == in.encoder.scalar_type(),
                 "rows of {} {} beside an encoder's of {} {}", other.size(1),
                 c10::toString(other.scalar_type()), width,
                 c10::toString(in.encoder.scalar_type()));
  }
  check_float_vector(in.bias, in.weight.size(0), "bias");
  check_durations(options.durations);
  check_layout(in);
  const int64_t num_entries = in.weight.size(0) - std::ssize(options.durations);
  SOTTO_ASSERT(options.blank >= 0 && options.blank < num_entries, "blank {} of {} entries",
               options.blank, num_entries);
  // In a dry pack only the number of labels is meaningful, and they may be the blank.
  if (!is_dry(in.encoder)) check_labels(in, num_entries, options.blank);
}

DropoutRule transducer_dropout(const Transducer::Inputs& in) {
  SOTTO_ASSERT(in.dropout.probability >= 0.0 && in.dropout.probability < 1.0, "dropout of {}",
               in.dropout.probability);
  const uint32_t threshold = dropout_threshold(in.dropout.probability);
  return {.key = fold(in.dropout.key),
          .threshold = threshold,
          .factor = dropout_scale(threshold) * static_cast<float>(in.dropout.scale)};
}

TransducerSpan span_of(std::span<const TransducerUtterance> utterances,
                       const TransducerChunk& chunk) {
  // The last that starts at or before the node: one without nodes starts where the next one does.
  const auto utterance_at = [&](int64_t node) -> const TransducerUtterance& {
    return *std::prev(
        std::ranges::upper_bound(utterances, node, {}, &TransducerUtterance::first_node));
  };
  const TransducerUtterance& from = utterance_at(chunk.first);
  const TransducerUtterance& to = utterance_at(chunk.end() - 1);
  const auto frame_of = [](const TransducerUtterance& u, int64_t node) {
    return u.first_frame + (node - u.first_node) / u.row_size();
  };
  const int64_t frame = frame_of(from, chunk.first);
  const int64_t end = to.first_prediction + to.row_size();
  return {.frames = {.are_frames = true,
                     .first = frame,
                     .count = frame_of(to, chunk.end() - 1) + 1 - frame},
          .predictions = {.are_frames = false,
                          .first = from.first_prediction,
                          .count = end - from.first_prediction}};
}

}  // namespace detail

bool Transducer::is_feasible(int64_t num_frames, int64_t num_labels,
                             std::span<const int64_t> durations) {
  const auto has = [&](int64_t duration) {
    return std::ranges::find(durations, duration) != durations.end();
  };
  if (durations.empty() || (has(0) && has(1))) return num_frames > 0;
  // The frames at which alignments can be after the labels seen so far, in any order with blanks:
  // the order does not matter for the sum.
  std::vector<bool> can_be(static_cast<size_t>(num_frames) + 1, false);
  can_be[0] = true;
  const auto advance = [&](const std::vector<bool>& from, int64_t least) {
    std::vector<bool> to(from.size(), false);
    for (size_t frame = 0; frame < from.size(); ++frame) {
      for (const int64_t duration : durations) {
        const size_t next = frame + static_cast<size_t>(duration);
        if (from[frame] && duration >= least && next < to.size()) to[next] = true;
      }
    }
    return to;
  };
  for (int64_t label = 0; label < num_labels; ++label) can_be = advance(can_be, 0);
  // Any number of blanks follows, at least one.
  std::vector<bool> ended(can_be.size(), false);
  for (size_t frame = 0; frame < can_be.size(); ++frame) {
    for (const int64_t duration : durations) {
      const auto before = static_cast<int64_t>(frame) - duration;
      if (duration < 1 || before < 0) continue;
      const auto from = static_cast<size_t>(before);
      if (can_be[from] || ended[from]) ended[frame] = true;
    }
  }
  return ended.back();
}

}  // namespace sotto::kernels
