// Built in address-sanitizer builds only.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/device/torch_memory.h"

namespace sotto::device {
namespace {

TEST(SanitizerDeathTest, WritePastTheEndOfATensorIsCaught) {
  const auto arena = std::make_shared<Arena>(RegionKind::kHost, 1 << 20);
  const ArenaGuard guard(c10::kCPU, arena);
  const at::Tensor x = at::empty({100});
  float* data = x.data_ptr<float>();
  data[99] = 1.0f;
  volatile int64_t past = 100;  // inside the block's rounded 512 bytes, outside the tensor's 400
  EXPECT_DEATH(data[past] = 1.0f, "heap-buffer-overflow");
}

}  // namespace
}  // namespace sotto::device
