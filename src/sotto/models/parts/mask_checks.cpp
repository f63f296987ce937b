#include "sotto/models/parts/mask_checks.h"

namespace sotto::models {

void check_spec_augment(const nn::SpecAugmentOptions& options,
                        const nn::SpecAugmentOptions& given) {
  using Options = nn::SpecAugmentOptions;
  const MaskSettings settings(options, given);
  if (options.frequency_masks == 0)
    settings.check("spec_augment.frequency_width", &Options::frequency_width,
                   "spec_augment.frequency_masks: 0");
  if (options.time_masks > 0) return;
  constexpr const char* kWhy = "spec_augment.time_masks: 0";
  settings.check("spec_augment.time_width", &Options::time_width, kWhy);
  settings.check("spec_augment.time_share", &Options::time_share, kWhy);
}

}  // namespace sotto::models
