// Log-mel features against those of transformers and kaldi-native-fbank, by way of
// tests/fixtures/features, which make_features.py makes: each utterance alone there, all of them
// packed here.
#include <algorithm>

#include "oracle/model_oracle.h"
#include "sotto/core/error.h"
#include "sotto/kernels/features/log_mel.h"
#include "support/thrown.h"

namespace sotto::test {
namespace features_oracle_test {

using kernels::LogMel;
using kernels::LogMelKind;
using kernels::LogMelOptions;
using kernels::Packing;

LogMelOptions options_of(const nlohmann::json& options) {
  return {.kind = value_of(options.at("kind").get<std::string>(), kernels::kLogMelKinds),
          .sample_rate = options.at("sample_rate").get<int64_t>(),
          .window = options.at("window").get<int64_t>(),
          .hop = options.at("hop").get<int64_t>(),
          .num_mels = options.at("num_mels").get<int64_t>(),
          .f_min = options.at("f_min").get<double>(),
          .f_max = options.at("f_max").get<double>()};
}

class FeaturesOracle : public ::testing::TestWithParam<const char*> {
 protected:
  FeaturesOracle() {
    for (int64_t u = 0; fixture_.has(fmt::format("samples.{}", u)); ++u) {
      samples_.push_back(fixture_.tensor(fmt::format("samples.{}", u)).numel());
      frames_.push_back(fixture_.tensor(fmt::format("features.{}", u)).size(0));
    }
  }

  ModelFixture fixture_{std::string("features/") + GetParam()};
  LogMelOptions options_ = options_of(fixture_.scalars().at("options"));
  std::vector<int64_t> samples_;
  std::vector<int64_t> frames_;
};

TEST_P(FeaturesOracle, AgreesWithTheReferenceImplementation) {
  const Packing samples(samples_, at::kCPU);
  const at::Tensor ours =
      LogMel::forward(fixture_.packed("samples"), samples, LogMel::Tables(options_, at::kCPU));
  ASSERT_GE(samples_.size(), 4u);
  EXPECT_EQ(LogMel::frame_lengths(samples, options_), frames_);
  ASSERT_EQ(ours.size(0), Packing(frames_, at::kCPU).num_frames());
  const std::vector<at::Tensor> utterances = ours.split_with_sizes(frames_);
  for (size_t u = 0; u < utterances.size(); ++u) {
    const at::Tensor truth = fixture_.tensor(fmt::format("features.{}", u));
    EXPECT_LE(relative_error(utterances[u], truth), kFeatureTolerance) << "utterance " << u;
  }
}

// The shortest in the fixture is the shortest that there can be: one sample less is refused.
TEST_P(FeaturesOracle, AcceptsTheShortestUtterance) {
  const int64_t shortest = LogMel::min_samples(options_);
  const LogMel::Tables tables(options_, at::kCPU);
  if (options_.sample_rate == 16'000) {
    EXPECT_EQ(std::ranges::min(samples_), shortest);
  }
  EXPECT_GE(LogMel::forward(at::zeros({shortest}), Packing({shortest}, at::kCPU), tables).size(0),
            1);
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 LogMel::forward(at::zeros({shortest - 1}), Packing({shortest - 1}, at::kCPU),
                                 tables);
               }),
               fmt::format("has {} samples. Expected at least {}, ", shortest - 1, shortest));
}

INSTANTIATE_TEST_SUITE_P(All, FeaturesOracle,
                         ::testing::Values("whisper", "whisper_128", "nemo", "nemo_128", "kaldi",
                                           "kaldi_8k"),
                         [](const auto& test) { return std::string(test.param); });

// What is usual for a kind is what its fixture has.
TEST(Features, DefaultsMatchThePublishedModels) {
  for (const auto& [name, kind] : kernels::kLogMelKinds) {
    if (kind == LogMelKind::kTorchaudio) continue;
    const ModelFixture fixture("features/" + std::string(name));
    EXPECT_EQ(options_of(fixture.scalars().at("options")), LogMelOptions::of_kind(kind)) << name;
  }
}

// The deviation of silence is 0; transformers divides a rounding error by 1e-5 there.
TEST(Features, NemoFeaturesAreZeroForSilence) {
  const LogMel::Tables tables(LogMelOptions::of_kind(LogMelKind::kNemo), at::kCPU);
  const at::Tensor features =
      LogMel::forward(at::zeros({4'000}), Packing({4'000}, at::kCPU), tables);
  EXPECT_EQ(features.abs().max().item<float>(), 0.0f);
}

}  // namespace features_oracle_test
}  // namespace sotto::test
