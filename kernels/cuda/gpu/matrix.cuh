// Tensor-core products of a warp. Lane = 4 g + q throughout.
#pragma once
#include "numbers.cuh"
#include "warp.cuh"

#ifndef __CUDACC__
namespace host {
struct Product {
  float* d;
  const u32 *a, *b;
  u32 scale_a, scale_b;
};
// Products are exact and summed in double precision, rounded once. Tensor cores truncate a little, so nothing may expect
// a GPU's bits from this; that one row's result does not depend on its neighbours holds for both.
template <int K>
void accumulate(void** all, const double (&a)[16][K], const double (&b)[K][8]) {
  for (int m = 0; m < 16; m++) {
    double sum[8] = {};
    for (int k = 0; k < K; k++)
      for (int n = 0; n < 8; n++) sum[n] += a[m][k] * b[k][n];
    for (int n = 0; n < 8; n++) {
      float& d = static_cast<Product*>(all[m % 8 * 4 + n / 2])->d[m / 8 * 2 + n % 2];
      d = float(d + sum[n]);
    }
  }
}
}  // namespace host
#endif

// d[16x8] += a[16x16] b[16x8], bf16 in, f32 out.
// a: rows g, g+8, g, g+8 with k 2q, 2q+1 in the first two registers and k + 8 in the others; b: column g, k 2q, 2q+1 and
// k + 8; d: row g columns 2q, 2q+1, then row g+8.
GPU_FN void multiply_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  host::Product mine{d, a, b, 0, 0};
  host::warp_operation(
      [](void** all, unsigned, const void*) {
        double a[16][16], b[16][8];
        for (int lane = 0; lane < 32; lane++) {
          const auto* x = static_cast<host::Product*>(all[lane]);
          const int g = lane / 4, q = lane % 4;
          for (int half = 0; half < 2; half++) {
            for (int r = 0; r < 4; r++) a[g + r % 2 * 8][2 * q + half + r / 2 * 8] = bf16_to_f32(x->a[r] >> 16 * half & 0xffff);
            for (int r = 0; r < 2; r++) b[2 * q + half + r * 8][g] = bf16_to_f32(x->b[r] >> 16 * half & 0xffff);
          }
        }
        host::accumulate<16>(all, a, b);
      },
      &mine, nullptr, 0xffffffffu, "multiply_bf16");
#endif
}

// d[16x8] += (a[16x64] scaled) (b[64x8] scaled): E2M1 numbers with an unsigned E4M3 scale for each 16 of k.
// a: as for bf16 with eight nibbles a register, k 8q.. and 32 + 8q.., the even k in the low nibble; b: column g likewise.
// Byte j of a scale word is for k 16j...; the scales of row g come from lane 4g, of row g+8 from lane 4g+1, of column g
// from lane 4g. Family sm_12x only.
GPU_FN void multiply_nvfp4(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scale_a, u32 scale_b) {
#ifdef __CUDACC__
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1200
  asm volatile(
      "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0,0}, {%11}, {0,0};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scale_a), "r"(scale_b));
#else
  asm volatile("trap;");  // the loader offers this kernel to sm_12x alone
#endif
#else
  host::Product mine{d, a, b, scale_a, scale_b};
  host::warp_operation(
      [](void** all, unsigned, const void*) {
        auto at = [&](int lane) { return static_cast<const host::Product*>(all[lane]); };
        auto number = [](u32 word, int nibble, u32 scales, int k) {
          return double(e2m1_to_f32(word >> 4 * nibble & 15)) * e4m3_to_f32(scales >> 8 * (k / 16) & 0x7f);
        };
        double a[16][64], b[64][8];
        for (int lane = 0; lane < 32; lane++) {
          const int g = lane / 4, q = lane % 4;
          for (int i = 0; i < 8; i++) {
            for (int r = 0; r < 4; r++) {
              const int k = 8 * q + i + r / 2 * 32;
              a[g + r % 2 * 8][k] = number(at(lane)->a[r], i, at(4 * g + r % 2)->scale_a, k);
            }
            for (int r = 0; r < 2; r++) {
              const int k = 8 * q + i + r * 32;
              b[k][g] = number(at(lane)->b[r], i, at(4 * g)->scale_b, k);
            }
          }
        }
        host::accumulate<64>(all, a, b);
      },
      &mine, nullptr, 0xffffffffu, "multiply_nvfp4");
#endif
}
