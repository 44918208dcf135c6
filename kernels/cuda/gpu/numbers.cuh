// Number formats: bf16, E4M3, E2M1, and the elementary functions whose rounding both compilers must agree on.
#pragma once
#include "base.cuh"

GPU_FN float float_of(u32 bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
#endif
}

GPU_FN u32 bits_of(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  u32 bits;
  std::memcpy(&bits, &value, 4);
  return bits;
#endif
}

constexpr float kInfinity = __builtin_huge_valf();

GPU_FN float bf16_to_f32(u32 code) { return float_of(code << 16); }
GPU_FN float low_bf16(u32 pair) { return float_of(pair << 16); }
GPU_FN float high_bf16(u32 pair) { return float_of(pair & 0xffff0000u); }

// Two numbers as bf16, rounded to nearest even, the first in the low half.
GPU_FN u32 pack_bf16(float low, float high) {
#ifdef __CUDACC__
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  auto round = [](float value) -> u32 {
    const u32 bits = bits_of(value);
    return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  return round(low) | round(high) << 16;
#endif
}
GPU_FN u16 to_bf16(float value) { return u16(pack_bf16(value, 0.0f)); }

// Product of bf16 pairs, each rounded to nearest even.
GPU_FN u32 mul_bf16x2(u32 a, u32 b) {
#ifdef __CUDACC__
  u32 product;  // `mul.bf16x2` needs sm_90; adding -0 changes nothing
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
#else
  return pack_bf16(low_bf16(a) * low_bf16(b), high_bf16(a) * high_bf16(b));
#endif
}

// IEEE half precision.
GPU_FN float f16_to_f32(u32 code) {
#ifdef __CUDACC__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(u16(code)));
  return value;
#else
  const u32 sign = (code & 0x8000) << 16, rest = code & 0x7fff;
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  if (rest < 0x400) return std::copysign(float(rest) * 0x1p-24f, float_of(sign));
  return float_of(sign | ((rest << 13) + (112u << 23)));
#endif
}

// E4M3, sign included; 0x7f and 0xff are NaN and never stored. The three fraction bits go to the top of 23, which leaves the
// exponent off by 120; the multiplication also makes subnormals right.
GPU_FN float e4m3_to_f32(u32 code) {
  return float_of((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;
}

// 2^(code - 127); code 0 is subnormal.
GPU_FN float e8m0_to_f32(u32 code) { return float_of(code ? code << 23 : 1u << 22); }

GPU_FN float e2m1_to_f32(u32 code) {
#ifdef __CUDACC__
  return float_of((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
#else
  // The trick above would feed subnormals in, which x86 takes 150 cycles for.
  constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -kValues[code & 7] : kValues[code & 7];
#endif
}

// To the nearest, ties to even; saturates at 448. Not for NaN.
GPU_FN u32 f32_to_e4m3(float value) {
  const u32 sign = bits_of(value) >> 24 & 0x80;
  const float a = fminf(fabsf(value), 448.0f);
  if (a < 0x1p-6f) return sign | u32(rintf(a * 512.0f));  // rounding up to 8 is the first normal code
  const u32 bits = bits_of(a);
  return sign | (((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120u << 3));
}

// To the nearest, ties to the even code; saturates at 6. The sign is `value < 0`.
GPU_FN u32 f32_to_e2m1(float value) {
  const float a = fabsf(value);
  const u32 code = u32(a > 0.25f) + u32(a >= 0.75f) + u32(a > 1.25f) + u32(a >= 1.75f) + u32(a > 2.5f) +
                   u32(a >= 3.5f) + u32(a > 5.0f);
  return code | u32(value < 0) << 3;
}

// Correctly rounded division and square root, whatever flags nvcc is given.
GPU_FN float divide(float a, float b) {
#ifdef __CUDACC__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
GPU_FN float square_root(float a) {
#ifdef __CUDACC__
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}
// Products and sums that are rounded once, or never fused: neither compiler may choose.
GPU_FN float fused(float a, float b, float c) {
#ifdef __CUDACC__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
GPU_FN float times(float a, float b) {
#ifdef __CUDACC__
  return __fmul_rn(a, b);
#else
  volatile float product = a * b;
  return product;
#endif
}

// 2^x: exact at integers, within 2 units in the last place elsewhere; 0 for minus infinity.
GPU_FN float power_of_two(float x) {
#ifdef __CUDACC__
  float value;
  asm("ex2.approx.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
#else
  return std::exp2(x);
#endif
}
constexpr float kLog2E = 1.44269504088896341f;
GPU_FN float exponential(float x) { return power_of_two(times(x, kLog2E)); }
// x / (1 + e^-x)
GPU_FN float silu(float x) { return divide(x, 1.0f + exponential(-x)); }
