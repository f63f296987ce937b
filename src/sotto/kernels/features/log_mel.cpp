#include "sotto/kernels/features/log_mel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "sotto/device/cuda_device.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/features/log_mel_frames.h"
#include "sotto/kernels/features/log_mel_rules.h"
#include "sotto/kernels/features/log_mel_windows.h"
#include "sotto/kernels/features/real_fourier.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::kernels {

namespace detail {
// Computes the logarithms of the filters' powers, before the operations on whole utterances. For
// `workspace` see the header.
void log_mel_cpu(const LogMelFrames& frames, const LogMel::Tables& tables,
                 const at::Tensor& workspace, const at::Tensor& features);
// Whisper's range and NeMo's normalisation, each utterance separately.
void log_mel_limit_cpu(const at::Tensor& features, const LogMelFrames& frames);
void log_mel_standardise_cpu(const at::Tensor& features, const LogMelFrames& frames);
// rows [R, W]: the samples under the window of the frames from `first` on.
SOTTO_CUDA_ENTRY void log_mel_gather_cuda(const CudaLogMelFrames& frames, int64_t first,
                                          const CudaArray& rows, void* stream);
SOTTO_CUDA_ENTRY void log_mel_square_cuda(const CudaArray& spectrum, void* stream);
SOTTO_CUDA_ENTRY void log_mel_logarithm_cuda(const CudaArray& features,
                                             const LogMelLogarithm& logarithm, void* stream);
SOTTO_CUDA_ENTRY void log_mel_limit_cuda(const CudaArray& features, const CudaLogMelFrames& frames,
                                         void* stream);
SOTTO_CUDA_ENTRY void log_mel_standardise_cuda(const CudaArray& features,
                                               const CudaLogMelFrames& frames, void* stream);
}  // namespace detail

namespace {

// Explains why an utterance must have min_samples.
std::string reason_of(const LogMelOptions& options) {
  switch (options.kind) {
    case LogMelKind::kTorchaudio:
      return fmt::format("to be reflected at its ends under a window of {}", options.window);
    case LogMelKind::kWhisper:
      return fmt::format("to be reflected at its ends under a window of {} and to have a frame",
                         options.window);
    case LogMelKind::kNemo: return "two frames, to have a deviation";
    case LogMelKind::kKaldi: return "one window";
  }
  return {};
}

void check(const at::Tensor& wave, const Packing& samples, const LogMel::Tables& tables) {
  check_float_vector(wave, samples.num_frames(), "wave");
  SOTTO_ASSERT(tables.device() == wave.device(), "tables are on {}", tables.device().str());
  SOTTO_ASSERT(tables.bands().defined() != is_for_cuda(wave), "tables are for another device");
  const int64_t fewest = LogMel::min_samples(tables.options());
  for (size_t u = 0; u < samples.lengths().size(); ++u) {
    if (samples.lengths()[u] >= fewest) continue;
    throw DataError(
        {.attempted = "computing log-mel features",
         .found = fmt::format("utterance {} of the pack has {} samples", u, samples.lengths()[u]),
         .expected = fmt::format("at least {}, {}", fewest, reason_of(tables.options())),
         .hint = "--set data.min_seconds=0.1 skips shorter utterances."});
  }
}

LogMelFraming framing_of(const LogMelOptions& options) {
  const LogMelRule rule = rule_of(options.kind);
  return {.hop = options.hop,
          .before = rule.is_centred ? options.window / 2 : 0,
          .reflects = rule.reflects,
          .by_frame = rule.by_frame,
          .pre_emphasis = rule.pre_emphasis};
}

// The driver copies the numbers out of the vector before the call returns, without waiting for the
// device.
void copy_starts(const LogMelFrames& frames) {
  std::vector<int32_t> narrow(frames.starts.begin(), frames.starts.end());
  frames.device_starts.copy_(at::from_blob(narrow.data(), frames.device_starts.sizes(), at::kInt),
                             /*non_blocking=*/true);
}

CudaLogMelFrames cuda_frames(const LogMelFrames& frames) {
  return {.wave = frames.wave.const_data_ptr<float>(),
          .samples = cuda_pack(frames.samples),
          .starts = frames.device_starts.const_data_ptr<int32_t>(),
          .framing = frames.framing};
}

// Applies the operations of a kind on the features of whole utterances.
void finish(const at::Tensor& features, const LogMelFrames& frames, LogMelKind kind) {
  const bool limits = kind == LogMelKind::kWhisper;
  if (!limits && kind != LogMelKind::kNemo) return;
  if (!features.is_cuda()) {
    return limits ? detail::log_mel_limit_cpu(features, frames)
                  : detail::log_mel_standardise_cpu(features, frames);
  }
  const auto on_cuda = limits ? detail::log_mel_limit_cuda : detail::log_mel_standardise_cuda;
  on_cuda(cuda_array(features), cuda_frames(frames), device::current_cuda_stream());
}

// Logarithms count about 20 operations each; an utterance is read two or three more times. On a GPU
// rows are filled and squared, and the products report themselves; on a CPU the transform has about
// 2.5 n log2 n operations, and a frequency belongs to two filters.
Cost cost_of(const at::Tensor& wave, const LogMel::Tables& tables, const at::Tensor& features) {
  const LogMelOptions& options = tables.options();
  const auto num_frames = static_cast<double>(features.size(0));
  const auto points = static_cast<double>(num_points(options));
  Cost cost{.flops = 20.0 * static_cast<double>(features.numel()),
            .bytes = bytes_of(wave) + 2.0 * bytes_of(features)};
  if (is_for_cuda(wave)) {
    const double moved =
        num_frames * static_cast<double>(options.window + tables.fourier().size(0));
    cost.flops += moved;
    cost.bytes += 8.0 * moved;
  } else {
    cost.flops += num_frames * points * (2.5 * std::log2(points) + 6.0);
  }
  const double passes = options.kind == LogMelKind::kWhisper ? 2.0
                        : options.kind == LogMelKind::kNemo  ? 3.0
                                                             : 0.0;
  if (passes > 0.0) cost.bytes += (passes + 1.0) * bytes_of(features);
  cost.flops += 2.0 * passes * static_cast<double>(features.numel());
  return cost;
}

// Disables TF32 for products during its lifetime, whatever the run's numerics are: in its 11 bits a
// loud filter would mask a quiet one.
class WholeProducts {
 public:
  WholeProducts() : outer_(at::globalContext().allowTF32CuBLAS()) {
    if (outer_) at::globalContext().setAllowTF32CuBLAS(false);
  }
  ~WholeProducts() {
    if (outer_) at::globalContext().setAllowTF32CuBLAS(true);
  }
  WholeProducts(const WholeProducts&) = delete;
  WholeProducts& operator=(const WholeProducts&) = delete;

