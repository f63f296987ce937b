// Products of small fp32 matrices in a cache, with sums in registers. Every element is one chain of
// multiply-adds in the order of the inner axis. Internal to the CPU kernels.
#pragma once

#include <cstdint>

namespace sotto::kernels {

struct Matrix {
  float* at;
  int64_t stride;  // from row to row

  float* row(int64_t i) const { return at + i * stride; }
};

// c [rows, columns] from a [rows, inner] and b [inner, columns].
struct Extent {
  int64_t rows;
  int64_t columns;  // computed in whole blocks of sixteen: rows of b and c must have room for them
  int64_t inner;
};

struct TileProduct {
  using Function = void(const Matrix& c, const Matrix& a, const Matrix& b, const Extent& extent);

  Function* assign;          // c = a b
  Function* add;             // c += a b
  Function* add_transposed;  // c += a^T b, with a [inner, rows]

  // Implementation with simd.h, for any CPU.
  static const TileProduct& portable();

  // The fastest implementation on this CPU.
  static const TileProduct& best();
};

}  // namespace sotto::kernels
