// Products of tiles: right for every size, in every version.
#include "sotto/kernels/simd/tile_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/tolerance.h"

namespace sotto::kernels {
namespace tile_product_test {

// Room for whole blocks, and a stride that is none.
constexpr int64_t kStride = 90;

Matrix matrix_of(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), kStride};
}

class TileProducts : public ::testing::TestWithParam<const TileProduct*> {};

TEST_P(TileProducts, AreCorrectForEverySize) {
  at::manual_seed(1);
  at::Tensor a = at::randn({kStride, kStride});
  at::Tensor b = at::randn({kStride, kStride});
  const at::Tensor before = at::randn({kStride, kStride});
  for (const int64_t rows : {1, 2, 3, 5, 6, 7, 13, 31, 64}) {
    for (const int64_t columns : {1, 16, 17, 40, 64, 80}) {
      for (const int64_t inner : {1, 10, 64}) {
        const auto part = [&](const at::Tensor& c) {
          return c.narrow(0, 0, rows).narrow(1, 0, columns);
        };
        const auto expect = [&](TileProduct::Function* function, const at::Tensor& truth) {
          at::Tensor c = before.clone();
          function(matrix_of(c), matrix_of(a), matrix_of(b), {rows, columns, inner});
          EXPECT_LE(test::relative_error(part(c), truth), test::kernel_tolerance(at::kFloat))
              << rows << " x " << columns << " x " << inner;
          // Nothing outside the rows and the whole blocks of columns is touched.
          const int64_t end = (columns + 15) / 16 * 16;
          EXPECT_TRUE(at::equal(c.slice(0, rows), before.slice(0, rows)));
          EXPECT_TRUE(at::equal(c.slice(1, end), before.slice(1, end)));
        };
        const at::Tensor left = a.narrow(0, 0, rows).narrow(1, 0, inner).to(at::kDouble);
        const at::Tensor turned = a.narrow(0, 0, inner).narrow(1, 0, rows).t().to(at::kDouble);
        const at::Tensor right = b.narrow(0, 0, inner).narrow(1, 0, columns).to(at::kDouble);
        const at::Tensor start = part(before).to(at::kDouble);
        expect(GetParam()->assign, at::mm(left, right));
        expect(GetParam()->add, start + at::mm(left, right));
        expect(GetParam()->add_transposed, start + at::mm(turned, right));
      }
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<const TileProduct*>& info) {
  return info.index == 0 ? "Portable" : "Best";
}

// On a CPU without a faster version both are the same.
INSTANTIATE_TEST_SUITE_P(Versions, TileProducts,
                         ::testing::Values(&TileProduct::portable(), &TileProduct::best()),
                         name_of);

}  // namespace tile_product_test
}  // namespace sotto::kernels
