// The tier of each layer of a network, so that a plan can use a budget to the last layer.
//
//   norms              all layers
//   12 block, norms    the first twelve layers, and the layers after them
//
// Layers that keep less come first: their recomputation comes last in backward, when the memory of
// the other layers is free again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/nn/tape.h"

namespace sotto::nn {

class LayerTiers {
 public:
  // num_layers layers, following those of the previous group.
  struct Group {
    int64_t num_layers = 0;
    Tier tier = Tier::kNorms;

    friend bool operator==(const Group&, const Group&) = default;
  };

  // One tier for all layers. Implicit, so that a single tier can be used where tiers are expected.
  LayerTiers(Tier all = Tier::kNorms) : rest_(all) {}  // NOLINT(google-explicit-constructor)
  // `rest`: the tier of the layers after the groups.
  LayerTiers(std::vector<Group> groups, Tier rest);

  // Throws ConfigError where the text is not in the format above.
  static LayerTiers parse(std::string_view text);
  // Returns text that parse() accepts.
  std::string to_string() const;

  Tier of(int64_t layer) const;
  // Returns the tiers of the first num_layers layers.
  std::vector<Tier> first(int64_t num_layers) const;
  // Throws ConfigError where groups exceed the layers of a network.
  void check(int64_t num_layers) const;
  // Whether any layer may have the tier.
  bool has(Tier tier) const;

  friend bool operator==(const LayerTiers&, const LayerTiers&) = default;

 private:
  std::vector<Group> groups_;
  Tier rest_;
};

}  // namespace sotto::nn
