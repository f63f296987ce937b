#include "sotto/kernels/loss/transducer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/loss/transducer_checks.h"
#include "sotto/kernels/loss/transducer_problem.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::kernels {

namespace detail {
// Fill the descriptions of the nodes.
void transducer_nodes_cpu(const TransducerLattices& lattices);
SOTTO_CUDA_ENTRY void transducer_nodes_cuda(const TransducerLattices& lattices, void* stream);
// joint = dropout(relu(encoder + prediction))
void transducer_joint_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                          const TransducerTensors& tensors);
SOTTO_CUDA_ENTRY void transducer_joint_cuda(const TransducerLattices& lattices,
                                            const TransducerChunk& chunk,
                                            const CudaTransducerTensors& tensors, void* stream);
// Write the records of a chunk from its logits.
void transducer_read_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                         const TransducerTensors& tensors);
SOTTO_CUDA_ENTRY void transducer_read_cuda(const TransducerLattices& lattices,
                                           const TransducerChunk& chunk,
                                           const CudaTransducerTensors& tensors, void* stream);
// Compute the losses and, if there is `after`, replace the log-probabilities in the records by the
// weighted shares.
void transducer_walk_cpu(const TransducerLattices& lattices);
SOTTO_CUDA_ENTRY void transducer_walk_cuda(const TransducerLattices& lattices, void* stream);
// Replace the logits by their gradient.
void transducer_gradient_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                             const TransducerTensors& tensors);
SOTTO_CUDA_ENTRY void transducer_gradient_cuda(const TransducerLattices& lattices,
                                               const TransducerChunk& chunk,
                                               const CudaTransducerTensors& tensors, void* stream);
// sum [rows, J] += the gradient of encoder + prediction, each row over the nodes that read it.
void transducer_sum_cpu(const TransducerLattices& lattices, const TransducerChunk& chunk,
                        const TransducerTensors& tensors, const TransducerRows& rows, float* sum);
SOTTO_CUDA_ENTRY void transducer_sum_cuda(const TransducerLattices& lattices,
                                          const TransducerChunk& chunk,
                                          const CudaTransducerTensors& tensors,
                                          const TransducerRows& rows, float* sum, void* stream);
}  // namespace detail

namespace {

// Sixteen bytes in 16-bit types: with other strides the products of a GPU would read narrow words.
constexpr int64_t kRowAlignment = 8;
constexpr int64_t kStateBytes = 8;

static_assert(TransducerMoves::kMax >= Transducer::kMaxDurations);

int64_t rounded_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

TransducerMoves moves_of(const std::vector<int64_t>& durations) {
  TransducerMoves moves;
  for (const int64_t duration : durations) {
    moves.at[moves.count++] = {.duration = static_cast<int32_t>(duration),
                               .is_for_blank = duration > 0,
                               .is_for_label = true};
  }
  return moves;
}

// The utterances of the pack. `weights` is empty if no gradient is requested.
std::vector<TransducerUtterance> utterances_of(const Transducer::Inputs& in,
                                               std::span<const float> weights,
                                               const Transducer::Options& options) {
  std::vector<TransducerUtterance> utterances;
  int64_t num_nodes = 0;
  for (size_t u = 0; u < in.frames.lengths().size(); ++u) {
    const int64_t num_frames = in.frames.lengths()[u], num_labels = in.labels.lengths()[u];
    const bool is_plain = !in.without_durations.empty() && in.without_durations[u] != 0;
    const bool has_durations = !options.durations.empty() && !is_plain;
    utterances.push_back(
        {.key = fold(in.frames.keys()[u]),
         .first_node = num_nodes,
         .first_frame = in.frames.starts()[u],
         .first_prediction = in.predictions.starts()[u],
         .first_label = in.labels.starts()[u],
         .num_frames = static_cast<int32_t>(num_frames),
         .num_labels = static_cast<int32_t>(num_labels),
         .weight = weights.empty() ? 0.0f : weights[u],
         .has_durations = has_durations,
         .is_feasible =
             !has_durations || Transducer::is_feasible(num_frames, num_labels, options.durations)});
    num_nodes += utterances.back().num_nodes();
  }
  return utterances;
}

CudaTransducerTensors cuda_tensors(const TransducerTensors& tensors) {
  return {.encoder = cuda_array(tensors.encoder),
          .prediction = cuda_array(tensors.prediction),
          .joint = cuda_array(tensors.joint),
          .d_joint = cuda_array(tensors.d_joint),
          .logits = cuda_array(tensors.logits)};
}

// One call: state shared by its chunks.
class TransducerPass {
 public:
  TransducerPass(const Transducer::Inputs& in, std::span<const float> weights,
                 const Transducer::Options& options)
      : in_(in),
        options_(options),
        with_gradient_(!weights.empty()),
        num_outputs_(in.weight.size(0)),
        row_size_(rounded_up(num_outputs_, kRowAlignment)),
        utterances_(utterances_of(in, weights, options)),
        num_nodes_(utterances_.back().first_node + utterances_.back().num_nodes()),
        float_(in.encoder.options().dtype(at::kFloat)) {}

