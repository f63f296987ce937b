#include "sotto/kernels/log_mel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sotto/device/cuda_device.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/gemm.h"
#include "sotto/kernels/kernel.h"
#include "sotto/kernels/log_mel_frames.h"
#include "sotto/kernels/log_mel_windows.h"

namespace sotto::kernels {

namespace detail {
// rows [R, W]: the samples under the window of the frames from `first` on.
void log_mel_gather_cpu(const LogMelFrames& frames, int64_t first, const at::Tensor& rows);
void log_mel_square_cpu(const at::Tensor& spectrum);
void log_mel_logarithm_cpu(const at::Tensor& features);
void log_mel_gather_cuda(const CudaLogMelFrames& frames, int64_t first, const CudaArray& rows,
                         void* stream);
void log_mel_square_cuda(const CudaArray& spectrum, void* stream);
void log_mel_logarithm_cuda(const CudaArray& features, void* stream);
}  // namespace detail

namespace {

int64_t num_frequencies(const LogMelOptions& options) {
  return options.window / 2 + 1;
}

// torchaudio halves the rate in whole numbers.
double half_rate(const LogMelOptions& options) {
  return std::floor(static_cast<double>(options.sample_rate) / 2.0);
}

double highest_frequency(const LogMelOptions& options) {
  return options.f_max > 0.0 ? options.f_max : half_rate(options);
}

// The HTK scale, as torchaudio has it.
double mel_of(double hertz) {
  return 2595.0 * std::log10(1.0 + hertz / 700.0);
}
double hertz_of(double mel) {
  return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
}

// [2 F, W] under a periodic Hann window.
std::vector<float> fourier_table(const LogMelOptions& options) {
  const int64_t window = options.window;
  const double unit = 2.0 * std::numbers::pi / static_cast<double>(window);
  std::vector<float> table;
  for (const bool is_sine : {false, true}) {
    for (int64_t frequency = 0; frequency < num_frequencies(options); ++frequency) {
      for (int64_t sample = 0; sample < window; ++sample) {
        const double hann = 0.5 - 0.5 * std::cos(unit * static_cast<double>(sample));
        // The remainder keeps the angle small and its cosine exact to the last digit.
        const double angle = unit * static_cast<double>(frequency * sample % window);
        table.push_back(static_cast<float>(hann * (is_sine ? std::sin(angle) : std::cos(angle))));
      }
    }
  }
  return table;
}

// [M, 2 F]: triangles between neighbouring points that are equally far apart in mel.
std::vector<float> filter_table(const LogMelOptions& options) {
  const double lowest = mel_of(options.f_min);
  const double highest = mel_of(highest_frequency(options));
  std::vector<double> points;  // in Hz
  for (int64_t i = 0; i < options.num_mels + 2; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(options.num_mels + 1);
    points.push_back(hertz_of(lowest + (highest - lowest) * share));
  }
  const int64_t frequencies = num_frequencies(options);
  const double step = half_rate(options) / static_cast<double>(frequencies - 1);
  std::vector<float> table;
  for (size_t mel = 0; mel < static_cast<size_t>(options.num_mels); ++mel) {
    for (int64_t column = 0; column < 2 * frequencies; ++column) {
      const double hertz = step * static_cast<double>(column % frequencies);
      const double rising = (hertz - points[mel]) / (points[mel + 1] - points[mel]);
      const double falling = (points[mel + 2] - hertz) / (points[mel + 2] - points[mel + 1]);
      table.push_back(static_cast<float>(std::max(0.0, std::min(rising, falling))));
    }
  }
  return table;
}

at::Tensor make_table(std::vector<float> values, int64_t rows, const at::Device& device) {
  const device::CategoryScope category(device::Category::kWeights);
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  at::Tensor table =
      at::empty({rows, columns}, at::TensorOptions().dtype(at::kFloat).device(device));
  if (!device.is_meta()) table.copy_(at::from_blob(values.data(), {rows, columns}, at::kFloat));
  return table;
}

void check(const at::Tensor& wave, const Packing& samples, const LogMel::Tables& tables) {
  check_float_vector(wave, samples.num_frames(), "wave");
  SOTTO_ASSERT(tables.fourier().device() == wave.device(), "tables are on {}",
               tables.fourier().device().str());
  const int64_t fewest = LogMel::min_samples(tables.options());
  for (size_t u = 0; u < samples.lengths().size(); ++u) {
    if (samples.lengths()[u] >= fewest) continue;
    throw DataError(
        {.attempted = "computing log-mel features",
         .found = fmt::format("utterance {} of the pack has {} samples", u, samples.lengths()[u]),
         .expected = fmt::format("at least {}, to be reflected at its ends under a "
                                 "window of {}",
                                 fewest, tables.options().window),
         .hint = "Set data.min_seconds so that shorter utterances are left out."});
  }
}

// The driver takes the numbers out of the vector before the call returns, without waiting for the
// device.
void copy_starts(const LogMelFrames& frames) {
  std::vector<int32_t> narrow(frames.starts.begin(), frames.starts.end());
  frames.device_starts.copy_(at::from_blob(narrow.data(), frames.device_starts.sizes(), at::kInt),
                             /*non_blocking=*/true);
}

void gather_rows(const LogMelFrames& frames, int64_t first, const at::Tensor& rows) {
  if (!rows.is_cuda()) return detail::log_mel_gather_cpu(frames, first, rows);
  detail::log_mel_gather_cuda({.wave = frames.wave.const_data_ptr<float>(),
                               .samples = cuda_pack(frames.samples),
                               .starts = frames.device_starts.const_data_ptr<int32_t>(),
                               .hop = frames.hop},
                              first, cuda_array(rows), device::current_cuda_stream());
}

void square_values(const at::Tensor& spectrum) {
  if (!spectrum.is_cuda()) return detail::log_mel_square_cpu(spectrum);
  detail::log_mel_square_cuda(cuda_array(spectrum), device::current_cuda_stream());
}

void take_logarithms(const at::Tensor& features) {
  if (!features.is_cuda()) return detail::log_mel_logarithm_cpu(features);
  detail::log_mel_logarithm_cuda(cuda_array(features), device::current_cuda_stream());
}

// While it lives products are not of TF32, whatever the run's numerics are: in its 11 bits a loud
// filter would drown a quiet one.
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

}  // namespace

void LogMelOptions::visit(OptionVisitor& visitor) {
  visitor.value("sample_rate", sample_rate, "of the waveform, in Hz",
                {.min = 1'000, .max = 768'000});
  visitor.value("window", window, "samples under the window, even", {.min = 2, .max = 65'536});
  visitor.value("hop", hop, "samples from one frame to the next", {.min = 1, .max = 65'536});
  visitor.value("num_mels", num_mels, "filters: the width of a frame", {.min = 1, .max = 4'096});
  visitor.value("f_min", f_min, "where the lowest filter begins, in Hz", {.min = 0.0});
  visitor.value("f_max", f_max, "where the highest filter ends, in Hz; 0: half the sample rate",
                {.min = 0.0});
}

void LogMelOptions::validate() const {
  if (window % 2 != 0) {
    throw ConfigError({.attempted = "setting up log-mel features",
                       .found = fmt::format("a window of {} samples", window),
                       .expected = "an even number: frames are centred"});
  }
  const double highest = highest_frequency(*this);
  if (highest > f_min && highest <= half_rate(*this)) return;
  throw ConfigError(
      {.attempted = "setting up log-mel features",
       .found = fmt::format("filters from {} to {} Hz", f_min, highest),
       .expected = fmt::format("f_min below f_max, and f_max at most {} Hz, half the sample rate",
                               half_rate(*this))});
}

LogMel::Tables::Tables(const LogMelOptions& options, const at::Device& device) : options_(options) {
  options.validate();
  fourier_ = make_table(fourier_table(options), 2 * num_frequencies(options), device);
  filters_ = make_table(filter_table(options), options.num_mels, device);
}

int64_t LogMel::num_frames(int64_t samples, const LogMelOptions& options) {
  return 1 + samples / options.hop;
}

std::vector<int64_t> LogMel::frame_lengths(const Packing& samples, const LogMelOptions& options) {
  std::vector<int64_t> lengths;
  for (const int64_t length : samples.lengths()) lengths.push_back(num_frames(length, options));
  return lengths;
}

at::Tensor LogMel::forward(const at::Tensor& wave, const Packing& samples, const Tables& tables) {
  check(wave, samples, tables);
  const LogMelOptions& options = tables.options();
  LogMelFrames frames{
      .wave = wave, .samples = samples, .starts = {0}, .device_starts = {}, .hop = options.hop};
  for (const int64_t length : frame_lengths(samples, options))
    frames.starts.push_back(frames.num_frames() + length);
  const int64_t num_rows = frames.num_frames();
  at::Tensor features = make_result({num_rows, options.num_mels}, wave);
  // The products report themselves. What is left fills rows with samples, squares, and takes
  // logarithms at about 20 operations each.
  const double moved = static_cast<double>(num_rows * (options.window + tables.fourier().size(0)));
  report_cost("log_mel", {.flops = moved + 20.0 * static_cast<double>(features.numel()),
                          .bytes = bytes_of(wave) + 8.0 * moved + 2.0 * bytes_of(features)});
  frames.device_starts =
      make_workspace({samples.num_utterances() + 1}, wave.options().dtype(at::kInt));
  const int64_t at_once = is_for_cuda(wave) ? kRowsAtOnceOnCuda : kRowsAtOnce;
  const at::Tensor all_rows =
      make_workspace({std::min(num_rows, at_once), options.window}, wave.options());
  const WholeProducts whole;
  const bool dry = is_dry(wave);
  if (!dry) {
    if (wave.is_cuda()) copy_starts(frames);
    features.fill_(kFloor);
  }
  for (int64_t first = 0; first < num_rows; first += at_once) {
    const int64_t count = std::min(at_once, num_rows - first);
    const at::Tensor rows = all_rows.narrow(0, 0, count);
    if (!dry) gather_rows(frames, first, rows);
    const device::CategoryScope category(device::Category::kWorkspace);
    const at::Tensor spectrum =  // [rows, 2 F]
        Gemm::multiply({.a = rows, .b = tables.fourier(), .transpose_b = true});
    if (!dry) square_values(spectrum);
    at::Tensor mel = features.narrow(0, first, count);  // holds the floor, which is added to
    Gemm::accumulate(mel, {.a = spectrum, .b = tables.filters(), .transpose_b = true});
  }
  if (!dry) take_logarithms(features);
  return features;
}

}  // namespace sotto::kernels
