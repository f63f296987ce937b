// The settings of log-mel features and the tables derived from them.
#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/features/log_mel_rules.h"
#include "sotto/kernels/features/real_fourier.h"

namespace sotto::kernels {

namespace {

// Pre-emphasis of nemo's waveforms and kaldi's frames.
constexpr float kPreEmphasis = 0.97f;

// torchaudio and Hugging Face halve the rate by integer division.
double half_rate(const LogMelOptions& options) {
  return std::floor(static_cast<double>(options.sample_rate) / 2.0);
}

double highest_frequency(const LogMelOptions& options) {
  return options.f_max > 0.0 ? options.f_max : half_rate(options);
}

// --- mel scales

struct MelScale {
  double (*mel_of)(double hertz);
  double (*hertz_of)(double mel);
};

double htk_mel_of(double hertz) {
  return 2595.0 * std::log10(1.0 + hertz / 700.0);
}
double htk_hertz_of(double mel) {
  return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
}

// Slaney's scale: 15 mel up to 1000 Hz in equal steps, then 27 per factor of 6.4.
constexpr double kLinearHertz = 1000.0;
constexpr double kLinearMels = 15.0;

double log_step() {
  return std::log(6.4) / 27.0;
}

double slaney_mel_of(double hertz) {
  if (hertz < kLinearHertz) return hertz * kLinearMels / kLinearHertz;
  return kLinearMels + std::log(hertz / kLinearHertz) / log_step();
}
double slaney_hertz_of(double mel) {
  if (mel < kLinearMels) return mel * kLinearHertz / kLinearMels;
  return kLinearHertz * std::exp(log_step() * (mel - kLinearMels));
}

bool is_slaney(LogMelKind kind) {
  return kind == LogMelKind::kWhisper || kind == LogMelKind::kNemo;
}

MelScale scale_of(LogMelKind kind) {
  if (is_slaney(kind)) return {.mel_of = slaney_mel_of, .hertz_of = slaney_hertz_of};
  return {.mel_of = htk_mel_of, .hertz_of = htk_hertz_of};
}

// --- tables

std::vector<double> window_of(const LogMelOptions& options) {
  const bool is_periodic =
      options.kind == LogMelKind::kTorchaudio || options.kind == LogMelKind::kWhisper;
  const int64_t period = is_periodic ? options.window : options.window - 1;
  const double unit = 2.0 * std::numbers::pi / static_cast<double>(period);
  std::vector<double> window;
  for (int64_t sample = 0; sample < options.window; ++sample) {
    const double hann = 0.5 - 0.5 * std::cos(unit * static_cast<double>(sample));
    // Povey's window is a power of Hann's.
    window.push_back(options.kind == LogMelKind::kKaldi ? std::pow(hann, 0.85) : hann);
  }
  return window;
}

// Fills the table [2 F, W].
void fill_fourier(const LogMelOptions& options, std::span<float> table) {
  const int64_t points = num_points(options);
  const double unit = 2.0 * std::numbers::pi / static_cast<double>(points);
  const std::vector<double> window = window_of(options);
  auto to = table.begin();
  for (const bool is_sine : {false, true}) {
    for (int64_t frequency = 0; frequency < num_frequencies(options); ++frequency) {
      for (size_t i = 0; i < window.size(); ++i) {
        // The remainder keeps the angle small and its cosine exact to the last digit.
        const int64_t turn = frequency * static_cast<int64_t>(i) % points;
        const double angle = unit * static_cast<double>(turn);
        const double turned = is_sine ? std::sin(angle) : std::cos(angle);
        *to++ = static_cast<float>(window[i] * turned);
      }
    }
  }
}

// Fills [M, F], or `copies` of that side by side: triangles between adjacent points that are
// equidistant in mel.
void fill_filters(const LogMelOptions& options, int64_t copies, std::span<float> table) {
  const MelScale scale = scale_of(options.kind);
  // Kaldi's triangles have straight sides in mel, the others' in Hz.
  const bool is_in_mel = options.kind == LogMelKind::kKaldi;
  const double lowest = scale.mel_of(options.f_min);
  const double highest = scale.mel_of(highest_frequency(options));
  std::vector<double> points;
  for (int64_t i = 0; i < options.num_mels + 2; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(options.num_mels + 1);
    const double mel = lowest + (highest - lowest) * share;
    points.push_back(is_in_mel ? mel : scale.hertz_of(mel));
  }
  const int64_t frequencies = num_frequencies(options);
  const double step = half_rate(options) / static_cast<double>(frequencies - 1);
  auto to = table.begin();
  for (size_t mel = 0; mel < static_cast<size_t>(options.num_mels); ++mel) {
    // Slaney's filters have an area of 1.
    const double height = is_slaney(options.kind) ? 2.0 / (points[mel + 2] - points[mel]) : 1.0;
    for (int64_t column = 0; column < copies * frequencies; ++column) {
      const double hertz = step * static_cast<double>(column % frequencies);
      const double frequency = is_in_mel ? scale.mel_of(hertz) : hertz;
      const double rising = (frequency - points[mel]) / (points[mel + 1] - points[mel]);
      const double falling = (points[mel + 2] - frequency) / (points[mel + 2] - points[mel + 1]);
      *to++ = static_cast<float>(height * std::max(0.0, std::min(rising, falling)));
    }
  }
}

// Fills bands [M, 2] from filters [M, F].
void fill_bands(const at::Tensor& filters, std::span<int32_t> bands) {
  const int64_t width = filters.size(1);
  for (int64_t mel = 0; mel < filters.size(0); ++mel) {
    const float* row = filters.const_data_ptr<float>() + mel * width;
    int64_t first = 0;
    int64_t end = width;
    while (first < end && row[first] == 0.0f) ++first;
    while (first < end && row[end - 1] == 0.0f) --end;
    bands[static_cast<size_t>(2 * mel)] = static_cast<int32_t>(first);
    bands[static_cast<size_t>(2 * mel + 1)] = static_cast<int32_t>(end);
  }
}

// Creates a table on the device. A dry run does not fill it.
template <class T, class Fill>
at::Tensor make_table(at::IntArrayRef sizes, const at::Device& device, Fill fill) {
  const device::CategoryScope category(device::Category::kWeights);
  const auto type = c10::CppTypeToScalarType<T>::value;
  at::Tensor table = at::empty(sizes, at::TensorOptions().dtype(type).device(device));
  if (device.is_meta()) return table;
  std::vector<T> values(static_cast<size_t>(table.numel()));
  fill(std::span(values));
  table.copy_(at::from_blob(values.data(), sizes, type));
  return table;
}

}  // namespace

LogMelRule rule_of(LogMelKind kind) {
  switch (kind) {
    case LogMelKind::kTorchaudio: return {.added = 1e-9f};
    case LogMelKind::kWhisper:
      return {.drops_last = true,
              .least = 1e-10f,
              .scale = static_cast<float>(1.0 / std::numbers::ln10)};
    case LogMelKind::kNemo:
      return {.reflects = false,
              .drops_last = true,
              .rounds_up = true,
              .pre_emphasis = kPreEmphasis,
              .added = 0x1p-24f};
    case LogMelKind::kKaldi:
      return {.is_centred = false,
              .reflects = false,
              .rounds_up = true,
              .by_frame = true,
              .pre_emphasis = kPreEmphasis,
              .least = std::numeric_limits<float>::epsilon()};
  }
  SOTTO_ASSERT(false, "no such kind of log-mel features");
  return {};
}

int64_t num_points(const LogMelOptions& options) {
  if (!rule_of(options.kind).rounds_up) return options.window;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(options.window)));
}

