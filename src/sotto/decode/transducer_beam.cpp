#include "sotto/decode/transducer_beam.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

using kernels::CtcGreedy;
using models::LatticeScorer;

// Entries by which a hypothesis is continued, in addition to as many as the beam is wide.
constexpr int64_t kMoreEntries = 8;

double sum_of_logs(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

int64_t memory_of(const Memories::Handle& handle) {
  return handle ? *handle : 0;
}

bool lacks_memory(const LatticeHypothesis& hypothesis) {
  return !hypothesis.memory && !hypothesis.labels.empty();
}

// Frames by which a hypothesis moves on at most in one step.
int64_t longest_step(const LatticeScorer& scorer) {
  return scorer.durations().empty() ? 1 : std::ranges::max(scorer.durations());
}

}  // namespace

Memories::Memories(int64_t first, int64_t count) {
  for (int64_t memory = first + count - 1; memory >= first; --memory) free_.push_back(memory);
}

Memories::Handle Memories::take() {
  SOTTO_ASSERT(!free_.empty(), "more hypotheses than memories");
  const auto give_back = [this](const int64_t* taken) {
    free_.push_back(*taken);
    delete taken;
  };
  Handle taken(new int64_t(free_.back()), give_back);
  free_.pop_back();
  return taken;
}

void Arrivals::add(LatticeHypothesis hypothesis) {
  std::vector<int32_t> tokens;
  for (const CtcGreedy::Label& label : hypothesis.labels) tokens.push_back(label.label);
  const auto [found, is_new] = by_labels_.try_emplace(std::move(tokens));
  LatticeHypothesis& known = found->second;
  if (is_new) {
    known = std::move(hypothesis);
    return;
  }
  if (!known.memory && hypothesis.memory) {
    known.memory = hypothesis.memory;
    known.before.reset();
  }
  if (hypothesis.score > known.score) known.labels = std::move(hypothesis.labels);
  known.score = sum_of_logs(known.score, hypothesis.score);
}

void Arrivals::keep_best(int64_t width) {
  if (std::ssize(by_labels_) <= width) return;
  std::vector<double> scores;
  for (const auto& [labels, hypothesis] : by_labels_) scores.push_back(hypothesis.score);
  std::ranges::nth_element(scores, scores.begin() + width - 1, std::greater<>());
  const double least = scores[static_cast<size_t>(width - 1)];
  const auto is_above = [&](const auto& one) { return one.second.score > least; };
  int64_t room = width - std::ranges::count_if(by_labels_, is_above);
  std::erase_if(by_labels_, [&](const auto& one) {
    return !is_above(one) && (one.second.score < least || room-- <= 0);
  });
}

std::vector<LatticeHypothesis> Arrivals::take() {
  std::vector<LatticeHypothesis> taken;
  for (auto& [labels, hypothesis] : by_labels_) taken.push_back(std::move(hypothesis));
  by_labels_.clear();
  return taken;
}

int64_t num_appended(const LatticeScorer& scorer, int64_t width) {
  return width * (longest_step(scorer) + 1);
}

int64_t num_memories(const LatticeScorer& scorer, int64_t width) {
  return num_appended(scorer, width) + width;
}

TransducerBeam::TransducerBeam(const TransducerSearchOptions& options, const LatticeScorer& scorer,
                               int64_t utterance)
    : options_(options),
      scorer_(scorer),
      utterance_(utterance),
      num_frames_(scorer.num_frames()[static_cast<size_t>(utterance)]),
      memories_(1 + utterance * num_memories(scorer, options.width),
                num_memories(scorer, options.width)),
      arrivals_(static_cast<size_t>(num_frames_ + 2)) {
  arrivals_.front().add({});
}

void TransducerBeam::enter(int64_t frame) {
  frame_ = frame;
  num_symbols_ = 0;
  if (frame < num_frames_) current_ = arrivals_[static_cast<size_t>(frame)].take();
}

void TransducerBeam::add_nodes(std::vector<LatticeScorer::Node>& nodes) const {
  for (const LatticeHypothesis& hypothesis : current_)
    nodes.push_back(
        {.utterance = utterance_, .frame = frame_, .memory = memory_of(hypothesis.memory)});
}

void TransducerBeam::extend(std::span<const float> scores) {
  if (current_.empty()) return;
  const std::vector<LatticeHypothesis> sources = std::exchange(current_, {});
  const size_t width = scores.size() / sources.size();
  Arrivals staying;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::span<const float> of_one = scores.subspan(i * width, width);
    for (const int32_t entry : likely_entries(of_one)) extend(sources[i], entry, of_one, staying);
  }
  staying.keep_best(options_.width);
  current_ = staying.take();
  for (Arrivals& arrivals : reachable()) arrivals.keep_best(options_.width);
  ++num_symbols_;
}

