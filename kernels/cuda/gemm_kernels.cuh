// The kernels of one weight format; the including file says which: WEIGHTS, and NAMED(rest) for their names.
#include "gemm.cuh"

#define OUTPUTS                                                                                                        \
  float *__restrict__ out, u32 stride, u16 *__restrict__ halves, u32 half_stride, float *__restrict__ floats,          \
      u32 float_stride, float limit
#define TARGET {out, stride, halves, half_stride, floats, float_stride, limit, nullptr}
#define INPUTS                                                                                                         \
  const u16 *__restrict__ a, u32 a_stride, const u8 *__restrict__ codes, const u8 *__restrict__ scales,                \
      const float *__restrict__ alpha
#define KERNEL(name, threads, body, finish, ...)                                                                       \
  GPU_KERNEL(threads, name)(OUTPUTS, INPUTS, u32 columns, u32 steps, const u32* __restrict__ rows) {                   \
    body<WEIGHTS, Finish::finish __VA_ARGS__>(TARGET, a, a_stride, WEIGHTS::of(codes, scales), alpha, columns, steps,  \
                                              rows);                                                                   \
  }                                                                                                                    \
  GPU_EXPORT(name)
#define EXPERTS(name, finish)                                                                                          \
  GPU_KERNEL(256, name)                                                                                                \
  (OUTPUTS, INPUTS, u32 code_stride, u32 scale_stride, u32 factor_stride, u32 columns, u32 steps,                      \
   const u32* __restrict__ lists, const u32* __restrict__ counts, u32 room, u32 shared) {                              \
    gemm_experts<WEIGHTS, Finish::finish>(TARGET, a, a_stride, codes, scales, alpha,                                   \
                                          {code_stride, scale_stride, factor_stride}, columns, steps, lists, counts,   \
                                          room, shared);                                                               \
  }                                                                                                                    \
  GPU_EXPORT(name)

KERNEL(NAMED(16_store), 256, gemm_few, kStore)
KERNEL(NAMED(16_add), 256, gemm_few, kAdd)
KERNEL(NAMED(16_gated), 256, gemm_few, kGated)
// 64 x 64: two by two warps of 32 x 32.
KERNEL(NAMED(64_store), 128, gemm_many, kStore, , 2, 2, 2)
KERNEL(NAMED(64_add), 128, gemm_many, kAdd, , 2, 2, 2)
KERNEL(NAMED(64_gated), 128, gemm_many, kGated, , 2, 2, 2)
// 128 x 128: two by four warps of 64 x 32.
KERNEL(NAMED(128_store), 256, gemm_many, kStore, , 4, 2, 4)
KERNEL(NAMED(128_add), 256, gemm_many, kAdd, , 4, 2, 4)
KERNEL(NAMED(128_gated), 256, gemm_many, kGated, , 4, 2, 4)
EXPERTS(NAMED(experts_store), kStore)
EXPERTS(NAMED(experts_gated), kGated)