int64_t num_frequencies(const LogMelOptions& options) {
  return num_points(options) / 2 + 1;
}

LogMelOptions LogMelOptions::of_kind(LogMelKind kind) {
  LogMelOptions options;
  options.kind = kind;
  if (kind == LogMelKind::kKaldi) options.f_min = 20.0;
  return options;
}

void LogMelOptions::visit(OptionVisitor& visitor) {
  const LogMelKind before = kind;
  visitor.choice("kind", kind, "feature definition; sets the defaults of the keys below",
                 kLogMelKinds);
  // The kind is visited first: its settings are the defaults of the following fields.
  if (kind != before) *this = of_kind(kind);
  visitor.value("sample_rate", sample_rate, "sample rate of the waveform, in Hz",
                {.min = 1'000, .max = 768'000});
  visitor.value("window", window, "window length in samples; even, except with kaldi",
                {.min = 2, .max = 65'536});
  visitor.value("hop", hop, "samples between frames", {.min = 1, .max = 65'536});
  visitor.value("num_mels", num_mels, "number of mel filters", {.min = 1, .max = 4'096});
  visitor.value("f_min", f_min, "lower edge of the lowest filter, in Hz", {.min = 0.0});
  visitor.value("f_max", f_max, "upper edge of the highest filter, in Hz; 0: half the sample rate",
                {.min = 0.0});
}

void LogMelOptions::validate() const {
  if (rule_of(kind).is_centred && window % 2 != 0) {
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
  const int64_t copies = is_for_cuda(device) ? 2 : 1;
  const int64_t frequencies = num_frequencies(options);
  filters_ = make_table<float>({options.num_mels, copies * frequencies}, device,
                               [&](auto table) { fill_filters(options, copies, table); });
  if (is_for_cuda(device)) {
    fourier_ = make_table<float>({2 * frequencies, options.window}, device,
                                 [&](auto table) { fill_fourier(options, table); });
    return;
  }
  const RealFourier transform(num_points(options));
  fourier_ = make_table<float>({transform.num_factors()}, device,
                               [&](auto table) { transform.fill_factors(table); });
  order_ = make_table<int32_t>({transform.num_complex()}, device,
                               [&](auto table) { transform.fill_order(table); });
  window_ = make_table<float>({options.window}, device, [&](auto table) {
    const auto half = [](double x) { return static_cast<float>(0.5 * x); };
    std::ranges::transform(window_of(options), table.begin(), half);
  });
  bands_ = make_table<int32_t>({options.num_mels, 2}, device,
                               [&](auto table) { fill_bands(filters_, table); });
}

}  // namespace sotto::kernels
