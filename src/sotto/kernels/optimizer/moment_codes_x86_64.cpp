// A register holds one number for each of the eight runs of a map, and one instruction selects
// eight of them: codes are computed by the runs' arithmetic, without a table in memory.
// Everything is inlined: the registers with the runs then stay valid for a block.
#include <immintrin.h>

#include "sotto/kernels/optimizer/moment_codes.h"

namespace sotto::kernels::detail {

namespace {

using Floats = __m256;
using Ints = __m256i;

[[gnu::always_inline]] inline Floats of_run(const std::array<float, 8>& table, Ints run) {
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.data()), run);
}

// Selects `yes` where the bits of the mask are set, otherwise `no`.
[[gnu::always_inline]] inline Floats choose(Floats mask, Floats yes, Floats no) {
  return _mm256_blendv_ps(no, yes, mask);
}

[[gnu::always_inline]] inline Floats magnitude_bits(Floats x) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

// The runs in the form for decoding: the run of 0 is distinguished by the code alone, and its
// position is used for the 1.
struct DecodeRuns {
  std::array<float, 8> base;
  std::array<float, 8> step;
};

constexpr DecodeRuns decode_runs(const MomentRuns& runs) {
  DecodeRuns result{.base = runs.base, .step = runs.step};
  result.base[0] = 1.0f;
  result.step[0] = 0.0f;
  return result;
}

// Decodes `ordinal`, whose power of two is its run: base + (ordinal - power) * step.
// `first_exponent`: the exponent of the run at position 0. Powers of two that differ by eight share
// a position.
template <int kFirstExponent>
[[gnu::always_inline]] inline Floats decoded(const DecodeRuns& runs, Ints ordinal) {
  const Floats number = _mm256_cvtepi32_ps(ordinal);
  const Ints bits = _mm256_castps_si256(number);
  const Floats power =
      _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xff800000u))));
  // Only the lowest three bits of a position count.
  const Ints run =
      _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127 + kFirstExponent));
  const Floats steps = _mm256_mul_ps(_mm256_sub_ps(number, power), of_run(runs.step, run));
  return _mm256_add_ps(steps, of_run(runs.base, run));
}

[[gnu::always_inline]] inline Ints load_codes(const uint8_t* codes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
}

// Stores the lowest byte of each of 32 ranks.
[[gnu::always_inline]] inline void store_codes(uint8_t* codes, const Ints (&ranks)[4]) {
  const Ints low = _mm256_packus_epi32(ranks[0], ranks[1]);
  const Ints high = _mm256_packus_epi32(ranks[2], ranks[3]);
  // Packing works on halves of registers: groups of four codes come out as 0 2 4 6 1 3 5 7.
  const Ints order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const Ints packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<Ints*>(codes), packed);
}

// The runs in the form for encoding.
struct EncodeRuns {
  MomentRuns runs;
  std::array<float, 8> inverse_step = {};
  std::array<float, 8> next = {};  // the successor of a run: the base of the next, or the 1
};

constexpr EncodeRuns encode_runs(const MomentRuns& runs) {
  EncodeRuns result{.runs = runs};
  for (size_t i = 0; i < 8; ++i) {
    if (i > 0) result.inverse_step[i] = 1.0f / runs.step[i];
    result.next[i] = i < 7 ? runs.base[i + 1] : 1.0f;
  }
  return result;
}

// Returns the rank of the magnitude nearest to each of eight shares, which must not be negative.
[[gnu::always_inline]] inline Ints ranks_of(const EncodeRuns& of, Floats share) {
  const MomentRuns& runs = of.runs;
  // The run whose base is the last one not above the share, by bisection.
  Ints run = _mm256_setzero_si256();
  for (const int half : {4, 2, 1}) {
    const Ints higher = _mm256_add_epi32(run, _mm256_set1_epi32(half));
    const Floats is_there = _mm256_cmp_ps(share, of_run(runs.base, higher), _CMP_GE_OQ);
    run = _mm256_add_epi32(
        run, _mm256_and_si256(_mm256_castps_si256(is_there), _mm256_set1_epi32(half)));
  }
  const Floats base = of_run(runs.base, run);
  const Floats step = of_run(runs.step, run);
  const Floats last = of_run(runs.last, run);
  // Approximate number of steps above the base. It may be off by one only if the share almost
  // equals a magnitude, which is then one of the two that are examined.
  const Floats above = _mm256_mul_ps(_mm256_sub_ps(share, base), of_run(of.inverse_step, run));
  const Floats k = _mm256_min_ps(_mm256_floor_ps(above), last);
  // The two magnitudes around the share. Rounding of their distances does not change the result.
  const Floats one = _mm256_set1_ps(1.0f);
  const Floats below = _mm256_add_ps(_mm256_mul_ps(k, step), base);
  const Floats following = _mm256_add_ps(_mm256_mul_ps(_mm256_add_ps(k, one), step), base);
  const Floats beyond = choose(_mm256_cmp_ps(k, last, _CMP_EQ_OQ), of_run(of.next, run), following);
  const Floats is_beyond =
      _mm256_cmp_ps(_mm256_sub_ps(share, below), _mm256_sub_ps(beyond, share), _CMP_GT_OQ);
  const Ints rank = _mm256_cvtps_epi32(_mm256_add_ps(k, of_run(runs.first_rank, run)));
  return _mm256_sub_epi32(rank, _mm256_castps_si256(is_beyond));
}

