// The list of families of a program that has one more.
#include "sotto/models/families.h"

#include "toy_family.h"

namespace sotto::models {

const std::vector<Family>& families() {
  static const std::vector<Family> all = {transformer_ctc_family(), wav2vec2_family(),
                                          decoder_lm_family(), toy_family()};
  return all;
}

}  // namespace sotto::models
