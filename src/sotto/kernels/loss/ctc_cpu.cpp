// Forward and backward variables are fp32 with their own exponent (simd_extended.h). As logarithms
// they would reach thousands for a long utterance, where the resolution of fp32 is only 2e-4, and
// the gradient would be off by as much; scaled by frame, states that the rest of the utterance
// needs could underflow relative to the likeliest ones. Here a step has relative errors of 1e-7 for
// any length, factors common to all states of a frame cancel from its gradient, and the recursion
// needs no exponential or logarithm.

#include <cmath>
#include <limits>

#include "sotto/kernels/loss/ctc_problem.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/row_largest.h"
#include "sotto/kernels/simd/simd_extended.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Extended;
using simd::ExtendedArray;
using simd::Lanes;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The probability of the logit x is exp(x - largest) * scale; scale is NaN if a logit is not
// finite.
struct FrameSoftmax {
  float largest;
  float scale;
};

template <class T>
FrameSoftmax softmax_of(const T* x, int64_t width) {
  const float largest = largest_of(x, width);
  Lanes sums = {};
  simd::for_each_block(width, [&](int64_t i, auto n) {
    const Lanes now = simd::load(x + i, n);
    // x - x is 0, or NaN if x is not finite: minus infinity is a failure too, not a probability of
    // 0.
    sums += simd::masked(simd::exp(now - largest), n) + (now - now);
  });
  return {.largest = largest, .scale = 1.0f / simd::sum(sums)};
}

// Forward and backward recursion of one utterance.
template <class T>
class Walk {
 public:
  Walk(const CtcProblem& problem, const CtcUtterance& utterance)
      : lattice_(utterance.lattice),
        utterance_(utterance),
        vocabulary_(problem.logits.size(1)),
        blank_(problem.blank),
        logits_(static_cast<T*>(problem.logits.data_ptr()) + utterance.first_frame * vocabulary_),
        softmax_(problem.softmax.const_data_ptr<float>() + 2 * utterance.first_frame),
        labels_(problem.labels.const_data_ptr<int32_t>() + utterance.first_label),
        states_{.mantissas = problem.mantissas.mutable_data_ptr<float>() + utterance.offset,
                .exponents = problem.exponents.mutable_data_ptr<int32_t>() + utterance.offset} {}

  bool is_finite() const {
    for (int64_t frame = 0; frame < lattice_.num_frames; ++frame) {
      if (std::isnan(softmax(frame).scale)) return false;
    }
    return true;
  }

  void fill_gradient(float value) {
    std::fill_n(logits_, lattice_.num_frames * vocabulary_, static_cast<T>(value));
  }

  // Returns the loss.
  float run_forward() {
    prepare_labels();
    clear(lattice_.alpha(0), lattice_.row_size());
    set_one(lattice_.alpha(0));
    advance(0, 0);
    for (int64_t frame = 1; frame < lattice_.num_frames; ++frame) advance(frame - 1, frame);
    return loss();
  }

  // Replaces the logits by the gradient. Must be called after run_forward.
  void run_backward() {
    clear(lattice_.beta(), lattice_.row_size());
    set_one(lattice_.beta() + lattice_.num_labels);
    int64_t end = lattice_.num_frames;
    int64_t begin = (end - 1) / lattice_.num_kept_together * lattice_.num_kept_together;
    while (true) {
      for (int64_t frame = end - 1; frame >= begin; --frame) retreat(frame);
      if (begin == 0) return;
      end = begin;
      begin -= lattice_.num_kept_together;
      copy_row(lattice_.checkpoint(begin), lattice_.alpha(begin));
      for (int64_t frame = begin + 1; frame < end; ++frame) advance(frame - 1, frame);
    }
  }

 private:
  FrameSoftmax softmax(int64_t frame) const {
    return {.largest = softmax_[2 * frame], .scale = softmax_[2 * frame + 1]};
  }

  void clear(int64_t index, int64_t count) {
    std::fill_n(states_.mantissas + index, count, 0.0f);
    std::fill_n(states_.exponents + index, count, Extended::kSmallest);
  }

