#include "sotto/core/files/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace sotto {
namespace {

// Bytes 3, 10, 17, ...
std::vector<std::byte> sample(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(7 * i + 3);
  return bytes;
}

struct Known {
  size_t size;
  uint64_t checksum;
};

// What XXH64() of libxxhash 0.8.1 gives for the sample with a seed of 0: no stripe, a whole one,
// all kinds of rest.
constexpr Known kKnown[] = {
    {0, 0xEF46DB3751D8E999},   {1, 0x1F25C8D0BC1F4BB6},   {3, 0x31D2363F52E564C9},
    {4, 0x9BB64B7D66EE9FDA},   {7, 0x9A7B149959CE60D8},   {8, 0xDAB99D95C6F90092},
    {14, 0xC7F1D4D0ACFA5A14},  {31, 0xA2AA5F33CC4A6119},  {32, 0x23C3C17EF790FD97},
    {33, 0x50A7CFC7BA588784},  {63, 0x5E3E54B431C7493C},  {64, 0x0EB64B3EF6EEB01F},
    {100, 0xA61F8D4C170FE531}, {222, 0x8488AA61FC67F7EB}, {1000, 0x5F235FA033F1A3FB}};

TEST(Checksum, MatchesTheReferenceLibrary) {
  for (const Known& known : kKnown) {
    Checksum checksum;
    checksum.add(sample(known.size));
    EXPECT_EQ(checksum.value(), known.checksum) << known.size;
    EXPECT_EQ(checksum.sum(), (FileSum{static_cast<int64_t>(known.size), known.checksum}));
  }
}

TEST(Checksum, DoesNotDependOnChunking) {
  for (const Known& known : kKnown) {
    const std::vector<std::byte> bytes = sample(known.size);
    for (const size_t piece : {1, 5, 31, 32, 33, 70}) {
      Checksum checksum;
      for (size_t at = 0; at < bytes.size(); at += piece) {
        checksum.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
        checksum.add({});
      }
      EXPECT_EQ(checksum.value(), known.checksum) << known.size << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace sotto
