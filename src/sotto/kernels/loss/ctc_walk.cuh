// The recursion of Ctc for one utterance on the device, by one block. ctc_cpu.cpp explains the
// representation of states.
//
// The recursion is a chain of short steps, and its time is their latency. Thread i has the blank
// before label i and label i; a step takes one barrier and finds its logits in registers, loaded
// some frames before. Shares of states are stored for a segment of frames; then its frames are
// distributed to the warps, which need no barrier for their sums.
//
// No sum depends on the size of the block: the result of an utterance does not depend on the others
// in the pack.
#pragma once

#include <cstdint>

#include "sotto/kernels/cuda/cuda_extended.cuh"
#include "sotto/kernels/cuda/cuda_pipeline.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/loss/ctc_lattice.h"

namespace sotto::kernels {

// The probability of the logit x is exp(x - largest) * scale; scale is NaN if a logit is not
// finite.
struct alignas(8) FrameSoftmax {
  float largest;
  float scale;
};

__device__ inline int warp_largest(int value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(kWholeWarp, value, distance));
  return value;
}

// Returns the probability of a logit.
__device__ inline Extended emission_of(float x, const FrameSoftmax& softmax) {
  const Extended power = extended_exp(x - softmax.largest);
  return {power.mantissa * softmax.scale, power.exponent};
}

// A blank and the label after it.
struct StatePair {
  Extended blank;
  Extended label;
};

// One utterance. Its working rows are in shared memory, or in the workspace if that is too small.
template <class T, bool kInShared>
class CtcWalk {
 public:
  // `shared` has room for four rows.
  __device__ CtcWalk(const CudaCtc& problem, const CtcUtterance& utterance,
                     const ExtendedArray& shared)
      : lattice_(utterance.lattice),
        weight_(utterance.weight),
        with_gradient_(problem.with_gradient),
        num_frames_(static_cast<int>(lattice_.num_frames)),
        num_labels_(static_cast<int>(lattice_.num_labels)),
        width_(static_cast<int>(lattice_.width)),
        vocabulary_(static_cast<int>(problem.logits.width)),
        blank_(static_cast<int>(problem.blank)),
        logits_(static_cast<T*>(problem.logits.data) +
                utterance.first_frame * problem.logits.width),
        softmax_(reinterpret_cast<const FrameSoftmax*>(problem.softmax) + utterance.first_frame),
        labels_(problem.labels + utterance.first_label),
        states_(ExtendedArray{problem.mantissas, problem.exponents}.at(utterance.offset)),
        shared_(shared),
        order_(states_.exponents + lattice_.order()),
        kinds_(reinterpret_cast<int32_t*>(states_.mantissas + lattice_.kinds())),
        own_(position_at(thread_)) {}

  __device__ bool is_finite() const {
    bool is_nan = false;
    for (int frame = thread_; frame < num_frames_; frame += num_threads_)
      is_nan = is_nan || isnan(softmax_[frame].scale);
    return __syncthreads_or(is_nan ? 1 : 0) == 0;
  }

  // Returns the loss to the first thread.
  __device__ float run_forward() {
    if (with_gradient_) sort_labels();
    // Rows are used cyclically, as many as are kept.
    const int num_slots = with_gradient_ ? kept_together() : 2;
    clear_but_for(alpha_row(-1, num_slots - 1), 0);
    const int last_segment = (num_frames_ - 1) / kept_together() * kept_together();
    int slot = 0;
    pipeline<kAhead>(
        num_frames_, [&](int frame) { return fetch(frame); },
        [&](int frame, const Fetched& now) {
          advance({frame, slot, num_slots, with_gradient_ && frame >= last_segment}, now);
          slot = slot + 1 == num_slots ? 0 : slot + 1;
        });
    return loss(alpha_row(num_frames_ - 1, (slot == 0 ? num_slots : slot) - 1));
  }

  // Replaces the logits of the blank and of the labels by their gradient. Must be called after
  // run_forward.
  __device__ void run_backward() {
    clear_but_for(beta_row(num_frames_), num_labels_);
    int end = num_frames_;
    int begin = (end - 1) / kept_together() * kept_together();
    while (true) {
      retreat_to(begin, end);
      for (int frame = begin + warp_; frame < end; frame += num_threads_ / kWarp)
        write_gradient(frame, alpha(frame - begin));
      if (begin == 0) return;
      __syncthreads();  // the rows of this segment have been read
      end = begin;
      begin -= kept_together();
      advance_again(begin, end);
    }
  }

