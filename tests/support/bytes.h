// Units of memory for tests.
#pragma once

#include <cstdint>

namespace sotto::test {

inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

}  // namespace sotto::test