void TransducerBeam::add_labels(std::vector<LatticeScorer::Append>& appended) {
  read_.clear();
  const auto add = [&](LatticeHypothesis& hypothesis) {
    if (!lacks_memory(hypothesis)) return;
    hypothesis.memory = memories_.take();
    appended.push_back({.from = memory_of(hypothesis.before),
                        .label = hypothesis.labels.back().label,
                        .to = *hypothesis.memory});
    read_.push_back(std::move(hypothesis.before));
  };
  for (LatticeHypothesis& hypothesis : current_) add(hypothesis);
  for (Arrivals& arrivals : reachable())
    for (auto& [labels, hypothesis] : arrivals.by_labels()) add(hypothesis);
}

TransducerHypothesis TransducerBeam::best() {
  for (auto end = arrivals_.begin() + num_frames_; end != arrivals_.end(); ++end) {
    std::vector<LatticeHypothesis> ended = end->take();
    if (ended.empty()) continue;
    LatticeHypothesis& best = *std::ranges::max_element(ended, {}, &LatticeHypothesis::score);
    return {.labels = std::move(best.labels), .score = best.score};
  }
  return {};
}

int64_t TransducerBeam::num_entries(std::span<const float> scores) const {
  return std::ssize(scores) - std::ssize(scorer_.durations());
}

// Returns the blank and, if there may be more labels at this frame, the likeliest labels.
std::vector<int32_t> TransducerBeam::likely_entries(std::span<const float> scores) const {
  std::vector<int32_t> entries;
  if (num_symbols_ < options_.max_symbols) {
    for (int32_t entry = 0; entry < num_entries(scores); ++entry)
      if (entry != scorer_.blank()) entries.push_back(entry);
    const auto count = std::min(entries.size(), static_cast<size_t>(options_.width + kMoreEntries));
    std::ranges::partial_sort(entries, entries.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](int32_t a, int32_t b) {
                                return std::pair(-scores[static_cast<size_t>(a)], a) <
                                       std::pair(-scores[static_cast<size_t>(b)], b);
                              });
    entries.resize(count);
  }
  entries.push_back(scorer_.blank());
  return entries;
}

// Adds the continuations of a hypothesis by an entry, with each duration.
void TransducerBeam::extend(const LatticeHypothesis& source, int32_t entry,
                            std::span<const float> scores, Arrivals& staying) {
  const bool is_blank = entry == scorer_.blank();
  const double score = source.score + double{scores[static_cast<size_t>(entry)]};
  const std::vector<int64_t>& durations = scorer_.durations();
  if (durations.empty()) {
    add(source, {.entry = entry, .duration = is_blank ? 1 : 0, .score = score}, staying);
    return;
  }
  const auto of_durations = scores.subspan(static_cast<size_t>(num_entries(scores)));
  for (size_t i = 0; i < durations.size(); ++i) {
    if (is_blank && durations[i] == 0) continue;
    const double with_duration = score + double{of_durations[i]};
    add(source, {.entry = entry, .duration = durations[i], .score = with_duration}, staying);
  }
}

void TransducerBeam::add(const LatticeHypothesis& source, const Way& way, Arrivals& staying) {
  if (!std::isfinite(way.score)) return;
  const bool is_blank = way.entry == scorer_.blank();
  LatticeHypothesis next{.labels = source.labels, .score = way.score, .memory = source.memory};
  if (!is_blank) {
    next.labels.push_back(
        {.label = way.entry, .frame = frame_, .num_frames = std::max<int64_t>(1, way.duration)});
    next.before = std::exchange(next.memory, nullptr);
  }
  if (way.duration == 0) {
    staying.add(std::move(next));
    return;
  }
  // Only a blank ends an utterance.
  const int64_t last = is_blank ? num_frames_ : num_frames_ - 1;
  const int64_t frame = frame_ + way.duration <= last ? frame_ + way.duration : num_frames_ + 1;
  // Nothing follows: no memory is needed.
  if (frame >= num_frames_) next.memory = next.before = nullptr;
  arrivals_[static_cast<size_t>(frame)].add(std::move(next));
}

std::span<Arrivals> TransducerBeam::reachable() {
  const int64_t end = std::min(frame_ + longest_step(scorer_) + 1, num_frames_);
  return std::span(arrivals_).subspan(static_cast<size_t>(frame_ + 1),
                                      static_cast<size_t>(std::max<int64_t>(0, end - frame_ - 1)));
}

}  // namespace sotto::decode
