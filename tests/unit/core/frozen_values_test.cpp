// Numbers that stand in files of earlier builds, or that these were drawn by.
#include <gtest/gtest.h>

#include "sotto/core/hash.h"
#include "sotto/core/rng.h"

namespace sotto {
namespace {

TEST(FrozenValues, RandomPurposes) {
  EXPECT_EQ(static_cast<uint32_t>(Purpose::kInitialisation), 0u);
  EXPECT_EQ(static_cast<uint32_t>(Purpose::kShuffle), 1u);
  EXPECT_EQ(static_cast<uint32_t>(Purpose::kDropout), 2u);
  EXPECT_EQ(static_cast<uint32_t>(Purpose::kLayerDrop), 3u);
  EXPECT_EQ(static_cast<uint32_t>(Purpose::kAugmentation), 4u);
  EXPECT_EQ(static_cast<uint32_t>(Purpose::kRounding), 5u);
}

// Fingerprints of manifests, orders and vocabularies in checkpoints.
TEST(FrozenValues, FingerprintHashes) {
  EXPECT_EQ(hash_combine(1, 2), 15755400376392359260u);
  EXPECT_EQ(hash_bytes("sotto voce"), 11248961592987033605u);
}

}  // namespace
}  // namespace sotto
