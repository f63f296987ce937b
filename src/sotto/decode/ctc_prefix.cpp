#include "sotto/decode/ctc_prefix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kNoPath = -std::numeric_limits<double>::infinity();

float add_logs(float a, float b) {
  const float largest = std::max(a, b);
  if (largest == kNever) return kNever;
  return largest + std::log1p(std::exp(std::min(a, b) - largest));
}

}  // namespace

CtcPrefixes::CtcPrefixes(std::span<const float> logits, int64_t vocabulary, int64_t blank,
                         std::span<float> room)
    : vocabulary_(vocabulary),
      blank_(blank),
      num_frames_(std::ssize(logits) / vocabulary),
      log_probabilities_(room.first(logits.size())) {
  SOTTO_ASSERT(std::ssize(logits) == num_frames_ * vocabulary && blank >= 0 && blank < vocabulary,
               "{} logits of {} entries", logits.size(), vocabulary);
  for (int64_t frame = 0; frame < num_frames_; ++frame) {
    const std::span<const float> row =
        logits.subspan(static_cast<size_t>(frame * vocabulary), static_cast<size_t>(vocabulary));
    const double largest = *std::ranges::max_element(row);
    double total = 0.0;
    for (const float logit : row) total += std::exp(double{logit} - largest);
    const auto log_total = static_cast<float>(largest + std::log(total));
    const bool is_finite = std::isfinite(log_total);
    for (int64_t label = 0; label < vocabulary; ++label) {
      float& probability = room[static_cast<size_t>(label * num_frames_ + frame)];
      probability = is_finite ? row[static_cast<size_t>(label)] - log_total : kNever;
      if (!is_finite && label == blank) probability = 0.0f;
    }
  }
}

CtcPrefixes::State CtcPrefixes::begin() const {
  State state;
  const auto size = static_cast<size_t>(num_frames_);
  state.in_label.assign(size, kNever);
  state.in_blank.assign(size, 0.0f);
  float sum = 0.0f;
  for (int64_t frame = 0; frame < num_frames_; ++frame)
    state.in_blank[static_cast<size_t>(frame)] = sum += at(frame, blank_);
  state.in_any = state.in_blank;
  return state;
}

float CtcPrefixes::before(const State& state, int32_t label, int64_t frame) const {
  if (frame == 0) return state.last < 0 ? 0.0f : kNever;
  const auto previous = static_cast<size_t>(frame - 1);
  // Repeated without a blank in between, it would be the same label.
  return label == state.last ? state.in_blank[previous] : state.in_any[previous];
}

double CtcPrefixes::score(const State& state, int32_t label) const {
  SOTTO_ASSERT(label >= 0 && label < vocabulary_, "label {}", label);
  if (label == blank_) return kNoPath;
  // Sums over the frame at which the label begins, from the largest term.
  float largest = kNever;
  std::vector<float> terms;
  terms.reserve(static_cast<size_t>(num_frames_));
  for (int64_t frame = state.num_labels; frame < num_frames_; ++frame) {
    terms.push_back(before(state, label, frame) + at(frame, label));
    largest = std::max(largest, terms.back());
  }
  if (largest == kNever) return kNoPath;
  double sum = 0.0;
  for (const float term : terms) sum += std::exp(term - largest);
  return largest + std::log(sum);
}

CtcPrefixes::State CtcPrefixes::extend(const State& state, int32_t label) const {
  SOTTO_ASSERT(label >= 0 && label < vocabulary_ && label != blank_, "label {}", label);
  State next;
  next.last = label;
  next.num_labels = state.num_labels + 1;
  const auto size = static_cast<size_t>(num_frames_);
  next.in_label.assign(size, kNever);
  next.in_blank.assign(size, kNever);
  next.in_any.assign(size, kNever);
  float in_label = kNever;
  float in_blank = kNever;
  for (int64_t frame = state.num_labels; frame < num_frames_; ++frame) {
    const float in_any = add_logs(in_blank, in_label);
    in_label = add_logs(in_label, before(state, label, frame)) + at(frame, label);
    in_blank = in_any + at(frame, blank_);
    next.in_label[static_cast<size_t>(frame)] = in_label;
    next.in_blank[static_cast<size_t>(frame)] = in_blank;
    next.in_any[static_cast<size_t>(frame)] = add_logs(in_blank, in_label);
  }
  return next;
}

double CtcPrefixes::finish(const State& state) const {
  if (num_frames_ == 0) return state.last < 0 ? 0.0 : kNoPath;
  return add_logs(state.in_label.back(), state.in_blank.back());
}

std::vector<int64_t> CtcPrefixes::align(std::span<const int32_t> labels) const {
  // States 2 n + 1: labels with blanks around them, as in the lattice of the loss.
  const int64_t num_states = 2 * std::ssize(labels) + 1;
  if (num_frames_ == 0 || labels.empty()) return {};
  const auto label_of = [&](int64_t state) {
    return state % 2 == 0 ? blank_ : int64_t{labels[static_cast<size_t>(state / 2)]};
  };
  std::vector<float> best(static_cast<size_t>(num_states), kNever);
  // How many states before it each state was entered from: 0, 1 or 2. [T, states]
  std::vector<uint8_t> steps(static_cast<size_t>(num_frames_ * num_states), 0);
  best[0] = at(0, blank_);
  best[1] = at(0, label_of(1));
  for (int64_t frame = 1; frame < num_frames_; ++frame) {
    for (int64_t state = num_states; state-- > 0;) {
      const auto s = static_cast<size_t>(state);
      float from = best[s];
      uint8_t step = 0;
      const bool may_skip = state >= 2 && state % 2 == 1 && label_of(state) != label_of(state - 2);
      if (state >= 1 && best[s - 1] > from) from = best[s - 1], step = 1;
      if (may_skip && best[s - 2] > from) from = best[s - 2], step = 2;
      best[s] = from + at(frame, label_of(state));
      steps[static_cast<size_t>(frame * num_states) + s] = step;
    }
  }
  int64_t state = num_states - 1;
  if (best[static_cast<size_t>(state - 1)] > best[static_cast<size_t>(state)]) --state;
  if (best[static_cast<size_t>(state)] == kNever) return {};
  std::vector<int64_t> frames(labels.size(), 0);
  for (int64_t frame = num_frames_ - 1; frame >= 0; --frame) {
    if (state % 2 == 1) frames[static_cast<size_t>(state / 2)] = frame;
    state -= steps[static_cast<size_t>(frame * num_states + state)];
  }
  return frames;
}

}  // namespace sotto::decode
