// Log-mel features against torchaudio's, by way of tests/fixtures/log_mel.json, which
// make_log_mel.py makes.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/kernels/features/log_mel.h"
#include "support/fixture.h"
#include "support/thrown.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace log_mel_oracle_test {

using kernels::LogMel;
using kernels::LogMelOptions;
using kernels::Packing;
using nlohmann::json;

LogMelOptions options_of(const json& row) {
  const json& options = row.at("options");
  return {.sample_rate = options.at("sample_rate").get<int64_t>(),
          .window = options.at("window").get<int64_t>(),
          .hop = options.at("hop").get<int64_t>(),
          .num_mels = options.at("num_mels").get<int64_t>(),
          .f_min = options.at("f_min").get<double>(),
          .f_max = options.at("f_max").get<double>()};
}

at::Tensor wave_of(const json& row) {
  return (fixture_tensor(row.at("samples")) / 32768.0).to(at::kFloat);
}

TEST(LogMelOracle, AgreesWithTorchaudio) {
  const json fixture = read_fixture("log_mel");
  ASSERT_EQ(fixture.at("cases").size(), 2u);
  for (const json& row : fixture.at("cases")) {
    const LogMel::Tables tables(options_of(row), at::kCPU);
    const Packing samples(row.at("lengths").get<std::vector<int64_t>>(), at::kCPU);
    const at::Tensor ours = LogMel::forward(wave_of(row), samples, tables).to(at::kDouble);
    const at::Tensor truth = fixture_tensor(row.at("features"));
    EXPECT_EQ(LogMel::frame_lengths(samples, tables.options()),
              row.at("frames").get<std::vector<int64_t>>());
    ASSERT_EQ(ours.sizes(), truth.sizes());
    EXPECT_LE((ours - truth).abs().max().item<double>(), kLogMelTolerance);
  }
}

// The default's f_max is half the sample rate, and the defaults are those of the first case.
TEST(LogMelOracle, DefaultsAreTheUsualFeatures) {
  const json fixture = read_fixture("log_mel");
  LogMelOptions options = options_of(fixture.at("cases").at(0));
  EXPECT_EQ(options.f_max, 8'000.0);
  const LogMel::Tables written_out(options, at::kCPU);
  options.f_max = 0.0;
  EXPECT_EQ(options, LogMelOptions{});
  EXPECT_TRUE(at::equal(LogMel::Tables({}, at::kCPU).filters(), written_out.filters()));
}

// An utterance gives the same features alone and behind others.
TEST(LogMelOracle, UtterancesAreIndependent) {
  const json fixture = read_fixture("log_mel");
  const json& row = fixture.at("cases").at(0);
  const LogMel::Tables tables(options_of(row), at::kCPU);
  const at::Tensor wave = wave_of(row), truth = fixture_tensor(row.at("features"));
  const Packing samples(row.at("lengths").get<std::vector<int64_t>>(), at::kCPU);
  const Packing frames(LogMel::frame_lengths(samples, tables.options()), at::kCPU);
  for (size_t u = 0; u < 3; ++u) {
    const int64_t length = samples.lengths()[u];
    const at::Tensor alone = LogMel::forward(wave.narrow(0, samples.starts()[u], length),
                                             Packing({length}, at::kCPU), tables);
    const at::Tensor expected = truth.narrow(0, frames.starts()[u], frames.lengths()[u]);
    EXPECT_LE((alone.to(at::kDouble) - expected).abs().max().item<double>(), kLogMelTolerance);
  }
}

TEST(LogMel, RefusesUtterancesTooShortToReflect) {
  const LogMel::Tables tables({}, at::kCPU);
  EXPECT_EQ(LogMel::min_samples({}), 201);
  EXPECT_EQ(LogMel::forward(at::zeros({201}), Packing({201}, at::kCPU), tables).size(0), 2);
  EXPECT_EQ(
      message_of<DataError>(
          [&] { LogMel::forward(at::zeros({500}), Packing({300, 200}, at::kCPU), tables); }),
      "computing log-mel features: utterance 1 of the pack has 200 samples. Expected at least "
      "201, to be reflected at its ends under a window of 400. --set data.min_seconds=0.1 skips "
      "shorter utterances.");
}

TEST(LogMel, RefusesInconsistentOptions) {
  const auto refusal = [](const LogMelOptions& options) {
    return message_of<ConfigError>([&] { LogMel::Tables(options, at::kCPU); });
  };
  EXPECT_PRED2(contains, refusal({.window = 401}), "a window of 401 samples. Expected an even");
  EXPECT_PRED2(contains, refusal({.f_max = 8'001.0}),
               "filters from 0 to 8001 Hz. Expected f_min below f_max, and f_max at most 8000 Hz");
  EXPECT_PRED2(contains, refusal({.f_min = 500.0, .f_max = 500.0}), "filters from 500 to 500 Hz");
}

}  // namespace log_mel_oracle_test
}  // namespace sotto::test
