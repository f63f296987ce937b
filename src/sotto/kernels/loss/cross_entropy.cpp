#include "sotto/kernels/loss/cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "sotto/device/cuda_device.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/loss/cross_entropy_task.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::kernels {

namespace detail {
// to [R, D] = the rows of x [N, D]
void cross_entropy_gather_cpu(const at::Tensor& x, const CrossEntropyRow* rows,
                              const at::Tensor& to);
SOTTO_CUDA_ENTRY void cross_entropy_gather_cuda(const CudaArray& x, const CrossEntropyRow* rows,
                                                const CudaArray& to, void* stream);
// Computes the losses, and replaces the logits by their gradient. On the CPU they come in slices of
// the vocabulary, [R, V_s] each.
void cross_entropy_rows_cpu(std::span<const at::Tensor> logits, const CrossEntropyTask& task);
SOTTO_CUDA_ENTRY void cross_entropy_rows_cuda(const CudaArray& logits, const CrossEntropyTask& task,
                                              void* stream);
// Scatters from [R, D], fp32 on the CPU and of dx's type on a GPU, to the rows of dx [N, D].
void cross_entropy_scatter_cpu(const at::Tensor& from, const CrossEntropyRow* rows,
                               const at::Tensor& dx);
SOTTO_CUDA_ENTRY void cross_entropy_scatter_cuda(const CudaArray& from, const CrossEntropyRow* rows,
                                                 const CudaArray& dx, void* stream);
void cross_entropy_sum_cpu(const at::Tensor& row_losses, const Packing& packing,
                           const at::Tensor& loss);
SOTTO_CUDA_ENTRY void cross_entropy_sum_cuda(const float* row_losses, const CudaPack& pack,
                                             float* loss, void* stream);
}  // namespace detail

namespace {

// Slice of the vocabulary on the CPU. ATen's product copies operands: with rows of width 1,024 only
// 2 MB of a weight of 100 MB.
constexpr int64_t kEntriesAtOnce = 1024;

struct Range {
  int64_t first;
  int64_t count;
};

// Splits 0 .. size into parts of `part` and a remainder.
std::vector<Range> parts_of(int64_t size, int64_t part) {
  std::vector<Range> parts;
  for (int64_t first = 0; first < size; first += part)
    parts.push_back({.first = first, .count = std::min(part, size - first)});
  return parts;
}

at::Tensor rows_of(const at::Tensor& matrix, const Range& range) {
  return matrix.narrow(0, range.first, range.count);
}

void check(const CrossEntropy::Inputs& in, const CrossEntropy::Options& options) {
  check_rows(in.x, "x");
  check_rows(in.weight, "weight");
  SOTTO_ASSERT(in.weight.size(1) == in.x.size(1) && in.weight.scalar_type() == in.x.scalar_type() &&
                   in.weight.size(0) > 0,
               "a weight of [{}, {}] {} for rows of {} {}", in.weight.size(0), in.weight.size(1),
               c10::toString(in.weight.scalar_type()), in.x.size(1),
               c10::toString(in.x.scalar_type()));
  SOTTO_ASSERT(in.x.size(0) == in.packing.num_frames(), "{} rows for {} frames", in.x.size(0),
               in.packing.num_frames());
  SOTTO_ASSERT(in.targets.lengths() == in.packing.lengths(), "{} targets for {} rows",
               in.targets.num_labels(), in.packing.num_frames());
  SOTTO_ASSERT(options.smoothing >= 0.0 && options.smoothing <= 1.0, "a smoothing of {}",
               options.smoothing);
}

void check_target(int32_t target, int64_t utterance, int64_t vocabulary) {
  if (target >= 0 && target < vocabulary) return;
  throw DataError({.attempted = "computing the cross entropy",
                   .found = fmt::format("target {} in utterance {} of the pack", target, utterance),
                   .expected = fmt::format("targets from 0 to {}, or {} for a row that has none",
                                           vocabulary - 1, CrossEntropy::kNoTarget),
                   .hint = "The targets must come from the tokenizer of this model."});
}

// Returns the rows with a target, in the order of the pack. `weights` is empty if no gradient is
// requested.
std::vector<CrossEntropyRow> rows_that_count(const CrossEntropy::Inputs& in,
                                             std::span<const float> weights) {
  std::vector<CrossEntropyRow> rows;
  rows.reserve(static_cast<size_t>(in.x.size(0)));
  for (int64_t u = 0; u < in.packing.num_utterances(); ++u) {
    const float weight = weights.empty() ? 0.0f : weights[static_cast<size_t>(u)];
    auto index = static_cast<int32_t>(in.packing.starts()[static_cast<size_t>(u)]);
    for (const int32_t target : in.targets.of(u)) {
      if (target != CrossEntropy::kNoTarget) {
        check_target(target, u, in.weight.size(0));
        rows.push_back({.index = index, .target = target, .weight = weight});
      }
      ++index;
    }
  }
  return rows;
}

int64_t rows_per_chunk(const CrossEntropy::Inputs& in, const CrossEntropy::Options& options) {
  if (options.variant == CrossEntropy::Variant::kWhole) return in.x.size(0);
  const int64_t row_bytes = in.weight.size(0) * static_cast<int64_t>(in.x.itemsize());
  const int64_t steps = options.chunk_bytes / row_bytes / CrossEntropy::kRowStep;
  return std::max<int64_t>(1, steps) * CrossEntropy::kRowStep;
}

// One call: state shared by its chunks.
class Pass {
 public:
  Pass(const CrossEntropy::Inputs& in, const CrossEntropy::Options& options,
       std::span<const float> weights)
      : in_(in),
        options_(options),
        with_gradient_(!weights.empty()),
        rows_(rows_that_count(in, weights)),
        slices_(
            parts_of(in.weight.size(0), is_for_cuda(in.x) ? in.weight.size(0) : kEntriesAtOnce)) {}