  void set_one(int64_t index) {
    states_.mantissas[index] = 1.0f;
    states_.exponents[index] = 0;
  }

  void copy_row(int64_t from, int64_t to) {
    std::copy_n(states_.mantissas + from, lattice_.row_size(), states_.mantissas + to);
    std::copy_n(states_.exponents + from, lattice_.row_size(), states_.exponents + to);
  }

  void prepare_labels() {
    int32_t* skip = states_.exponents + lattice_.skip();
    int32_t* first = states_.exponents + lattice_.first();
    std::fill_n(skip, 2 * lattice_.width, 0);
    for (int64_t i = 0; i < lattice_.num_labels; ++i) {
      skip[i] = i > 0 && labels_[i] != labels_[i - 1] ? 1 : 0;
      while (labels_[first[i]] != labels_[i]) ++first[i];
    }
  }

  // Computes the probabilities of the labels and of the blank in a frame.
  void read_emissions(int64_t frame) {
    constexpr float kLog2e = 1.44269504088896341f;
    // ln 2 in two parts, the first of 9 bits: its products are exact up to logarithms of 22,000.
    constexpr float kLn2High = 0.693359375f;
    constexpr float kLn2Low = -2.12194440054690583e-4f;
    // Adding and subtracting 1.5 x 2^23 rounds to an integer of magnitude up to 2^22.
    constexpr float kRounder = 12582912.0f;
    constexpr float kSmallestLog = -2.9e6f;
    const int64_t count = lattice_.num_labels;
    const FrameSoftmax softmax = this->softmax(frame);
    const T* x = logits_ + frame * vocabulary_;
    const ExtendedArray emission = states_.at(lattice_.emission());
    float* probability = states_.mantissas + lattice_.probability();
    for (int64_t i = 0; i < count; ++i) emission.mantissas[i] = static_cast<float>(x[labels_[i]]);
    std::fill_n(emission.mantissas + count, lattice_.width - count, static_cast<float>(x[blank_]));

    simd::for_each_block(lattice_.width, [&](int64_t i, auto n) {
      const Lanes log = simd::max(simd::load(emission.mantissas + i, n) - softmax.largest,
                                  Lanes{} + kSmallestLog);
      const Lanes power = (log * kLog2e + kRounder) - kRounder;
      const Lanes rest = (log - power * kLn2High) - power * kLn2Low;
      simd::store(emission.mantissas + i, simd::exp(rest) * softmax.scale, n);
      simd::store(probability + i, power, n);
    });
    for (int64_t i = 0; i < lattice_.width; i += Extended::kLanes) {
      const Extended x_now = simd::load(emission.at(i));
      Extended::Floats power;
      std::memcpy(&power, probability + i, sizeof(power));
      const auto exponent = __builtin_convertvector(power, Extended::Ints);
      const Extended::Floats plain = x_now.mantissa * simd::power_of_two(exponent);
      std::memcpy(probability + i, &plain, sizeof(plain));
      std::memcpy(emission.exponents + i, &exponent, sizeof(exponent));
    }
    blank_emission_ = {.mantissa = Extended::Floats{} + emission.mantissas[count],
                       .exponent = Extended::Ints{} + emission.exponents[count]};
    clear(lattice_.emission() + count, lattice_.width - count);
  }

