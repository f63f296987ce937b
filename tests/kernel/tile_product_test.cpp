// Products of tiles: right for every size, and the same bits from every version.
#include "sotto/kernels/tile_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/tolerance.h"

namespace sotto::kernels {
namespace {

// Room for whole blocks, and a stride that is none.
constexpr int64_t kStride = 90;

Matrix matrix_of(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), kStride};
}

TEST(TileProduct, EveryVersionGivesTheSameBitsForEverySize) {
  at::manual_seed(1);
  at::Tensor a = at::randn({kStride, kStride});
  at::Tensor b = at::randn({kStride, kStride});
  const at::Tensor before = at::randn({kStride, kStride});
  const auto product_of = [&](TileProduct::Function* function, const Extent& extent) {
    at::Tensor c = before.clone();
    function(matrix_of(c), matrix_of(a), matrix_of(b), extent);
    return c;
  };
  const TileProduct& portable = TileProduct::portable();
  const TileProduct& best = TileProduct::best();
  for (const int64_t rows : {1, 2, 3, 5, 6, 7, 13, 31, 64}) {
    for (const int64_t columns : {1, 16, 17, 40, 64, 80}) {
      for (const int64_t inner : {1, 10, 64}) {
        const Extent extent{rows, columns, inner};
        const auto part = [&](const at::Tensor& c) {
          return c.narrow(0, 0, rows).narrow(1, 0, columns);
        };
        const at::Tensor left = a.narrow(0, 0, rows).narrow(1, 0, inner).to(at::kDouble);
        const at::Tensor turned = a.narrow(0, 0, inner).narrow(1, 0, rows).t().to(at::kDouble);
        const at::Tensor right = b.narrow(0, 0, inner).narrow(1, 0, columns).to(at::kDouble);
        const at::Tensor start = part(before).to(at::kDouble);
        const auto expect = [&](TileProduct::Function* ours, TileProduct::Function* fastest,
                                const at::Tensor& truth) {
          const at::Tensor c = product_of(ours, extent);
          EXPECT_LE(test::relative_error(part(c), truth), test::kernel_tolerance(at::kFloat));
          EXPECT_TRUE(at::equal(c, product_of(fastest, extent)));
          // Nothing outside the whole blocks of columns is touched.
          EXPECT_TRUE(at::equal(c.slice(0, rows), before.slice(0, rows)));
          const int64_t end = (columns + 15) / 16 * 16;
          EXPECT_TRUE(at::equal(c.slice(1, end), before.slice(1, end)));
        };
        expect(portable.assign, best.assign, at::mm(left, right));
        expect(portable.add, best.add, start + at::mm(left, right));
        expect(portable.add_transposed, best.add_transposed, start + at::mm(turned, right));
      }
    }
  }
}

}  // namespace
}  // namespace sotto::kernels
