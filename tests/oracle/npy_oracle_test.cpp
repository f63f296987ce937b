// Arrays that NumPy wrote, by way of tests/fixtures/npy.json, which make_npy.py makes.
#include <gtest/gtest.h>

#include "oracle/tensor_samples.h"
#include "sotto/core/error.h"
#include "sotto/data/audio/features.h"
#include "support/fixture.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::test {
namespace {

TEST(NpyOracle, ReadsWhatNumpyWrote) {
  const nlohmann::json fixture = read_fixture("npy");
  EXPECT_EQ(fixture.at("good").size(), 27u);
  const TempFolder folder;
  for (const nlohmann::json& row : fixture.at("good")) {
    const auto path = folder.write("a.npy", from_hex(row.at("file")));
    const auto shape = row.at("shape").get<std::vector<int64_t>>();
    std::vector<float> expected;
    for (const nlohmann::json& values : row.at("values"))
      for (const nlohmann::json& value : values) expected.push_back(value.get<float>());
    EXPECT_EQ(data::read_features({.path = path, .num_frames = shape[0], .feature_dim = shape[1]}),
              expected);
  }
}

TEST(NpyOracle, RefusesOtherNumpyArrays) {
  const nlohmann::json fixture = read_fixture("npy");
  EXPECT_EQ(fixture.at("refused").size(), 10u);
  const TempFolder folder;
  for (const auto& [what, file] : fixture.at("refused").items()) {
    const auto path = folder.write("a.npy", from_hex(file));
    EXPECT_PRED2(contains, message_of<DataError>([&] {
                   data::read_features({.path = path, .num_frames = 1, .feature_dim = 4});
                 }),
                 path.string())
        << what;
  }
}

}  // namespace
}  // namespace sotto::test
