// Runs that an earlier build wrote (tests/frozen/make.py): each goes on as it would have then, and
// is evaluated to the same numbers. Names of parameters, keys of random draws, the order of the
// data and the files of a checkpoint are held by this.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sotto/core/formats/safetensors.h"
#include "support/run_command.h"
#include "support/temp_folder.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

// Processors compute products in different orders, and eight updates carry that on. Another mask,
// or another order of utterances, changes a loss by percents.
constexpr double kLossTolerance = 1e-3;
// Biases of keys have no gradient but rounding, which AdamW makes as large as any: weights are held
// to what eight updates can move at most.
constexpr double kWeightTolerance = 1e-2;

// Those whose data this build reads.
std::vector<std::string> families() {
  std::vector<std::string> names;
  std::istringstream text(SOTTO_FROZEN_FAMILIES);
  for (std::string name; text >> name;) names.push_back(name);
  return names;
}

std::vector<nlohmann::json> records_of(const fs::path& file) {
  std::vector<nlohmann::json> records;
  std::istringstream lines(content_of(file));
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// What a CPU does not decide is the same to the bit.
void expect_records(const fs::path& file, const std::vector<nlohmann::json>& expected) {
  std::vector<nlohmann::json> records = records_of(file);
  records.erase(records.begin());  // the header
  // Builds of then did not record that a run was resumed.
  std::erase_if(records, [](const nlohmann::json& record) { return record["kind"] == "resume"; });
  ASSERT_GE(records.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    for (const char* key :
         {"kind", "step", "epoch", "updated", "utterances", "frames", "micro_batches",
          "audio_seconds", "infeasible", "words", "characters"}) {
      EXPECT_EQ(records[i].value(key, nlohmann::json()), expected[i].value(key, nlohmann::json()))
          << key << " of record " << i;
    }
    const double loss = expected[i]["loss"];
    EXPECT_NEAR(records[i]["loss"].get<double>(), loss, kLossTolerance * loss) << "record " << i;
    EXPECT_DOUBLE_EQ(records[i].value("rate", 0.0), expected[i].value("rate", 0.0));
  }
}

// The largest difference of two tensors, relative to 1 and the largest value.
double difference(const TensorView& a, const TensorView& b) {
  const std::vector<float> first = values_of(a);
  const std::vector<float> second = values_of(b);
  double largest = 0.0;
  double most = 0.0;
  for (size_t i = 0; i < first.size(); ++i) {
    largest = std::max(largest, std::abs(double{second[i]}));
    most = std::max(most, std::abs(double{first[i]} - double{second[i]}));
  }
  return most / (1.0 + largest);
}

class FrozenRuns : public ::testing::TestWithParam<std::string> {
 protected:
  FrozenRuns() {
    fs::copy(frozen(), folder_.path(), fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(folder_.path() / "run/checkpoints"))
      checkpoint_ = entry.path();
  }

  static fs::path frozen() { return fs::path(SOTTO_FROZEN) / GetParam(); }
  std::string data(const std::string& part) const {
    return (folder_.path() / (part + (GetParam() == "decoder_lm" ? ".txt" : ".jsonl"))).string();
  }

  TempFolder folder_;
  fs::path checkpoint_;
};

TEST_P(FrozenRuns, AreSmall) {
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(frozen()))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_LT(bytes, 200'000u);
}

// Initial values depend on parameter names.
TEST_P(FrozenRuns, StartAsBefore) {
  const fs::path run = folder_.path() / "begun";
  const CommandResult result =
      run_sotto({"train", "--config", (checkpoint_ / "config.yaml").string(), "--max-steps", "3",
                 "--out", run.string(), "--train", data("train"), "--dev", data("dev")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_records(run / "metrics.jsonl", records_of(folder_.path() / "beginning.jsonl"));
}

TEST_P(FrozenRuns, ResumeAsBefore) {
  const fs::path run = folder_.path() / "run";
  const CommandResult result = run_sotto(
      {"train", "--resume", "--out", run.string(), "--train", data("train"), "--dev", data("dev")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<nlohmann::json> expected = records_of(folder_.path() / "expected.jsonl");
  expect_records(run / "metrics.jsonl", expected);
  const auto last = expected.back()["step"].get<int64_t>();
  const SafetensorsFile weights = SafetensorsFile::open(
      run / "checkpoints" / ("step-" + std::to_string(last)) / "model.safetensors");
  const SafetensorsFile frozen = SafetensorsFile::open(folder_.path() / "expected.safetensors");
  ASSERT_EQ(weights.names(), frozen.names());
  for (const std::string& name : frozen.names()) {
    ASSERT_EQ(weights.find(name)->shape, frozen.find(name)->shape) << name;
    EXPECT_LT(difference(*weights.find(name), *frozen.find(name)), kWeightTolerance) << name;
  }
}

TEST_P(FrozenRuns, EvaluateToTheSameNumbers) {
  const CommandResult result = run_sotto({"eval", "--model", checkpoint_.string(), "--data",
                                          data("dev"), "--memory", "100MiB", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto evaluation = nlohmann::json::parse(result.out);
  const auto expected = nlohmann::json::parse(content_of(folder_.path() / "evaluation.json"));
  for (const char* key : {"wer", "cer", "utterances", "skipped", "audio_seconds", "tokens"})
    EXPECT_EQ(evaluation.value(key, nlohmann::json()), expected.value(key, nlohmann::json()))
        << key;
  const double loss = expected["loss"];
  EXPECT_NEAR(evaluation["loss"].get<double>(), loss, kLossTolerance * loss);
}

INSTANTIATE_TEST_SUITE_P(Families, FrozenRuns, ::testing::ValuesIn(families()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace sotto::test
