// Sixteen 32-bit numbers in registers, with arithmetic operators. Stored as separate registers: the
// compiler would spill a vector longer than a register to memory. Internal to the CPU kernels.
#pragma once

#include <cstdint>
#include <type_traits>

namespace sotto::kernels::simd {

inline constexpr int64_t kLanes = 16;

// Numbers per register and registers per sixteen numbers: 4 and 4 with NEON, 8 and 2 with AVX2.
inline constexpr int kRegisterBytes = __BIGGEST_ALIGNMENT__ < 32 ? __BIGGEST_ALIGNMENT__ : 32;
inline constexpr int kRegisterLanes = kRegisterBytes / 4;
inline constexpr int kRegisters = static_cast<int>(kLanes) / kRegisterLanes;

// Calls body(r) for each register; the loop must be unrolled, or the registers would be in memory.
template <class Body>
[[gnu::always_inline]] inline void for_each_register(Body body) {
#pragma GCC unroll 4
  for (int r = 0; r < kRegisters; ++r) body(r);
}

template <class T>
struct LanesOf {
  using Register __attribute__((vector_size(kRegisterBytes))) = T;
  using Mask = LanesOf<int32_t>;  // all bits of a number are set if a comparison holds

  Register at[kRegisters];

  LanesOf() : LanesOf(T{}) {}
  LanesOf(T value) {  // NOLINT: so that one number may stand where sixteen do
    for_each_register([&](int r) { at[r] = value - Register{}; });
  }

  // Reinterprets the bits as numbers of another type.
  template <class To>
  LanesOf<To> bits_as() const {
    LanesOf<To> result;
    for_each_register([&](int r) { result.at[r] = (typename LanesOf<To>::Register)at[r]; });
    return result;
  }

  // Converts the numbers to another type.
  template <class To>
  LanesOf<To> to() const {
    using ToRegister = typename LanesOf<To>::Register;
    LanesOf<To> result;
    for_each_register([&](int r) { result.at[r] = __builtin_convertvector(at[r], ToRegister); });
    return result;
  }

  // Calls f(register of a, register of b) for each register.
  template <class F>
  [[gnu::always_inline]] static auto map(const LanesOf& a, const LanesOf& b, F f) {
    using Element = std::remove_cvref_t<decltype(f(a.at[0], b.at[0])[0])>;
    LanesOf<Element> result;
    for_each_register([&](int r) { result.at[r] = f(a.at[r], b.at[r]); });
    return result;
  }

  [[gnu::always_inline]] friend LanesOf operator+(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x + y; });
  }
  [[gnu::always_inline]] friend LanesOf operator-(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x - y; });
  }
  [[gnu::always_inline]] friend LanesOf operator*(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x * y; });
  }
  [[gnu::always_inline]] friend LanesOf operator/(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x / y; });
  }
  [[gnu::always_inline]] friend LanesOf operator&(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x & y; });
  }
  [[gnu::always_inline]] friend LanesOf operator|(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x | y; });
  }
  [[gnu::always_inline]] friend LanesOf operator^(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x ^ y; });
  }
  [[gnu::always_inline]] friend LanesOf operator<<(const LanesOf& a, int bits) {
    return map(a, a, [=](Register x, Register) { return x << bits; });
  }
  [[gnu::always_inline]] friend LanesOf operator>>(const LanesOf& a, int bits) {
    return map(a, a, [=](Register x, Register) { return x >> bits; });
  }
  LanesOf operator-() const {
    return map(*this, *this, [](Register x, Register) { return -x; });
  }
  LanesOf& operator+=(const LanesOf& other) { return *this = *this + other; }

  [[gnu::always_inline]] friend Mask operator<(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x < y; });
  }
  [[gnu::always_inline]] friend Mask operator<=(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x <= y; });
  }
  [[gnu::always_inline]] friend Mask operator>(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x > y; });
  }
  [[gnu::always_inline]] friend Mask operator!=(const LanesOf& a, const LanesOf& b) {
    return map(a, b, [](Register x, Register y) { return x != y; });
  }
};

using Lanes = LanesOf<float>;
using IntLanes = LanesOf<int32_t>;
using UintLanes = LanesOf<uint32_t>;

// Selects, for each number, `yes` if the mask is set, otherwise `no`.
template <class T>
[[gnu::always_inline]] inline LanesOf<T> select(const IntLanes& mask, const LanesOf<T>& yes,
                                                const LanesOf<T>& no) {
  LanesOf<T> result;
  for_each_register([&](int r) { result.at[r] = mask.at[r] ? yes.at[r] : no.at[r]; });
  return result;
}

}  // namespace sotto::kernels::simd
