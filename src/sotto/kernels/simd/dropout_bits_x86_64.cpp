#include <immintrin.h>

#include "sotto/kernels/simd/dropout_bits.h"

namespace sotto::kernels::detail {

namespace {

// One word of four Philox counters, each in the lower half of 64 bits: the widening product reads
// only that half, so the upper halves may have any value.
using Words = __m256i;

Words all(uint64_t value) {
  return _mm256_set1_epi64x(static_cast<int64_t>(value));
}

struct Counters {
  Words word[4];
};

Counters counters_from(uint64_t first_block, uint64_t utterance) {
  const Words blocks = _mm256_add_epi64(all(first_block), _mm256_setr_epi64x(0, 1, 2, 3));
  return {blocks, _mm256_srli_epi64(blocks, 32), all(utterance), all(utterance >> 32)};
}

// One Philox round, as in core/philox.h.
Counters philox_round(const Counters& c, const PhiloxKey& key) {
  const Words product0 = _mm256_mul_epu32(c.word[0], all(kPhiloxMultiplier0));
  const Words product1 = _mm256_mul_epu32(c.word[2], all(kPhiloxMultiplier1));
  const Words high0 = _mm256_srli_epi64(product0, 32);
  const Words high1 = _mm256_srli_epi64(product1, 32);
  return {_mm256_xor_si256(_mm256_xor_si256(high1, c.word[1]), all(key[0])), product1,
          _mm256_xor_si256(_mm256_xor_si256(high0, c.word[3]), all(key[1])), product0};
}

// Joins the lower halves of both, a's before b's.
Words joined(Words a, Words b) {
  return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0b10101010);
}

// Stores the four words of each counter contiguously, one counter after another.
void store(uint16_t* to, const Counters& c) {
  const Words first = joined(c.word[0], c.word[1]);
  const Words second = joined(c.word[2], c.word[3]);
  const Words blocks02 = _mm256_unpacklo_epi64(first, second);
  const Words blocks13 = _mm256_unpackhi_epi64(first, second);
  auto* out = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(out, _mm256_permute2x128_si256(blocks02, blocks13, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(blocks02, blocks13, 0x31));
}

}  // namespace

void fill_dropout_bits(uint64_t first_block, uint64_t utterance, const PhiloxKey& key,
                       uint16_t* bits) {
  // Two sets of four: while one waits for its products the other proceeds.
  static_assert(kDropoutBlocksAtOnce == 8);
  Counters a = counters_from(first_block, utterance);
  Counters b = counters_from(first_block + 4, utterance);
  PhiloxKey now = key;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    a = philox_round(a, now);
    b = philox_round(b, now);
    now = next_philox_key(now);
  }
  store(bits, a);
  store(bits + 4 * kDropoutBlock, b);
}

}  // namespace sotto::kernels::detail
