#include <cmath>
#include <limits>

#include "sotto/kernels/loss/transducer_problem.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/dropout_walk.h"
#include "sotto/kernels/simd/row_largest.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;
using Record = TransducerRecord;

// The sum of two projections after the ReLU, which lets a NaN through.
template <class T, class Count>
[[gnu::always_inline]] inline Lanes activation(const T* encoder, const T* prediction, Count n) {
  const Lanes x = simd::load(encoder, n) + simd::load(prediction, n);
  return simd::select<float>(x < 0.0f, 0.0f, x);
}

template <class T>
struct JointRow {
  const T* encoder;
  const T* prediction;
  T* to;
  int64_t width;
};

template <class T>
void write_joint(const JointRow<T>& row, float factor) {
  simd::for_each_block(row.width, [&](int64_t i, auto n) {
    simd::store(row.to + i, activation(row.encoder + i, row.prediction + i, n) * factor, n);
  });
}

// Elements are counted over the nodes of the utterance; those of the row begin at range.begin.
template <class T>
void write_dropped_joint(const JointRow<T>& row, const DroppedRange& range,
                         const DropoutRule& rule) {
  for_each_in_range(
      range, rule, [row, begin = range.begin](int64_t element, const Lanes& factors, auto n) {
        const int64_t i = element - begin;
        simd::store(row.to + i, activation(row.encoder + i, row.prediction + i, n) * factors, n);
      });
}

// The log of a sum of exponentials in double; NaN if a number is not finite.
template <class T>
double log_sum_of(const T* x, int64_t width) {
  const float largest = largest_of(x, width);
  const float sum = simd::sum_of_blocks(width, [&](int64_t i, auto n) {
    const Lanes now = simd::load(x + i, n);
    // x - x is 0, or NaN if x is not finite: minus infinity is a failure too, not a probability of
    // 0.
    return simd::masked(simd::exp_of_negative(now - largest), n) + (now - now);
  });
  return largest + std::log(static_cast<double>(sum));
}

template <class T>
void read_row(const TransducerLattices& lattices, const T* logits, int32_t label, float* record) {
  const auto minus = [](T x, double log_sum) {
    return static_cast<float>(static_cast<double>(static_cast<float>(x)) - log_sum);
  };
  const double log_sum = log_sum_of(logits, lattices.num_entries);
  record[Record::kLogSum] = static_cast<float>(log_sum);
  record[Record::kBlank] = minus(logits[lattices.blank], log_sum);
  record[Record::kLabel] =
      label < 0 ? -std::numeric_limits<float>::infinity() : minus(logits[label], log_sum);
  if (lattices.num_durations == 0) return;
  const T* durations = logits + lattices.num_entries;
  const double of_durations = log_sum_of(durations, lattices.num_durations);
  if (std::isnan(of_durations)) record[Record::kLogSum] = static_cast<float>(of_durations);
  for (int64_t i = 0; i < lattices.num_durations; ++i)
    record[Record::kDurations + i] = minus(durations[i], of_durations);
}

// Replaces logits by the sum of the shares times their probability, minus their own share.
template <class T>
void write_gradient(const TransducerLattices& lattices, T* logits, int32_t label,
                    const float* record) {
  const float log_sum = record[Record::kLogSum];
  const float total = record[Record::kBlank] + record[Record::kLabel];
  const auto gradient_of = [=](float x, float own) {
    return static_cast<T>(std::exp(x - log_sum) * total - own);
  };
  const T of_blank =
      gradient_of(static_cast<float>(logits[lattices.blank]), record[Record::kBlank]);
  const T of_label =
      label < 0 ? T{} : gradient_of(static_cast<float>(logits[label]), record[Record::kLabel]);
  simd::for_each_block(lattices.num_entries, [&](int64_t i, auto n) {
    simd::store(logits + i, simd::exp_of_negative(simd::load(logits + i, n) - log_sum) * total, n);
  });
  logits[lattices.blank] = of_blank;
  if (label >= 0) logits[label] = of_label;
}

template <class T>
void write_duration_gradient(const TransducerLattices& lattices, T* logits, const float* shares) {
  float total = 0.0f;
  for (int64_t i = 0; i < lattices.num_durations; ++i) total += shares[i];
  const double log_sum = log_sum_of(logits, lattices.num_durations);
  for (int64_t i = 0; i < lattices.num_durations; ++i) {
    const double probability = std::exp(static_cast<float>(logits[i]) - log_sum);
    logits[i] = static_cast<T>(static_cast<float>(probability * total - shares[i]));
  }
}