 private:
  bool outer_;
};

void run_on_cpu(const LogMelFrames& frames, const LogMel::Tables& tables,
                const at::Tensor& features) {
  const int64_t points = num_points(tables.options());
  const int64_t num_workers = std::min(num_log_mel_tasks(frames.num_frames()), LogMel::kMaxWorkers);
  const at::Tensor workspace =
      make_workspace({num_workers, 2, points, kSignalsAtOnce}, features.options());
  if (is_dry(features)) return;
  detail::log_mel_cpu(frames, tables, workspace, features);
}

void run_on_cuda(LogMelFrames& frames, const LogMel::Tables& tables, const at::Tensor& features) {
  const int64_t num_rows = frames.num_frames();
  const LogMelRule rule = rule_of(tables.options().kind);
  frames.device_starts =
      make_workspace({std::ssize(frames.starts)}, features.options().dtype(at::kInt));
  const at::Tensor all_rows = make_workspace(
      {std::min(num_rows, LogMel::kRowsAtOnce), tables.options().window}, features.options());
  const WholeProducts whole;
  const bool dry = is_dry(features);
  if (!dry) {
    copy_starts(frames);
    features.fill_(rule.added);
  }
  for (int64_t first = 0; first < num_rows; first += LogMel::kRowsAtOnce) {
    const int64_t count = std::min(LogMel::kRowsAtOnce, num_rows - first);
    const at::Tensor rows = all_rows.narrow(0, 0, count);
    if (!dry)
      detail::log_mel_gather_cuda(cuda_frames(frames), first, cuda_array(rows),
                                  device::current_cuda_stream());
    const device::CategoryScope category(device::Category::kWorkspace);
    const at::Tensor spectrum =  // [rows, 2 F]
        Gemm::multiply({.a = rows, .b = tables.fourier(), .transpose_b = true});
    if (!dry) detail::log_mel_square_cuda(cuda_array(spectrum), device::current_cuda_stream());
    at::Tensor mel = features.narrow(0, first, count);  // initially the values that are added to
                                                        // the powers
    Gemm::accumulate(mel, {.a = spectrum, .b = tables.filters(), .transpose_b = true});
  }
  if (dry) return;
  detail::log_mel_logarithm_cuda(cuda_array(features), {.least = rule.least, .scale = rule.scale},
                                 device::current_cuda_stream());
}

}  // namespace

int64_t LogMel::num_frames(int64_t samples, const LogMelOptions& options) {
  const LogMelRule rule = rule_of(options.kind);
  if (rule.is_centred) return samples / options.hop + (rule.drops_last ? 0 : 1);
  return samples < options.window ? 0 : 1 + (samples - options.window) / options.hop;
}

std::vector<int64_t> LogMel::frame_lengths(const Packing& samples, const LogMelOptions& options) {
  std::vector<int64_t> lengths;
  for (const int64_t length : samples.lengths()) lengths.push_back(num_frames(length, options));
  return lengths;
}

int64_t LogMel::min_samples(const LogMelOptions& options) {
  switch (options.kind) {
    case LogMelKind::kTorchaudio: return options.window / 2 + 1;
    case LogMelKind::kWhisper: return std::max(options.window / 2 + 1, options.hop);
    case LogMelKind::kNemo: return 2 * options.hop;
    case LogMelKind::kKaldi: return options.window;
  }
  return 1;
}

at::Tensor LogMel::forward(const at::Tensor& wave, const Packing& samples, const Tables& tables) {
  check(wave, samples, tables);
  const LogMelOptions& options = tables.options();
  LogMelFrames frames{.wave = wave,
                      .samples = samples,
                      .starts = {0},
                      .device_starts = {},
                      .framing = framing_of(options)};
  for (const int64_t length : frame_lengths(samples, options))
    frames.starts.push_back(frames.num_frames() + length);
  at::Tensor features = make_result({frames.num_frames(), options.num_mels}, wave);
  report_cost("log_mel", cost_of(wave, tables, features));
  if (is_for_cuda(wave)) {
    run_on_cuda(frames, tables, features);
  } else {
    run_on_cpu(frames, tables, features);
  }
  if (!is_dry(wave)) finish(features, frames, options.kind);
  return features;
}

}  // namespace sotto::kernels
