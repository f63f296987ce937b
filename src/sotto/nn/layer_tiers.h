// Which tier each layer of a network has, so that a plan can fill a budget to the last layer.
//
//   norms              all layers
//   12 block, norms    the first twelve, and those behind them
//
// Layers that keep less come first: in backward their recomputation comes last, when what the
// others kept is free again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/nn/tape.h"

namespace sotto::nn {

class LayerTiers {
 public:
  // So many layers, behind those of the group before.
  struct Group {
    int64_t num_layers = 0;
    Tier tier = Tier::kNorms;

    friend bool operator==(const Group&, const Group&) = default;
  };

  // All alike. Where a setting is of one tier that is what is meant.
  LayerTiers(Tier all = Tier::kNorms) : rest_(all) {}  // NOLINT(google-explicit-constructor)
  // `rest`: of the layers behind the groups.
  LayerTiers(std::vector<Group> groups, Tier rest);

  // Throws ConfigError where it is not as above.
  static LayerTiers parse(std::string_view text);
  // What parse() reads back.
  std::string to_string() const;

  Tier of(int64_t layer) const;
  // Of the first so many layers.
  std::vector<Tier> first(int64_t num_layers) const;
  // Throws ConfigError where groups go beyond the layers of a network.
  void check(int64_t num_layers) const;
  // Whether a layer may have it.
  bool has(Tier tier) const;

  friend bool operator==(const LayerTiers&, const LayerTiers&) = default;

 private:
  std::vector<Group> groups_;
  Tier rest_;
};

}  // namespace sotto::nn
