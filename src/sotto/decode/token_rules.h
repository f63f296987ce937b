// Rules about which tokens may follow a hypothesis of an attention decoder. A search applies them
// to the log-probabilities of each hypothesis before it chooses the likeliest.
#pragma once

#include <cstdint>
#include <span>

namespace sotto::decode {

class TokenRules {
 public:
  virtual ~TokenRules() = default;

  // Sets the log-probabilities [V] of tokens that must not follow to minus infinity. `tokens`:
  // those of the hypothesis, without its prompt. Called for several utterances at a time.
  virtual void apply(std::span<const int32_t> tokens, std::span<float> scores) const = 0;
};

}  // namespace sotto::decode