 private:
  // Frames of prefetch: as many as pass during one memory access. If rows are in memory too,
  // prefetching does not help.
  static constexpr int kAhead = kInShared ? 6 : 1;
  static constexpr int kAheadOfRetreat = kInShared ? 4 : 1;

  // A label of the utterance, and whether it may follow the previous one, and the next may follow
  // it, without a blank in between.
  struct Position {
    int label;
    bool skips;
    bool next_skips;
  };

  // The values of a frame that a thread needs for its own states.
  struct Fetched {
    T blank;
    T label;
    FrameSoftmax softmax;
  };
  struct FetchedBack {
    Fetched emissions;
    StatePair alpha;
  };

  // A frame, and the index of its cyclic row.
  struct Step {
    int frame;
    int slot;
    int num_slots;
    bool stays;  // kept for the backward pass
  };

  __device__ int row_size() const { return 2 * width_; }
  __device__ int kept_together() const { return static_cast<int>(lattice_.num_kept_together); }

  __device__ bool may_skip(int i) const {
    return i > 0 && i < num_labels_ && labels_[i] != labels_[i - 1];
  }
  __device__ Position position_at(int i) const {
    return {i < num_labels_ ? labels_[i] : blank_, may_skip(i), may_skip(i + 1)};
  }

  __device__ T* row(int frame) const { return logits_ + int64_t{frame} * vocabulary_; }

  // Returns the row that is kept for the backward pass.
  __device__ ExtendedArray alpha(int slot) const { return states_.at(int64_t{slot} * row_size()); }
  // Working rows: consecutive frames use different ones.
  __device__ ExtendedArray alpha_row(int frame, int slot) const {
    return kInShared ? shared_.at((frame & 1) * row_size()) : alpha(slot);
  }
  __device__ ExtendedArray beta_row(int frame) const {
    if constexpr (kInShared) return shared_.at((2 + (frame & 1)) * row_size());
    return states_.at((frame & 1) == 0 ? lattice_.beta() : lattice_.second_beta());
  }

  __device__ StatePair load_pair(const ExtendedArray& row, int i) const {
    return {row.load(i), row.load(width_ + i)};
  }
  __device__ void store_pair(const ExtendedArray& row, int i, const StatePair& pair) const {
    row.store(i, pair.blank);
    row.store(width_ + i, pair.label);
  }

  // Sets all states to 0 except one blank, which is 1.
  __device__ void clear_but_for(const ExtendedArray& row, int blank) const {
    for (int i = thread_; i <= num_labels_; i += num_threads_)
      store_pair(row, i, {i == blank ? Extended{1.0f, 0} : Extended{}, {}});
    __syncthreads();
  }

  __device__ Fetched fetch(int frame) const {
    const T* x = row(frame);
    return {x[blank_], x[own_.label], softmax_[frame]};
  }

  // Calls body(i, position, emission) for the positions of this thread. The first is its own, whose
  // logit was prefetched; there are others only if the block is smaller than the utterance. The
  // last label is followed by one more blank, paired with a label that is never reached.
  template <class Body>
  __device__ void for_each_position(int frame, const Fetched& now, Body body) const {
    for (int i = thread_; i <= num_labels_; i += num_threads_) {
      const bool is_own = i == thread_;
      const Position position = is_own ? own_ : position_at(i);
      const T x = is_own ? now.label : row(frame)[position.label];
      const Extended emission = emission_of(static_cast<float>(x), now.softmax);
      body(i, position, i < num_labels_ ? emission : Extended{});
    }
  }

