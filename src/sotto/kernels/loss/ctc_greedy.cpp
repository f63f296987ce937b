#include "sotto/kernels/loss/ctc_greedy.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
// best [N]: index of the largest logit of each frame.
void ctc_greedy_cpu(const at::Tensor& logits, int64_t blank, const at::Tensor& best);
SOTTO_CUDA_ENTRY void ctc_greedy_cuda(const CudaArray& logits, int64_t blank, int32_t* best,
                                      void* stream);
}  // namespace detail

std::vector<std::vector<CtcGreedy::Label>> CtcGreedy::decode(const at::Tensor& logits,
                                                             const Packing& packing,
                                                             int64_t blank) {
  check_rows(logits, "logits");
  SOTTO_ASSERT(logits.size(0) == packing.num_frames(), "{} rows for {} frames", logits.size(0),
               packing.num_frames());
  SOTTO_ASSERT(blank >= 0 && blank < logits.size(1), "blank {} of {} entries", blank,
               logits.size(1));
  report_cost("ctc_greedy.decode",
              {.flops = static_cast<double>(logits.numel()), .bytes = bytes_of(logits)});

  const at::Tensor best = make_workspace({logits.size(0)}, logits.options().dtype(at::kInt));
  std::vector<std::vector<Label>> decoded(static_cast<size_t>(packing.num_utterances()));
  if (is_dry(logits)) return decoded;
  if (logits.is_cuda()) {
    detail::ctc_greedy_cuda(cuda_array(logits), blank, best.mutable_data_ptr<int32_t>(),
                            device::current_cuda_stream());
  } else {
    detail::ctc_greedy_cpu(logits, blank, best);
  }
  const at::Tensor on_host = best.cpu();
  for (size_t u = 0; u < decoded.size(); ++u) {
    const int32_t* labels = on_host.const_data_ptr<int32_t>() + packing.starts()[u];
    for (int64_t frame = 0; frame < packing.lengths()[u]; ++frame) {
      if (labels[frame] == blank || (frame > 0 && labels[frame] == labels[frame - 1])) continue;
      decoded[u].push_back({.label = labels[frame], .frame = frame});
    }
  }
  return decoded;
}

}  // namespace sotto::kernels