// Calls body(row in the chunk, node, record) on all cores.
template <class Body>
void for_each_node(const TransducerLattices& lattices, const TransducerChunk& chunk, int64_t work,
                   Body body) {
  parallel_rows(chunk.count, work, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t node = chunk.first + row;
      body(row, node, lattices.records + node * lattices.record_size());
    }
  });
}

}  // namespace

void transducer_nodes_cpu(const TransducerLattices& lattices) {
  parallel_tasks(lattices.num_utterances, lattices.num_nodes, [&](int64_t index) {
    const TransducerUtterance& u = lattices.utterances[index];
    for (int64_t i = 0; i < u.num_nodes(); ++i) {
      const int64_t frame = i / u.row_size(), label = i % u.row_size();
      lattices.nodes[u.first_node + i] = {
          .utterance = static_cast<int32_t>(index),
          .frame = static_cast<int32_t>(u.first_frame + frame),
          .prediction = static_cast<int32_t>(u.first_prediction + label),
          .label = label < u.num_labels ? lattices.labels[u.first_label + label] : -1};
    }
  });
}

void transducer_joint_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                          const TransducerTensors& tensors) {
  constexpr int64_t kWorkPerElement = 4;
  const int64_t width = tensors.joint.size(1);
  const DropoutRule& rule = lattices.dropout;
  with_element_type(tensors.joint, [&](auto zero) {
    using T = decltype(zero);
    const T* encoder = tensors.encoder.const_data_ptr<T>();
    const T* prediction = tensors.prediction.const_data_ptr<T>();
    T* joint = tensors.joint.mutable_data_ptr<T>();
    for_each_node(lattices, chunk, width * kWorkPerElement, [&](int64_t row, int64_t at, float*) {
      const TransducerNode& node = lattices.nodes[at];
      const TransducerUtterance& u = lattices.utterances[node.utterance];
      const JointRow<T> of{.encoder = encoder + node.frame * width,
                           .prediction = prediction + node.prediction * width,
                           .to = joint + row * width,
                           .width = width};
      const int64_t first = (at - u.first_node) * width;
      if (rule.threshold == 0) {
        write_joint(of, rule.factor);
      } else {
        write_dropped_joint(of, {.utterance = u.key, .begin = first, .end = first + width}, rule);
      }
    });
  });
}

void transducer_read_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                         const TransducerTensors& tensors) {
  const int64_t row_size = tensors.logits.size(1);
  with_element_type(tensors.logits, [&](auto zero) {
    using T = decltype(zero);
    const T* logits = tensors.logits.const_data_ptr<T>();
    for_each_node(lattices, chunk, row_size, [&](int64_t row, int64_t node, float* record) {
      read_row(lattices, logits + row * row_size, lattices.nodes[node].label, record);
    });
  });
}

void transducer_gradient_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                             const TransducerTensors& tensors) {
  const int64_t row_size = tensors.logits.size(1);
  with_element_type(tensors.logits, [&](auto zero) {
    using T = decltype(zero);
    T* logits = tensors.logits.mutable_data_ptr<T>();
    for_each_node(lattices, chunk, row_size, [&](int64_t row, int64_t node, const float* record) {
      T* of_row = logits + row * row_size;
      write_gradient(lattices, of_row, lattices.nodes[node].label, record);
      if (lattices.num_durations > 0)
        write_duration_gradient(lattices, of_row + lattices.num_entries,
                                record + Record::kDurations);
    });
  });
}

// An element passes its gradient on if it is not 0: it was neither negative nor dropped.
void transducer_sum_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                        const TransducerTensors& tensors, const TransducerRows& rows, float* sum) {
  const int64_t width = tensors.joint.size(1);
  const float factor = lattices.dropout.factor;
  with_element_type(tensors.joint, [&](auto zero) {
    using T = decltype(zero);
    const T* joint = tensors.joint.const_data_ptr<T>();
    const T* gradient = tensors.d_joint.const_data_ptr<T>();
    const int64_t work = chunk.count * width / rows.count;
    parallel_rows(rows.count, work, [&](int64_t begin, int64_t end) {
      for (int64_t row = rows.first + begin; row < rows.first + end; ++row) {
        const TransducerRun run = TransducerRun::of(lattices, chunk, rows, row);
        float* to = sum + row * width;
        for (int64_t k = 0; k < run.count; ++k) {
          const int64_t at = (run.first + k * run.stride) * width;
          simd::for_each_block(width, [&](int64_t i, auto n) {
            const Lanes value = simd::load(joint + at + i, n);
            const Lanes passed = simd::load(gradient + at + i, n) * factor;
            simd::store(to + i,
                        simd::load(to + i, n) + simd::select<float>(value != 0.0f, passed, 0.0f),
                        n);
          });
        }
      }
    });
  });
}

}  // namespace sotto::kernels::detail
