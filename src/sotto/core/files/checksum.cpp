#include "sotto/core/files/checksum.h"

#include <xxhash.h>

namespace sotto {

struct Checksum::State {
  XXH64_state_t of_xxhash = {};
};

void Checksum::Delete::operator()(State* state) const {
  delete state;
}

Checksum::Checksum() : state_(new State) {
  XXH64_reset(&state_->of_xxhash, /*seed=*/0);
}

void Checksum::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  XXH64_update(&state_->of_xxhash, bytes.data(), bytes.size());
  num_bytes_ += std::ssize(bytes);
}

uint64_t Checksum::value() const {
  return XXH64_digest(&state_->of_xxhash);
}

}  // namespace sotto