  // Computes the forward variables of a frame from those of the previous one. A blank is reached
  // from itself and the label before it; a label from itself, the blank before it and, if the two
  // labels differ, the label before that.
  __device__ void advance(const Step& step, const Fetched& now) const {
    const ExtendedArray from =
        alpha_row(step.frame - 1, (step.slot == 0 ? step.num_slots : step.slot) - 1);
    const ExtendedArray to = alpha_row(step.frame, step.slot);
    const Extended blank_emission = emission_of(static_cast<float>(now.blank), now.softmax);
    for_each_position(step.frame, now,
                      [&](int i, const Position& position, const Extended& emission) {
                        const StatePair old = load_pair(from, i);
                        const Extended before = i > 0 ? from.load(width_ + i - 1) : Extended{};
                        const Extended skipped = position.skips ? before : Extended{};
                        const StatePair states = {
                            normalise(multiply(add(old.blank, before), blank_emission)),
                            normalise(multiply(add(old.label, old.blank, skipped), emission))};
                        store_pair(to, i, states);
                        if (kInShared && step.stays) store_pair(alpha(step.slot), i, states);
                        if (with_gradient_ && step.slot == 0)
                          store_pair(states_.at(lattice_.checkpoint(step.frame)), i, states);
                      });
    __syncthreads();
  }

  // Recomputes the rows of a segment from its checkpoint.
  __device__ void advance_again(int begin, int end) const {
    const ExtendedArray checkpoint = states_.at(lattice_.checkpoint(begin));
    for (int i = thread_; i <= num_labels_; i += num_threads_) {
      const StatePair states = load_pair(checkpoint, i);
      store_pair(alpha_row(begin, 0), i, states);
      if constexpr (kInShared) store_pair(alpha(0), i, states);
    }
    __syncthreads();
    pipeline<kAhead>(
        end - begin - 1, [&](int k) { return fetch(begin + 1 + k); },
        [&](int k, const Fetched& now) {
          advance({begin + 1 + k, 1 + k, kept_together(), true}, now);
        });
  }

  // Combines the last label and the blank after it.
  __device__ float loss(const ExtendedArray& last) const {
    if (thread_ != 0) return 0.0f;
    const Extended blank = last.load(num_labels_);
    const Extended label = num_labels_ > 0 ? last.load(width_ + num_labels_ - 1) : Extended{};
    const int top = max(blank.exponent, label.exponent);
    const double sum = ldexp(static_cast<double>(blank.mantissa), blank.exponent - top) +
                       ldexp(static_cast<double>(label.mantissa), label.exponent - top);
    constexpr double kLn2 = 0.693147180559945309417;
    return static_cast<float>(fmax(0.0, -(log(sum) + top * kLn2)));
  }

  // Computes the backward variables of the frames of a segment, each from those of the next frame.
  // They include the frame's own emission; before it is multiplied in, the backward and forward
  // variables give the shares of the states, which overwrite the forward variables.
  __device__ void retreat_to(int begin, int end) const {
    pipeline<kAheadOfRetreat>(
        end - begin,
        [&](int k) {
          const int frame = end - 1 - k;
          return FetchedBack{fetch(frame), thread_ <= num_labels_
                                               ? load_pair(alpha(frame - begin), thread_)
                                               : StatePair{}};
        },
        [&](int k, const FetchedBack& now) {
          retreat(end - 1 - k, alpha(end - 1 - k - begin), now);
        });
  }

  __device__ void retreat(int frame, const ExtendedArray& alphas, const FetchedBack& now) const {
    const ExtendedArray from = beta_row(frame + 1);
    const ExtendedArray to = beta_row(frame);
    const Fetched& fetched = now.emissions;
    const Extended blank_emission = emission_of(static_cast<float>(fetched.blank), fetched.softmax);
    for_each_position(
        frame, fetched, [&](int i, const Position& position, const Extended& emission) {
          const StatePair old = load_pair(from, i);
          const StatePair next = i < num_labels_ ? load_pair(from, i + 1) : StatePair{};
          const Extended of_blank = add(old.blank, old.label);
          const Extended of_label =
              add(old.label, next.blank, position.next_skips ? next.label : Extended{});
          store_pair(to, i,
                     {normalise(multiply(of_blank, blank_emission)),
                      normalise(multiply(of_label, emission))});
          const StatePair alpha = i == thread_ ? now.alpha : load_pair(alphas, i);
          store_pair(alphas, i, {share(alpha.blank, of_blank), share(alpha.label, of_label)});
        });
    __syncthreads();
  }

