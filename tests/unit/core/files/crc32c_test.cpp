#include "sotto/core/files/crc32c.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace sotto {
namespace {

uint32_t of_text(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

// RFC 3720, B.4, and the check value in catalogues of CRCs.
TEST(Crc32c, HasThePublishedValues) {
  std::array<std::byte, 32> bytes = {};
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAu);
  bytes.fill(std::byte{0xFF});
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43u);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46DD794Eu);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(crc32c(bytes), 0x113FDB5Cu);
  EXPECT_EQ(of_text("123456789"), 0xE3069283u);
  EXPECT_EQ(of_text(""), 0u);
}

// The first twelve bytes of every event file written by TensorFlow: the length 24 and its checksum.
TEST(Crc32c, IsMaskedAsInEventFiles) {
  constexpr std::array<std::byte, 8> kLength = {std::byte{24}};
  EXPECT_EQ(masked_crc32c(kLength), 0x224B7FA3u);
}

}  // namespace
}  // namespace sotto
