// Arguments of attention of single queries, for its CPU and CUDA versions. Internal to the kernel.
#pragma once

#include <cstdint>

namespace sotto::kernels::detail {

struct RowAttentionTask {
  const void* q;
  int64_t q_stride;
  const void* kv;
  int64_t kv_stride;      // 2 D
  const int32_t* ranges;  // [Q, 2]: first row or place in `listed`, and count
  const int32_t* listed;  // null: rows follow each other
  int64_t num_queries;
  int64_t num_heads;
  int64_t head_size;
  float scale;  // of scores

  int64_t width() const { return num_heads * head_size; }
};

}  // namespace sotto::kernels::detail