  __device__ static Extended share(const Extended& alpha, const Extended& beta) {
    const Extended product = multiply(alpha, beta);
    return product.mantissa != 0.0f ? product : Extended{0.0f, 2 * Extended::kSmallest};
  }

  // Fills order_ and kinds_ by comparing every pair of labels. Must be called before the working
  // rows are used: the first one is scratch memory.
  __device__ void sort_labels() {
    int32_t* is_first = kInShared ? shared_.exponents : states_.exponents;
    num_kinds_ = 0;
    for (int first = 0; first < num_labels_; first += num_threads_) {
      const int i = first + thread_;
      bool is_first_here = i < num_labels_;
      if (i < num_labels_) {
        int rank = 0;
        for (int j = 0; j < num_labels_; ++j) {
          const bool is_equal_before = labels_[j] == labels_[i] && j < i;
          rank += labels_[j] < labels_[i] || is_equal_before ? 1 : 0;
          is_first_here = is_first_here && !is_equal_before;
        }
        order_[rank] = i;
        is_first[i] = is_first_here ? 1 : 0;
      }
      num_kinds_ += __syncthreads_count(is_first_here ? 1 : 0);
    }
    for (int i = thread_; i < num_labels_; i += num_threads_) {
      if (is_first[i] == 0) continue;
      int kind = 0;
      int begin = 0;
      for (int j = 0; j < num_labels_; ++j) {
        const bool is_smaller = labels_[j] < labels_[i];
        begin += is_smaller ? 1 : 0;
        kind += is_smaller ? is_first[j] : 0;
      }
      kinds_[kind] = begin;
    }
    if (thread_ == 0) kinds_[num_kinds_] = num_labels_;
  }

  // Writes weight * (probability - share of all states of the label), with one warp. The shares are
  // divided by their own sum instead of the likelihood, which it equals up to rounding: this
  // cancels errors, and a row of the gradient sums to 0.
  __device__ void write_gradient(int frame, const ExtendedArray& shares) const {
    int top = 2 * Extended::kSmallest;
    for (int i = lane_; i <= num_labels_; i += kWarp)
      top = max(top, max(shares.exponents[i], shares.exponents[width_ + i]));
    top = warp_largest(top);
    // A share as a plain float, the largest near 1.
    const auto plain = [&](int i) {
      const Extended share = shares.load(i);
      return share.mantissa * power_of_two(share.exponent - top);
    };
    float blanks = 0.0f;
    float labels = 0.0f;
    for (int i = lane_; i <= num_labels_; i += kWarp) {
      blanks += plain(i);
      labels += plain(width_ + i);
    }
    blanks = warp_sum(blanks);
    const float scale = 1.0f / (blanks + warp_sum(labels));

    const FrameSoftmax softmax = softmax_[frame];
    const auto write = [&](int entry, float share) {
      T* x = row(frame) + entry;
      const Extended emission = emission_of(static_cast<float>(*x), softmax);
      const float probability = emission.mantissa * power_of_two(emission.exponent);
      *x = static_cast<T>(weight_ * (probability - share * scale));
    };
    for (int kind = lane_; kind < num_kinds_; kind += kWarp) {
      const int begin = kinds_[kind];
      const int end = kinds_[kind + 1];
      float of_label = 0.0f;
      for (int k = begin; k < end; ++k) of_label += plain(width_ + order_[k]);
      write(labels_[order_[begin]], of_label);
    }
    if (lane_ == 0) write(blank_, blanks);
  }

  const int thread_ = static_cast<int>(threadIdx.x);
  const int num_threads_ = static_cast<int>(blockDim.x);
  const int warp_ = thread_ / kWarp;
  const int lane_ = thread_ % kWarp;
  const CtcLattice& lattice_;
  const float weight_;
  const bool with_gradient_;
  const int num_frames_;
  const int num_labels_;
  const int width_;
  const int vocabulary_;
  const int blank_;
  T* const logits_;
  const FrameSoftmax* const softmax_;
  const int32_t* const labels_;
  const ExtendedArray states_;
  const ExtendedArray shared_;
  int32_t* const order_;
  int32_t* const kinds_;
  const Position own_;
  int num_kinds_ = 0;
};

}  // namespace sotto::kernels
