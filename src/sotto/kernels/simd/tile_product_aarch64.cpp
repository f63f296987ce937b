#include "sotto/kernels/simd/tile_product.h"

namespace sotto::kernels {

const TileProduct& TileProduct::best() {
  return portable();
}

}  // namespace sotto::kernels