  // Computes the forward variables of frame `to` from those of frame `from`; they may share a row.
  // A blank is reached from itself and the label before it; a label from itself, the blank before
  // it and, if the two labels differ, the label before that.
  void advance(int64_t from, int64_t to) {
    read_emissions(to);
    const ExtendedArray blanks = states_.at(lattice_.alpha(from));
    const ExtendedArray labels = blanks.at(lattice_.width);
    const ExtendedArray new_blanks = states_.at(lattice_.alpha(to));
    const ExtendedArray new_labels = new_blanks.at(lattice_.width);
    const int32_t* skip = states_.exponents + lattice_.skip();
    // Descending, since a state needs those below it. The label before the first is the unused
    // blank.
    for (int64_t i = lattice_.width - Extended::kLanes; i >= 0; i -= Extended::kLanes) {
      const Extended blank = simd::load(blanks.at(i));
      const Extended label = simd::load(labels.at(i));
      const Extended before = simd::load(labels.at(i - 1));
      const Extended emission = simd::load(states_.at(lattice_.emission() + i));
      const Extended skipped = simd::where(simd::load_ints(skip + i), before);
      const Extended to_blank = simd::add(blank, before);
      const Extended to_label = simd::add(label, blank, skipped);
      simd::store(new_blanks.at(i), simd::normalise(simd::multiply(to_blank, blank_emission_)));
      simd::store(new_labels.at(i), simd::normalise(simd::multiply(to_label, emission)));
    }
    if (lattice_.num_checkpoints > 0 && to % lattice_.num_kept_together == 0)
      copy_row(lattice_.alpha(to), lattice_.checkpoint(to));
  }

  // Combines the last label and the blank after it.
  float loss() const {
    const int64_t last = lattice_.alpha(lattice_.num_frames - 1);
    const int64_t blank = last + lattice_.num_labels;
    const int64_t label = last + lattice_.width + lattice_.num_labels - 1;
    const int32_t top = std::max(states_.exponents[blank], states_.exponents[label]);
    const auto scaled = [&](int64_t index) {
      return std::ldexp(static_cast<double>(states_.mantissas[index]),
                        states_.exponents[index] - top);
    };
    const double log = std::log(scaled(blank) + scaled(label)) + top * std::log(2.0);
    return static_cast<float>(std::max(0.0, -log));
  }

  // Computes the gradient of a frame, and its backward variables from those of the next frame. They
  // include the frame's own emission; before it is multiplied in, the backward and forward
  // variables give the shares of the states, which overwrite the forward variables.
  void retreat(int64_t frame) {
    read_emissions(frame);
    const ExtendedArray shares = states_.at(lattice_.alpha(frame));
    const ExtendedArray blanks = states_.at(lattice_.beta());
    const ExtendedArray labels = blanks.at(lattice_.width);
    const int32_t* skip = states_.exponents + lattice_.skip();
    Extended::Ints top = Extended::Ints{} + 2 * Extended::kSmallest;
    const auto store_share = [&](const ExtendedArray& to, const Extended& beta) {
      Extended share = simd::multiply(simd::load(to), beta);
      share.exponent =
          share.mantissa != 0.0f ? share.exponent : Extended::Ints{} + 2 * Extended::kSmallest;
      top = simd::max(top, share.exponent);
      simd::store(to, share);
    };
    // Ascending, since a state needs those above it. The last label is followed by unused ones,
    // whose emission is 0.
    for (int64_t i = 0; i < lattice_.width; i += Extended::kLanes) {
      const Extended blank = simd::load(blanks.at(i));
      const Extended label = simd::load(labels.at(i));
      const Extended next_blank = simd::load(blanks.at(i + 1));
      const Extended next_label =
          simd::where(simd::load_ints(skip + i + 1), simd::load(labels.at(i + 1)));
      const Extended emission = simd::load(states_.at(lattice_.emission() + i));
      const Extended of_blank = simd::add(blank, label);
      const Extended of_label = simd::add(label, next_blank, next_label);
      store_share(shares.at(i), of_blank);
      store_share(shares.at(lattice_.width + i), of_label);
      simd::store(blanks.at(i), simd::normalise(simd::multiply(of_blank, blank_emission_)));
      simd::store(labels.at(i), simd::normalise(simd::multiply(of_label, emission)));
    }
    make_plain(shares, top);
    write_gradient(frame, shares.mantissas);
  }

  // Converts the shares of a row to plain floats, the largest near 1.
  void make_plain(const ExtendedArray& shares, const Extended::Ints& tops) {
    int32_t top = tops[0];
    for (int64_t i = 1; i < Extended::kLanes; ++i) top = std::max(top, tops[i]);
    for (int64_t i = 0; i < lattice_.row_size(); i += Extended::kLanes) {
      const Extended share = simd::load(shares.at(i));
      const Extended::Floats plain = share.mantissa * simd::power_of_two(share.exponent - top);
      std::memcpy(shares.mantissas + i, &plain, sizeof(plain));
    }
  }