  CrossEntropy::Result run(at::Tensor* grad_weight) {
    CrossEntropy::Result result{
        .loss = make_float_result({in_.packing.num_utterances()}, in_.x),
        .dx = with_gradient_ ? make_result(in_.x.sizes(), in_.x) : at::Tensor()};
    prepare(result);
    report();
    for (const Range& chunk : parts_of(std::ssize(rows_), rows_per_chunk(in_, options_))) {
      const at::Tensor x = x_of(chunk);
      std::vector<at::Tensor> logits = logits_of(x);
      finish_rows(logits, chunk);
      if (!with_gradient_) continue;
      multiply_on(logits, chunk, result.dx);
      if (grad_weight != nullptr) add_weight_gradient(logits, x, *grad_weight);
    }
    sum_losses(result.loss);
    return result;
  }

 private:
  bool all_rows_count() const { return std::ssize(rows_) == in_.x.size(0); }

  // The rows that count, in memory that the device can read.
  const CrossEntropyRow* rows_from(int64_t first) const {
    const auto* rows = in_.x.is_cuda()
                           ? static_cast<const CrossEntropyRow*>(descriptions_.const_data_ptr())
                           : rows_.data();
    return rows + first;
  }

  void prepare(const CrossEntropy::Result& result) {
    static_assert(std::is_trivially_copyable_v<CrossEntropyRow>);
    const int64_t num_bytes = std::ssize(rows_) * int64_t{sizeof(CrossEntropyRow)};
    descriptions_ = make_workspace({num_bytes}, in_.x.options().dtype(at::kByte));
    row_losses_ = make_workspace({in_.x.size(0)}, in_.x.options().dtype(at::kFloat));
    if (is_dry(in_.x)) return;
    if (in_.x.is_cuda() && num_bytes > 0) {
      // The driver copies the rows out of the vector before the call returns, without waiting for
      // the device.
      descriptions_.copy_(at::from_blob(rows_.data(), {num_bytes}, at::kByte),
                          /*non_blocking=*/true);
    }
    if (all_rows_count()) return;
    row_losses_.zero_();
    if (with_gradient_) result.dx.zero_();
  }

  // The logits are read twice and written once, or only read once; products report themselves.
  void report() const {
    const double elements =
        static_cast<double>(rows_.size()) * static_cast<double>(in_.weight.size(0));
    const auto logits_bytes = elements * static_cast<double>(in_.x.itemsize());
    if (with_gradient_) {
      report_cost("cross_entropy.forward", {.flops = 44.0 * elements, .bytes = 3.0 * logits_bytes});
    } else {
      report_cost("cross_entropy.evaluate", {.flops = 22.0 * elements, .bytes = logits_bytes});
    }
  }

  // Returns [R, D]: a part of x, or a copy of its rows that count.
  at::Tensor x_of(const Range& chunk) const {
    if (all_rows_count()) return rows_of(in_.x, chunk);
    at::Tensor x = make_workspace({chunk.count, in_.x.size(1)}, in_.x.options());
    if (is_dry(x)) return x;
    if (x.is_cuda()) {
      detail::cross_entropy_gather_cuda(cuda_array(in_.x), rows_from(chunk.first), cuda_array(x),
                                        device::current_cuda_stream());
    } else {
      detail::cross_entropy_gather_cpu(in_.x, rows_from(chunk.first), x);
    }
    return x;
  }

