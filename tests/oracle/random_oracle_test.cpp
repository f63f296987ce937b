// Philox and the keyed streams against an implementation in Python (philox.py), by way of
// tests/fixtures/kernels.json.
#include <gtest/gtest.h>

#include "oracle/random_json.h"
#include "sotto/core/rng.h"
#include "support/fixture.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace random_oracle_test {

using nlohmann::json;

TEST(PhiloxOracle, GivesTheSameWords) {
  const json fixture = read_fixture("kernels");
  ASSERT_GE(fixture.at("philox").size(), 3u);
  for (const json& row : fixture.at("philox")) {
    EXPECT_EQ(philox(row.at("counter").get<PhiloxCounter>(), row.at("key").get<PhiloxKey>()),
              row.at("words").get<PhiloxCounter>())
        << row;
  }
}

class StreamOracle : public ::testing::Test {
 protected:
  // Calls check(stream, row of the fixture) for every stream.
  template <class Check>
  void for_each_stream(Check check) {
    const json fixture = read_fixture("kernels");
    ASSERT_GE(fixture.at("streams").size(), 5u);
    for (const json& row : fixture.at("streams")) {
      SCOPED_TRACE(row.at("key").dump() + " " + row.at("utterance").dump());
      check(RandomStream(random_key(row.at("key")), utterance_key(row.at("utterance"))), row);
    }
  }
};

TEST_F(StreamOracle, FoldsKeysEqually) {
  for_each_stream([](const RandomStream&, const json& row) {
    EXPECT_EQ(fold(random_key(row.at("key"))), row.at("folded_key").get<PhiloxKey>());
    EXPECT_EQ(fold(utterance_key(row.at("utterance"))), row.at("folded_utterance").get<uint64_t>());
  });
}

TEST_F(StreamOracle, GivesTheSameNumbers) {
  for_each_stream([](const RandomStream& stream, const json& row) {
    const auto indices = row.at("places").get<std::vector<uint64_t>>();
    std::vector<double> normal;
    for (size_t i = 0; i < indices.size(); ++i) {
      const uint64_t n = indices[i];
      EXPECT_EQ(stream.bits(n), row.at("bits").at(i).get<uint32_t>()) << "bits " << n;
      EXPECT_EQ(stream.uniform(n), row.at("uniform").at(i).get<double>()) << "uniform " << n;
      EXPECT_EQ(stream.bernoulli(n, row.at("chance").get<double>()),
                row.at("bernoulli").at(i).get<bool>())
          << "bernoulli " << n;
      normal.push_back(stream.normal(n));
    }
    EXPECT_LE(relative_error(at::tensor(normal, at::kDouble), fixture_tensor(row.at("normal"))),
              kernel_tolerance(at::kFloat));
  });
}

TEST_F(StreamOracle, GivesTheSamePermutations) {
  for_each_stream([](const RandomStream& stream, const json& row) {
    for (const json& order : row.at("permutations")) {
      EXPECT_EQ(stream.permutation(static_cast<int64_t>(order.size())),
                order.get<std::vector<int64_t>>());
    }
  });
}

}  // namespace random_oracle_test
}  // namespace sotto::test
