#include "sotto/models/families.h"

namespace sotto::models {

const std::vector<Family>& families() {
  static const std::vector<Family> all = {transformer_ctc_family(), conformer_family(),
                                          wav2vec2_family(),        parakeet_family(),
                                          whisper_family(),         decoder_lm_family()};
  return all;
}

}  // namespace sotto::models
