// The sums over all alignments of an utterance, as logarithms in double: few operations beside the
// products of a node, and exact for any length.

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/kernels/loss/transducer_task.h"
#include "sotto/kernels/simd/cpu_kernel.h"

namespace sotto::kernels::detail {

namespace {

using Record = TransducerRecord;

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();

// The log of a sum of exponentials.
class LogSum {
 public:
  void add(double log) {
    if (log == kImpossible) return;
    if (log <= largest_) {
      total_ += std::exp(log - largest_);
    } else {
      total_ = total_ * std::exp(largest_ - log) + 1.0;
      largest_ = log;
    }
  }

  double value() const { return total_ == 0.0 ? kImpossible : largest_ + std::log(total_); }

 private:
  double largest_ = kImpossible;
  double total_ = 0.0;
};

class TransducerWalk {
 public:
  TransducerWalk(const TransducerLattices& lattices, const TransducerUtterance& utterance)
      : lattices_(lattices),
        utterance_(utterance),
        moves_(lattices.moves_of(utterance)),
        num_frames_(utterance.num_frames),
        num_labels_(utterance.num_labels),
        before_(static_cast<double*>(lattices.before)),
        after_(static_cast<double*>(lattices.after)) {}

  float run() {
    if (!utterance_.is_feasible) return 0.0f;
    if (!is_finite()) {
      if (after_ != nullptr) fill_shares(kUndefined);
      return kUndefined;
    }
    for (int64_t frame = 0; frame < num_frames_; ++frame) {
      for (int64_t label = 0; label <= num_labels_; ++label) advance(frame, label);
    }
    likelihood_ = log_likelihood();
    if (after_ != nullptr) {
      for (int64_t frame = num_frames_ - 1; frame >= 0; --frame) {
        for (int64_t label = num_labels_; label >= 0; --label) retreat(frame, label);
      }
    }
    return static_cast<float>(std::max(0.0, -likelihood_));
  }

 private:
  int64_t node_at(int64_t frame, int64_t label) const { return utterance_.node_at(frame, label); }
  float* record(int64_t node) const { return lattices_.records + node * lattices_.record_size(); }

  bool is_finite() const {
    for (int64_t i = 0; i < utterance_.num_nodes(); ++i) {
      if (std::isnan(record(utterance_.first_node + i)[Record::kLogSum])) return false;
    }
    return true;
  }

  void fill_shares(float value) {
    for (int64_t i = 0; i < utterance_.num_nodes(); ++i) {
      float* of_node = record(utterance_.first_node + i);
      std::fill(of_node + Record::kBlank, of_node + lattices_.record_size(), value);
    }
  }

  // Returns the log-probability of a move from a node, by the blank or by the next label.
  double log_of(int64_t node, int move, int symbol) const {
    const float* of_node = record(node);
    const double log = of_node[symbol];
    if (!utterance_.has_durations) return log;
    return log - lattices_.sigma + of_node[Record::kDurations + move];
  }

  // Sums over the moves that reach a node.
  void advance(int64_t frame, int64_t label) {
    LogSum sum;
    if (frame == 0 && label == 0) sum.add(0.0);
    for (int i = 0; i < moves_.count; ++i) {
      const TransducerMove& move = moves_.at[i];
      if (move.duration > frame) continue;
      if (move.is_for_blank)
        add_from(sum, node_at(frame - move.duration, label), i, Record::kBlank);
      if (move.is_for_label && label > 0)
        add_from(sum, node_at(frame - move.duration, label - 1), i, Record::kLabel);
    }
    before_[node_at(frame, label)] = sum.value();
  }

  void add_from(LogSum& sum, int64_t node, int move, int symbol) const {
    if (before_[node] != kImpossible) sum.add(before_[node] + log_of(node, move, symbol));
  }

  // The last move is a blank that ends exactly after the last frame.
  double log_likelihood() const {
    LogSum sum;
    for (int i = 0; i < moves_.count; ++i) {
      const TransducerMove& move = moves_.at[i];
      if (move.is_for_blank && move.duration <= num_frames_)
        add_from(sum, node_at(num_frames_ - move.duration, num_labels_), i, Record::kBlank);
    }
    return sum.value();
  }

  // Returns the log-probability of completing the utterance from a node that may not exist.
  double after(int64_t frame, int64_t label) const {
    if (frame == num_frames_) return kImpossible;
    return after_[node_at(frame, label)];
  }

  // Sums over the moves from a node, and replaces its log-probabilities by the shares.
  void retreat(int64_t frame, int64_t label) {
    const int64_t node = node_at(frame, label);
    const double outside = before_[node] - likelihood_;
    LogSum sum;
    float shares[Record::kDurations + TransducerMoves::kMax] = {};
    const auto add = [&](int move, int symbol, double rest) {
      if (rest == kImpossible) return;
      const double log = log_of(node, move, symbol) + rest;
      sum.add(log);
      const float share = utterance_.weight * static_cast<float>(std::exp(outside + log));
      shares[symbol] += share;
      if (utterance_.has_durations) shares[Record::kDurations + move] += share;
    };
    for (int i = 0; i < moves_.count; ++i) {
      const TransducerMove& move = moves_.at[i];
      const int64_t to = frame + move.duration;
      if (to > num_frames_) continue;
      const bool ends = to == num_frames_ && label == num_labels_;
      if (move.is_for_blank) add(i, Record::kBlank, ends ? 0.0 : after(to, label));
      if (move.is_for_label && label < num_labels_) add(i, Record::kLabel, after(to, label + 1));
    }
    after_[node] = sum.value();
    std::copy(shares + Record::kBlank, shares + lattices_.record_size(),
              record(node) + Record::kBlank);
  }

  const TransducerLattices& lattices_;
  const TransducerUtterance& utterance_;
  const TransducerMoves& moves_;
  const int64_t num_frames_;
  const int64_t num_labels_;
  double* const before_;
  double* const after_;
  double likelihood_ = kImpossible;
};

}  // namespace

void transducer_walk_cpu(const TransducerLattices& lattices) {
  constexpr int64_t kWorkPerNode = 64;
  parallel_tasks(lattices.num_utterances, lattices.num_nodes * kWorkPerNode, [&](int64_t u) {
    lattices.loss[u] = TransducerWalk(lattices, lattices.utterances[u]).run();
  });
}

}  // namespace sotto::kernels::detail