constexpr DecodeRuns kSignedDecode = decode_runs(kSignedMoments.runs);
constexpr DecodeRuns kUnsignedDecode = decode_runs(kUnsignedMoments.runs);
constexpr EncodeRuns kSignedEncode = encode_runs(kSignedMoments.runs);
constexpr EncodeRuns kUnsignedEncode = encode_runs(kUnsignedMoments.runs);

// Sixteen bits of a packed code would otherwise wrap.
[[gnu::always_inline]] inline Ints at_least_0(Ints x) {
  return _mm256_max_epi32(x, _mm256_setzero_si256());
}

[[gnu::always_inline]] inline Ints signed_codes(Floats share) {
  const Ints zero = _mm256_set1_epi32(kSignedZero);
  const Ints rank = ranks_of(kSignedEncode, magnitude_bits(share));
  const Ints below = at_least_0(_mm256_sub_epi32(zero, rank));
  const Ints above = _mm256_add_epi32(zero, rank);
  return _mm256_castps_si256(choose(share, _mm256_castsi256_ps(below), _mm256_castsi256_ps(above)));
}

[[gnu::always_inline]] inline Ints unsigned_codes(Floats share) {
  const Floats is_above_0 = _mm256_cmp_ps(share, _mm256_setzero_ps(), _CMP_GT_OQ);
  const Ints least = _mm256_srli_epi32(_mm256_castps_si256(is_above_0), 31);
  return _mm256_max_epi32(ranks_of(kUnsignedEncode, share), least);
}

template <class Codes>
[[gnu::always_inline]] inline void encode(const float* values, float inverse, uint8_t* codes,
                                          Codes codes_of) {
  const Floats factor = _mm256_set1_ps(inverse);
  for (int64_t i = 0; i < kMomentBlock; i += 32) {
    Ints ranks[4];
    for (int64_t r = 0; r < 4; ++r)
      ranks[r] = codes_of(_mm256_mul_ps(_mm256_loadu_ps(values + i + 8 * r), factor));
    store_codes(codes + i, ranks);
  }
}

}  // namespace

void decode_signed(const uint8_t* codes, float scale, float* values) {
  const Floats factor = _mm256_set1_ps(scale);
  const Ints zero = _mm256_set1_epi32(kSignedZero);
  for (int64_t i = 0; i < kMomentBlock; i += 8) {
    const Ints index = _mm256_sub_epi32(load_codes(codes + i), zero);
    const Floats magnitude = decoded<-1>(kSignedDecode, _mm256_abs_epi32(index));
    const Floats is_zero = _mm256_castsi256_ps(_mm256_cmpeq_epi32(index, _mm256_setzero_si256()));
    const Floats sign = _mm256_and_ps(_mm256_castsi256_ps(index), _mm256_set1_ps(-0.0f));
    const Floats value = _mm256_or_ps(_mm256_andnot_ps(is_zero, magnitude), sign);
    _mm256_storeu_ps(values + i, _mm256_mul_ps(value, factor));
  }
}

void decode_unsigned(const uint8_t* codes, float scale, float* values) {
  const Floats factor = _mm256_set1_ps(scale);
  for (int64_t i = 0; i < kMomentBlock; i += 8) {
    const Ints code = load_codes(codes + i);
    const Floats magnitude =
        decoded<0>(kUnsignedDecode, _mm256_add_epi32(code, _mm256_set1_epi32(1)));
    const Floats is_zero = _mm256_castsi256_ps(_mm256_cmpeq_epi32(code, _mm256_setzero_si256()));
    _mm256_storeu_ps(values + i, _mm256_mul_ps(_mm256_andnot_ps(is_zero, magnitude), factor));
  }
}

void encode_signed(const float* values, float inverse, uint8_t* codes) {
  encode(values, inverse, codes, [](Floats share) { return signed_codes(share); });
}

void encode_unsigned(const float* values, float inverse, uint8_t* codes) {
  encode(values, inverse, codes, [](Floats share) { return unsigned_codes(share); });
}

}  // namespace sotto::kernels::detail
