// Keys of random draws as the fixtures write them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sotto/core/rng.h"

namespace sotto::test {

// By name, so that a purpose whose number changes is noticed.
inline Purpose purpose_of(const std::string& name) {
  static const std::map<std::string, Purpose> purposes = {
      {"initialisation", Purpose::kInitialisation},
      {"shuffle", Purpose::kShuffle},
      {"dropout", Purpose::kDropout},
      {"layer_drop", Purpose::kLayerDrop},
      {"augmentation", Purpose::kAugmentation},
  };
  return purposes.at(name);
}

inline RandomKey random_key(const nlohmann::json& key) {
  return {.seed = key.at("seed").get<uint64_t>(),
          .purpose = purpose_of(key.at("purpose").get<std::string>()),
          .step = key.at("step").get<uint64_t>(),
          .layer = key.at("layer").get<uint64_t>()};
}

inline UtteranceKey utterance_key(const nlohmann::json& key) {
  return {.utterance = key.at("utterance").get<uint64_t>(),
          .segment = key.at("segment").get<uint32_t>(),
          .copy = key.at("copy").get<uint32_t>()};
}

}  // namespace sotto::test