  Transducer::Result run(const Transducer::Gradients& gradients) {
    Transducer::Result result{.loss = make_float_result({in_.frames.num_utterances()}, in_.encoder),
                              .infeasible = {},
                              .d_encoder = {},
                              .d_prediction = {}};
    for (size_t u = 0; u < utterances_.size(); ++u) {
      if (!utterances_[u].is_feasible) result.infeasible.push_back(static_cast<int64_t>(u));
    }
    prepare(result);
    report();
    call(detail::transducer_nodes_cpu, detail::transducer_nodes_cuda);
    for_each_chunk([&](const TransducerChunk& chunk) {
      compute_logits(chunk);
      call(detail::transducer_read_cpu, detail::transducer_read_cuda, chunk);
    });
    call(detail::transducer_walk_cpu, detail::transducer_walk_cuda);
    if (!with_gradient_) return result;
    for_each_chunk([&](const TransducerChunk& chunk) { add_gradients(chunk, gradients); });
    finish(gradients, result);
    return result;
  }

 private:
  int64_t nodes_per_chunk() const {
    const int64_t row_bytes = row_size_ * static_cast<int64_t>(in_.encoder.itemsize());
    const int64_t steps = options_.chunk_bytes / row_bytes / Transducer::kNodeStep;
    return std::min(num_nodes_, std::max<int64_t>(1, steps) * Transducer::kNodeStep);
  }

  // Calls body(chunk), for which tensors_ has the rows of that chunk.
  template <class Body>
  void for_each_chunk(Body body) {
    const int64_t size = nodes_per_chunk();
    for (int64_t first = 0; first < num_nodes_; first += size) {
      const TransducerChunk chunk{.first = first, .count = std::min(size, num_nodes_ - first)};
      const auto rows = [&](const at::Tensor& buffer) {
        return buffer.defined() ? buffer.narrow(0, 0, chunk.count) : buffer;
      };
      tensors_ = {.encoder = in_.encoder,
                  .prediction = in_.prediction,
                  .joint = rows(joint_),
                  .d_joint = rows(d_joint_),
                  .logits = rows(logits_)};
      body(chunk);
    }
  }

  void prepare(Transducer::Result& result) {
    const at::TensorOptions bytes = in_.encoder.options().dtype(at::kByte);
    const int64_t width = in_.encoder.size(1), rows = nodes_per_chunk();
    static_assert(std::is_trivially_copyable_v<TransducerUtterance>);
    descriptions_ =
        make_workspace({std::ssize(utterances_) * int64_t{sizeof(TransducerUtterance)}}, bytes);
    nodes_ = make_workspace({num_nodes_ * int64_t{sizeof(TransducerNode)}}, bytes);
    records_ = make_workspace(
        {num_nodes_, TransducerRecord::kDurations + std::ssize(options_.durations)}, float_);
    before_ = make_workspace({num_nodes_ * kStateBytes}, bytes);
    logits_ = make_workspace({rows, row_size_}, in_.encoder.options());
    joint_ = make_workspace({rows, width}, in_.encoder.options());
    if (with_gradient_) {
      after_ = make_workspace({num_nodes_ * kStateBytes}, bytes);
      d_joint_ = make_workspace({rows, width}, in_.encoder.options());
      bias_sum_ = make_workspace({row_size_}, float_);
      make_sums(result);
    }
    if (!is_dry(in_.encoder)) describe(result);
  }

