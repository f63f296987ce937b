// Resampling with soxr.
#include <soxr.h>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"

namespace sotto::data {

void require_resampling(const std::string& /*attempted*/, double /*from*/, double /*to*/) {}

std::vector<float> resample(std::vector<float> samples, double from, double to) {
  if (from == to || samples.empty()) return samples;
  const double ratio = to / from;
  // soxr may round the length up or down: leave room for one more.
  std::vector<float> result(static_cast<size_t>(static_cast<double>(samples.size()) * ratio) + 2);
  const soxr_io_spec_t types = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);  // the loader has its own threads
  size_t taken = 0;
  size_t made = 0;
  const soxr_error_t error =
      soxr_oneshot(from, to, 1, samples.data(), samples.size(), &taken, result.data(),
                   result.size(), &made, &types, &quality, &one_thread);
  SOTTO_ASSERT(error == nullptr, "soxr from {} to {} Hz: {}", from, to, error);
  result.resize(made);
  return result;
}

}  // namespace sotto::data
