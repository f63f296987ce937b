#include "sotto/kernels/loss/ctc.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/loss/ctc_problem.h"

namespace sotto::kernels {

namespace detail {
void ctc_cpu(const CtcProblem& problem);
SOTTO_CUDA_ENTRY void ctc_cuda(const CudaCtc& problem, void* stream);
}  // namespace detail

CtcLattice::CtcLattice(int64_t frames, int64_t labels, bool with_gradient)
    : num_frames(frames), num_labels(labels), width((labels + 1 + kLanes) / kLanes * kLanes) {
  if (!with_gradient) return;
  num_kept_together = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(frames))));
  num_checkpoints = (frames + num_kept_together - 1) / num_kept_together;
}

namespace {

void check_labels(const Ctc::Targets& targets, int64_t vocabulary) {
  const Labels& labels = targets.labels;
  for (int64_t u = 0; u < labels.num_utterances(); ++u) {
    for (const int32_t label : labels.of(u)) {
      if (label >= 0 && label < vocabulary && label != targets.blank) continue;
      throw DataError({.attempted = "computing the CTC loss",
                       .found = fmt::format("label {}{} in utterance {} of the pack", label,
                                            label == targets.blank ? ", the blank," : "", u),
                       .expected = fmt::format("labels from 0 to {} other than the blank, {}",
                                               vocabulary - 1, targets.blank),
                       .hint = "The labels must come from the tokenizer of this model."});
    }
  }
}

void check(const at::Tensor& logits, const Ctc::Targets& targets) {
  check_rows(logits, "logits");
  const Packing& packing = targets.packing;
  SOTTO_ASSERT(logits.size(0) == packing.num_frames(), "{} rows for {} frames", logits.size(0),
               packing.num_frames());
  SOTTO_ASSERT(targets.labels.num_utterances() == packing.num_utterances(),
               "labels of {} utterances in a pack of {}", targets.labels.num_utterances(),
               packing.num_utterances());
  SOTTO_ASSERT(targets.labels.device_values().device() == logits.device(), "labels are on {}",
               targets.labels.device_values().device().str());
  SOTTO_ASSERT(targets.blank >= 0 && targets.blank < logits.size(1), "blank {} of {} entries",
               targets.blank, logits.size(1));
  // In a dry pack only the number of labels is meaningful, and they may be the blank.
  if (!is_dry(logits)) check_labels(targets, logits.size(1));
}

void report(const CtcProblem& problem) {
  const auto elements = static_cast<double>(problem.logits.numel());
  double states = 0.0;
  for (const CtcUtterance& u : problem.utterances) {
    states += static_cast<double>(u.lattice.num_frames * (2 * u.lattice.num_labels + 1));
  }
  // A state takes about 30 operations per pass. With the gradient there are three passes and the
  // state's share in the frame; the logits are read for the softmax, read again for the gradient,
  // and written.
  if (problem.with_gradient) {
    report_cost("ctc.forward", {.flops = 44.0 * elements + 100.0 * states,
                                .bytes = 3.0 * bytes_of(problem.logits)});
  } else {
    report_cost("ctc.evaluate",
                {.flops = 22.0 * elements + 30.0 * states, .bytes = bytes_of(problem.logits)});
  }
}

// The utterances, and the total size of their lattices. `weights` is empty if no gradient is
// requested.
struct Lattices {
  std::vector<CtcUtterance> utterances;
  int64_t size = 0;
};

Lattices lattices_of(const Ctc::Targets& targets, std::span<const float> weights) {
  Lattices lattices;
  const Packing& packing = targets.packing;
  const bool with_gradient = !weights.empty();
  for (int64_t index = 0; index < packing.num_utterances(); ++index) {
    const auto u = static_cast<size_t>(index);
    const CtcLattice lattice(packing.lengths()[u], targets.labels.lengths()[u], with_gradient);
    lattices.utterances.push_back(
        {.lattice = lattice,
         .index = index,
         .first_frame = packing.starts()[u],
         .first_label = targets.labels.starts()[u],
         .offset = lattices.size,
         .weight = with_gradient ? weights[u] : 0.0f,
         .is_feasible = Ctc::is_feasible(lattice.num_frames, targets.labels.of(index))});
    lattices.size += lattice.size();
  }
  std::ranges::stable_sort(lattices.utterances, std::greater<>(), [](const CtcUtterance& u) {
    return u.lattice.num_frames * u.lattice.width;
  });
  return lattices;
}

// The driver copies the utterances out of the vector before the call returns, without waiting for
// the device.
void copy_descriptions(const CtcProblem& problem) {
  static_assert(std::is_trivially_copyable_v<CtcUtterance>);
  const at::Tensor& to = problem.descriptions;
  auto* from = const_cast<CtcUtterance*>(problem.utterances.data());
  to.copy_(at::from_blob(from, to.sizes(), at::kByte), /*non_blocking=*/true);
}

void run_cuda(const CtcProblem& problem) {
  SOTTO_ASSERT(problem.logits.size(1) <= CudaCtc::kMaxVocabulary, "a vocabulary of {} entries",
               problem.logits.size(1));
  copy_descriptions(problem);
  int64_t max_labels = 0;
  for (const CtcUtterance& u : problem.utterances)
    max_labels = std::max(max_labels, u.lattice.num_labels);
  detail::ctc_cuda(
      {.logits = cuda_array(problem.logits),
       .labels = problem.labels.const_data_ptr<int32_t>(),
       .loss = problem.loss.mutable_data_ptr<float>(),
       .softmax = problem.softmax.mutable_data_ptr<float>(),
       .mantissas = problem.mantissas.mutable_data_ptr<float>(),
       .exponents = problem.exponents.mutable_data_ptr<int32_t>(),
       .utterances = static_cast<const CtcUtterance*>(problem.descriptions.const_data_ptr()),
       .num_utterances = static_cast<int64_t>(problem.utterances.size()),
       .max_labels = max_labels,
       .blank = problem.blank,
       .with_gradient = problem.with_gradient},
      device::current_cuda_stream());
}

// `weights` is empty if no gradient is requested.
Ctc::Result run(const at::Tensor& logits, const Ctc::Targets& targets,
                std::span<const float> weights) {
  check(logits, targets);
  Ctc::Result result{.loss = make_float_result({targets.packing.num_utterances()}, logits),
                     .infeasible = {}};
  Lattices lattices = lattices_of(targets, weights);
  const int64_t num_bytes = std::ssize(lattices.utterances) * int64_t{sizeof(CtcUtterance)};
  const at::TensorOptions options = logits.options();
  const CtcProblem problem{
      .logits = logits,
      .labels = targets.labels.device_values(),
      .loss = result.loss,
      .blank = targets.blank,
      .with_gradient = !weights.empty(),
      .softmax = make_workspace({logits.size(0), 2}, options.dtype(at::kFloat)),
      .mantissas = make_workspace({lattices.size}, options.dtype(at::kFloat)),
      .exponents = make_workspace({lattices.size}, options.dtype(at::kInt)),
      .descriptions = make_workspace({num_bytes}, options.dtype(at::kByte)),
      .utterances = std::move(lattices.utterances)};
  for (const CtcUtterance& u : problem.utterances) {
    if (!u.is_feasible) result.infeasible.push_back(u.index);
  }
  std::ranges::sort(result.infeasible);
  report(problem);
  if (is_dry(logits)) return result;
  if (logits.is_cuda()) {
    run_cuda(problem);
  } else {
    detail::ctc_cpu(problem);
  }
  return result;
}

}  // namespace

Ctc::Result Ctc::forward(at::Tensor& logits, const Targets& targets,
                         std::span<const float> weights) {
  SOTTO_ASSERT(static_cast<int64_t>(weights.size()) == targets.packing.num_utterances(),
               "{} weights for {} utterances", weights.size(), targets.packing.num_utterances());
  return run(logits, targets, weights);
}

Ctc::Result Ctc::evaluate(const at::Tensor& logits, const Targets& targets) {
  return run(logits, targets, {});
}

bool Ctc::is_feasible(int64_t num_frames, std::span<const int32_t> labels) {
  auto needed = static_cast<int64_t>(labels.size());
  for (size_t i = 1; i < labels.size(); ++i) {
    if (labels[i] == labels[i - 1]) ++needed;
  }
  return num_frames >= needed;
}

}  // namespace sotto::kernels