  // The sums over the lattice are results if those are fp32.
  void make_sums(Transducer::Result& result) {
    if (in_.encoder.scalar_type() == at::kFloat) {
      result.d_encoder = make_result(in_.encoder.sizes(), in_.encoder);
      result.d_prediction = make_result(in_.prediction.sizes(), in_.prediction);
      encoder_sum_ = result.d_encoder;
      prediction_sum_ = result.d_prediction;
    } else {
      encoder_sum_ = make_workspace(in_.encoder.sizes(), float_);
      prediction_sum_ = make_workspace(in_.prediction.sizes(), float_);
    }
    if (is_dry(in_.encoder)) return;
    for (const at::Tensor& sum : {bias_sum_, encoder_sum_, prediction_sum_}) sum.zero_();
  }

  void describe(const Transducer::Result& result) {
    lattices_ = {
        .utterances = utterances_.data(),
        .num_utterances = std::ssize(utterances_),
        .nodes = static_cast<TransducerNode*>(nodes_.data_ptr()),
        .num_nodes = num_nodes_,
        .labels = in_.labels.device_values().const_data_ptr<int32_t>(),
        .records = records_.mutable_data_ptr<float>(),
        .before = before_.data_ptr(),
        .after = with_gradient_ ? after_.data_ptr() : nullptr,
        .loss = result.loss.mutable_data_ptr<float>(),
        .rnnt_moves = {.at = {{.duration = 1, .is_for_blank = true, .is_for_label = false},
                              {.duration = 0, .is_for_blank = false, .is_for_label = true}},
                       .count = 2},
        .tdt_moves = moves_of(options_.durations),
        .num_entries = num_outputs_ - std::ssize(options_.durations),
        .num_durations = std::ssize(options_.durations),
        .blank = options_.blank,
        .sigma = static_cast<float>(options_.sigma),
        .max_row_size = in_.predictions.max_length(),
        .dropout = detail::transducer_dropout(in_)};
    if (!in_.encoder.is_cuda()) return;
    // The driver copies the utterances out of the vector before the call returns, without waiting
    // for the device.
    descriptions_.copy_(at::from_blob(utterances_.data(), descriptions_.sizes(), at::kByte),
                        /*non_blocking=*/true);
    lattices_.utterances = static_cast<const TransducerUtterance*>(descriptions_.const_data_ptr());
  }

  // The logits are written by the product, which reports itself, and read; with gradients they are
  // read once more and written. A node takes about 30 operations for each move and pass.
  void report() const {
    const auto nodes = static_cast<double>(num_nodes_);
    const double moves = static_cast<double>(options_.durations.size()) + 2.0;
    const auto item = static_cast<double>(in_.encoder.itemsize());
    const double logits = nodes * static_cast<double>(num_outputs_);
    const double joint = nodes * static_cast<double>(in_.encoder.size(1));
    if (with_gradient_) {
      report_cost("transducer.forward",
                  {.flops = 44.0 * logits + 48.0 * joint + 90.0 * moves * nodes,
                   .bytes = item * (3.0 * logits + 6.0 * joint) + 4.0 * 40.0 * nodes});
    } else {
      report_cost("transducer.evaluate",
                  {.flops = 22.0 * logits + 22.0 * joint + 30.0 * moves * nodes,
                   .bytes = item * (logits + joint) + 4.0 * 20.0 * nodes});
    }
  }

  template <class OnCpu, class OnCuda>
  void call(OnCpu on_cpu, OnCuda on_cuda) const {
    if (is_dry(in_.encoder)) return;
    if (in_.encoder.is_cuda()) {
      on_cuda(lattices_, device::current_cuda_stream());
    } else {
      on_cpu(lattices_);
    }
  }

  template <class OnCpu, class OnCuda>
  void call(OnCpu on_cpu, OnCuda on_cuda, const TransducerChunk& chunk) const {
    if (is_dry(in_.encoder)) return;
    if (in_.encoder.is_cuda()) {
      on_cuda(lattices_, chunk, cuda_tensors(tensors_), device::current_cuda_stream());
    } else {
      on_cpu(lattices_, chunk, tensors_);
    }
  }

  // Both passes call this with the same chunks, so that their logits are the same to the bit.
  void compute_logits(const TransducerChunk& chunk) const {
    call(detail::transducer_joint_cpu, detail::transducer_joint_cuda, chunk);
    at::Tensor outputs = outputs_of(tensors_.logits);
    Gemm::multiply_into(
        outputs, {.a = tensors_.joint, .b = in_.weight, .transpose_b = true, .bias = &in_.bias});
  }