  // Writes weight * (probability - share of all states of the label) to a row of the logits. The
  // shares are divided by their own sum instead of the likelihood, which it equals up to rounding:
  // this cancels errors, and a row of the gradient sums to 0.
  void write_gradient(int64_t frame, const float* shares) {
    Lanes blanks = {};
    Lanes labels = {};
    simd::for_each_block(lattice_.width, [&](int64_t i, auto n) {
      blanks += simd::load(shares + i, n);
      labels += simd::load(shares + lattice_.width + i, n);
    });
    const float blank_share = simd::sum(blanks);
    const float scale = 1.0f / (blank_share + simd::sum(labels));

    const int32_t* first = states_.exponents + lattice_.first();
    const float* probability = states_.mantissas + lattice_.probability();
    float* of_label = states_.mantissas + lattice_.share();
    std::fill_n(of_label, lattice_.num_labels, 0.0f);
    for (int64_t i = 0; i < lattice_.num_labels; ++i)
      of_label[first[i]] += shares[lattice_.width + i];

    const FrameSoftmax softmax = this->softmax(frame);
    const float weight = utterance_.weight;
    T* row = logits_ + frame * vocabulary_;
    const float weighted = softmax.scale * weight;
    simd::for_each_block(vocabulary_, [&](int64_t i, auto n) {
      simd::store(row + i, simd::exp(simd::load(row + i, n) - softmax.largest) * weighted, n);
    });
    row[blank_] = static_cast<T>(weight * (probability[lattice_.num_labels] - blank_share * scale));
    for (int64_t i = 0; i < lattice_.num_labels; ++i) {
      if (first[i] != i) continue;
      row[labels_[i]] = static_cast<T>(weight * (probability[i] - of_label[i] * scale));
    }
  }

  const CtcLattice& lattice_;
  const CtcUtterance& utterance_;
  const int64_t vocabulary_;
  const int64_t blank_;
  T* logits_;
  const float* softmax_;
  const int32_t* labels_;
  ExtendedArray states_;
  Extended blank_emission_ = {};
};

template <class T>
float run_utterance(const CtcProblem& problem, const CtcUtterance& utterance) {
  Walk<T> walk(problem, utterance);
  if (!utterance.is_feasible) {
    if (problem.with_gradient) walk.fill_gradient(0.0f);
    return 0.0f;
  }
  if (!walk.is_finite()) {
    if (problem.with_gradient) walk.fill_gradient(kNan);
    return kNan;
  }
  const float loss = walk.run_forward();
  if (problem.with_gradient) walk.run_backward();
  return loss;
}

}  // namespace

void ctc_cpu(const CtcProblem& problem) {
  const int64_t vocabulary = problem.logits.size(1);
  float* softmax = problem.softmax.mutable_data_ptr<float>();
  float* loss = problem.loss.mutable_data_ptr<float>();
  int64_t num_elements = problem.with_gradient ? problem.logits.numel() : 0;
  for (const CtcUtterance& u : problem.utterances)
    num_elements += u.lattice.num_frames * u.lattice.row_size();
  with_element_type(problem.logits, [&](auto zero) {
    using T = decltype(zero);
    const T* logits = problem.logits.const_data_ptr<T>();
    parallel_rows(problem.logits.size(0), vocabulary, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const FrameSoftmax now = softmax_of(logits + row * vocabulary, vocabulary);
        softmax[2 * row] = now.largest;
        softmax[2 * row + 1] = now.scale;
      }
    });
    const auto num_tasks = static_cast<int64_t>(problem.utterances.size());
    parallel_tasks(num_tasks, num_elements, [&](int64_t task) {
      const CtcUtterance& utterance = problem.utterances[static_cast<size_t>(task)];
      loss[utterance.index] = run_utterance<T>(problem, utterance);
    });
  });
}

}  // namespace sotto::kernels::detail