  // Returns [R, V_s] for each slice of the vocabulary.
  std::vector<at::Tensor> logits_of(const at::Tensor& x) const {
    const device::CategoryScope category(device::Category::kWorkspace);
    std::vector<at::Tensor> logits;
    for (const Range& slice : slices_) {
      const at::Tensor weight = rows_of(in_.weight, slice);
      logits.push_back(Gemm::multiply({.a = x, .b = weight, .transpose_b = true}));
    }
    return logits;
  }

  void finish_rows(std::span<const at::Tensor> logits, const Range& chunk) {
    if (is_dry(in_.x)) return;
    const CrossEntropyTask task{.rows = rows_from(chunk.first),
                                .num_rows = chunk.count,
                                .vocabulary = in_.weight.size(0),
                                .smoothing = options_.smoothing,
                                .with_gradient = with_gradient_,
                                .losses = row_losses_.mutable_data_ptr<float>()};
    if (in_.x.is_cuda()) {
      detail::cross_entropy_rows_cuda(cuda_array(logits[0]), task, device::current_cuda_stream());
    } else {
      detail::cross_entropy_rows_cpu(logits, task);
    }
  }

  // Rounded once: by a GPU's product, which covers the whole vocabulary; on the CPU after the fp32
  // sum over its slices.
  void multiply_on(std::span<const at::Tensor> gradients, const Range& chunk,
                   const at::Tensor& dx) const {
    const device::CategoryScope category(device::Category::kWorkspace);
    if (is_for_cuda(dx)) {
      const Gemm::Operands product{.a = gradients[0], .b = in_.weight};
      if (all_rows_count()) {
        at::Tensor rows = rows_of(dx, chunk);
        Gemm::multiply_into(rows, product);
        return;
      }
      const at::Tensor rows = Gemm::multiply(product);  // [R, D]
      if (is_dry(rows)) return;
      detail::cross_entropy_scatter_cuda(cuda_array(rows), rows_from(chunk.first), cuda_array(dx),
                                         device::current_cuda_stream());
      return;
    }
    at::Tensor sum;  // [R, D]
    for (size_t s = 0; s < slices_.size(); ++s) {
      const at::Tensor weight = rows_of(in_.weight, slices_[s]);
      if (s == 0) {
        sum = Gemm::multiply_to_float({.a = gradients[s], .b = weight});
      } else {
        Gemm::accumulate(sum, {.a = gradients[s], .b = weight});
      }
    }
    if (!is_dry(sum)) detail::cross_entropy_scatter_cpu(sum, rows_from(chunk.first), dx);
  }

  void add_weight_gradient(std::span<const at::Tensor> gradients, const at::Tensor& x,
                           const at::Tensor& grad_weight) const {
    for (size_t s = 0; s < slices_.size(); ++s) {
      at::Tensor sum = rows_of(grad_weight, slices_[s]);
      Gemm::accumulate(sum, {.a = gradients[s], .b = x, .transpose_a = true});
    }
  }

  void sum_losses(const at::Tensor& loss) const {
    if (is_dry(loss)) return;
    if (loss.is_cuda()) {
      detail::cross_entropy_sum_cuda(row_losses_.const_data_ptr<float>(), cuda_pack(in_.packing),
                                     loss.mutable_data_ptr<float>(), device::current_cuda_stream());
    } else {
      detail::cross_entropy_sum_cpu(row_losses_, in_.packing, loss);
    }
  }

  const CrossEntropy::Inputs& in_;
  const CrossEntropy::Options& options_;
  const bool with_gradient_;
  std::vector<CrossEntropyRow> rows_;
  const std::vector<Range> slices_;
  at::Tensor descriptions_;  // bytes, the rows for the CUDA version
  at::Tensor row_losses_;    // [N] fp32
};

}  // namespace

CrossEntropy::Result CrossEntropy::forward(const Inputs& in, std::span<const float> weights,
                                           at::Tensor* grad_weight, const Options& options) {
  check(in, options);
  SOTTO_ASSERT(static_cast<int64_t>(weights.size()) == in.packing.num_utterances(),
               "{} weights for {} utterances", weights.size(), in.packing.num_utterances());
  SOTTO_ASSERT(
      grad_weight == nullptr ||
          (grad_weight->sizes() == in.weight.sizes() && grad_weight->scalar_type() == at::kFloat),
      "a gradient of {} elements and type {} for a weight of [{}, {}]", grad_weight->numel(),
      c10::toString(grad_weight->scalar_type()), in.weight.size(0), in.weight.size(1));
  return Pass(in, options, weights).run(grad_weight);
}

at::Tensor CrossEntropy::evaluate(const Inputs& in, const Options& options) {
  check(in, options);
  return Pass(in, options, {}).run(nullptr).loss;
}

}  // namespace sotto::kernels