  // Without the padding.
  at::Tensor outputs_of(const at::Tensor& logits) const {
    return logits.narrow(1, 0, num_outputs_);
  }

  void add_gradients(const TransducerChunk& chunk, const Transducer::Gradients& gradients) {
    compute_logits(chunk);
    call(detail::transducer_gradient_cpu, detail::transducer_gradient_cuda, chunk);
    const at::Tensor d_outputs = outputs_of(tensors_.logits);
    if (gradients.weight != nullptr) {
      Gemm::accumulate(*gradients.weight,
                       {.a = d_outputs, .b = tensors_.joint, .transpose_a = true});
    }
    if (gradients.bias != nullptr) ColumnSum::accumulate(bias_sum_, tensors_.logits);
    Gemm::multiply_into(tensors_.d_joint, {.a = d_outputs, .b = in_.weight});
    add_sums(chunk);
  }

  void add_sums(const TransducerChunk& chunk) const {
    if (is_dry(in_.encoder)) return;
    const detail::TransducerSpan span = detail::span_of(utterances_, chunk);
    for (const TransducerRows& rows : {span.frames, span.predictions}) {
      float* sum =
          (rows.are_frames ? encoder_sum_ : prediction_sum_).template mutable_data_ptr<float>();
      if (in_.encoder.is_cuda()) {
        detail::transducer_sum_cuda(lattices_, chunk, cuda_tensors(tensors_), rows, sum,
                                    device::current_cuda_stream());
      } else {
        detail::transducer_sum_cpu(lattices_, chunk, tensors_, rows, sum);
      }
    }
  }

  void finish(const Transducer::Gradients& gradients, Transducer::Result& result) const {
    if (gradients.bias != nullptr && !is_dry(in_.encoder))
      gradients.bias->add_(bias_sum_.narrow(0, 0, num_outputs_));
    if (result.d_encoder.defined()) return;
    result.d_encoder = Cast::to(encoder_sum_, in_.encoder.scalar_type());
    result.d_prediction = Cast::to(prediction_sum_, in_.encoder.scalar_type());
  }

  const Transducer::Inputs& in_;
  const Transducer::Options& options_;
  const bool with_gradient_;
  const int64_t num_outputs_;  // E + D
  const int64_t row_size_;     // of logits, with padding
  std::vector<TransducerUtterance> utterances_;
  const int64_t num_nodes_;
  const at::TensorOptions float_;
  TransducerLattices lattices_;
  at::Tensor descriptions_;  // bytes, the utterances for the CUDA version
  at::Tensor nodes_;         // bytes
  at::Tensor records_;       // [N, 3 + D]
  at::Tensor before_;        // bytes
  at::Tensor after_;         // bytes
  at::Tensor logits_;        // of a whole chunk
  at::Tensor joint_;
  at::Tensor d_joint_;
  at::Tensor bias_sum_;        // [E + D and padding] fp32
  at::Tensor encoder_sum_;     // [sum of T, J] fp32
  at::Tensor prediction_sum_;  // [sum of (U + 1), J] fp32
  TransducerTensors tensors_;
};

}  // namespace

Transducer::Result Transducer::forward(const Inputs& in, std::span<const float> weights,
                                       const Gradients& gradients, const Options& options) {
  detail::check_transducer(in, options);
  SOTTO_ASSERT(static_cast<int64_t>(weights.size()) == in.frames.num_utterances(),
               "{} weights for {} utterances", weights.size(), in.frames.num_utterances());
  SOTTO_ASSERT(gradients.weight == nullptr || (gradients.weight->sizes() == in.weight.sizes() &&
                                               gradients.weight->scalar_type() == at::kFloat),
               "a gradient of {} elements for a weight of {}", gradients.weight->numel(),
               in.weight.numel());
  if (gradients.bias != nullptr) check_float_vector(*gradients.bias, in.bias.size(0), "grad bias");
  return TransducerPass(in, weights, options).run(gradients);
}

Transducer::Result Transducer::evaluate(const Inputs& in, const Options& options) {
  detail::check_transducer(in, options);
  return TransducerPass(in, {}, options).run({});
}

}  // namespace sotto::kernels
