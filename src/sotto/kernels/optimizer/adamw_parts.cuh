// The values of one thread of AdamW, and access to elements smaller than a word. Internal to that
// kernel.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels::detail {

// The values of one thread: consecutive ones from `at` of the range. `Whole` is a vector of which
// every thread of the warp has one, `Partial` is the rest at the end of a range or for unaligned
// arrays.
struct Whole {
  int64_t at;

  __device__ bool has(int) const { return true; }
};
struct Partial {
  int64_t at;
  int64_t count;

  __device__ bool has(int i) const { return i < count; }
};

template <int kSize, class T>
__device__ Vector<T, kSize> read(const T* from, Whole part) {
  return load<kSize>(from + part.at);
}
template <int kSize, class T>
__device__ Vector<T, kSize> read(const T* from, Partial part) {
  Vector<T, kSize> vector{};
  for (int i = 0; i < kSize; ++i)
    if (part.has(i)) vector.values[i] = from[part.at + i];
  return vector;
}

template <int kSize, class T>
__device__ void write(T* to, Whole part, const Vector<T, kSize>& vector) {
  store(to + part.at, vector);
}
template <int kSize, class T>
__device__ void write(T* to, Partial part, const Vector<T, kSize>& vector) {
  for (int i = 0; i < kSize; ++i)
    if (part.has(i)) to[part.at + i] = vector.values[i];
}

// kSize small elements of a thread, several per word.
template <class T, int kSize>
struct Words {
  static constexpr int kInWord = 4 / sizeof(T);

  Vector<uint32_t, kSize / kInWord> in = {};

  __device__ uint32_t word_of(int i) const { return in.values[i / kInWord]; }
  // The word must still be 0 there.
  __device__ void put(int i, T element) {
    in.values[i / kInWord] |= static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(element))
                              << 8 * sizeof(T) * (i % kInWord);
  }
  __device__ T get(int i) const {
    return static_cast<T>(word_of(i) >> 8 * sizeof(T) * (i % kInWord));
  }
};

template <int kSize, class T>
__device__ Words<T, kSize> read_words(const T* from, Whole part) {
  return {
      load<kSize / Words<T, kSize>::kInWord>(reinterpret_cast<const uint32_t*>(from + part.at))};
}
template <int kSize, class T>
__device__ Words<T, kSize> read_words(const T* from, Partial part) {
  Words<T, kSize> words;
  for (int i = 0; i < kSize; ++i)
    if (part.has(i)) words.put(i, from[part.at + i]);
  return words;
}

template <class T, int kSize>
__device__ void write(T* to, Whole part, const Words<T, kSize>& words) {
  store(reinterpret_cast<uint32_t*>(to + part.at), words.in);
}
template <class T, int kSize>
__device__ void write(T* to, Partial part, const Words<T, kSize>& words) {
  for (int i = 0; i < kSize; ++i)
    if (part.has(i)) to[part.at + i] = words.get(i);
}

// Selects bytes of a word by their numbers, one per hex digit; 4 is a byte of zeros, and 8 plus a
// number is the sign of that byte, repeated eight times.
__device__ inline uint32_t permuted(uint32_t word, unsigned numbers) {
  uint32_t result;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(result) : "r"(word), "r"(numbers));
  return result;
}

// Returns element i of halves in the upper half of the result. The shift is a product, which does
// not use the units that permute.
template <class T, int kSize>
__device__ uint32_t upper_half(const Words<T, kSize>& halves, int i) {
  return i % 2 == 0 ? halves.word_of(i) << 16 : halves.word_of(i) & 0xffff0000u;
}
// Reads bf16 numbers.
template <int kSize, class Part>
__device__ Vector<float, kSize> read_floats(const uint16_t* from, Part part) {
  const auto halves = read_words<kSize>(from, part);
  Vector<float, kSize> floats;
  for (int i = 0; i < kSize; ++i) floats.values[i] = __uint_as_float(upper_half(halves, i));
  return floats;
}
template <int kSize, class Part>
__device__ Vector<float, kSize> read_floats(const float* from, Part part) {
  return read<kSize>(from, part);
}
// Returns byte i, unsigned.
template <int kSize>
__device__ uint32_t byte_of(const Words<uint8_t, kSize>& bytes, int i) {
  return permuted(bytes.word_of(i), 0x4440u + static_cast<unsigned>(i % 4));
}

__device__ inline uint32_t upper_halves(uint32_t a, uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}
__device__ inline uint32_t lower_halves(uint32_t a, uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
// Returns one byte, 1 or 2, of each of four words.
template <int kByte>
__device__ uint32_t bytes_of(const uint32_t* words) {
  constexpr unsigned kBoth = kByte | (kByte + 4) << 4;
  return lower_halves(__byte_perm(words[0], words[1], kBoth),
                      __byte_perm(words[2], words[3], kBoth));
}

}  // namespace sotto::kernels::detail
