// Activations to NVFP4, for products of FP4 with FP4.
#include "gpu.cuh"

// Each row has a scale of its own for the whole (amax / (6 * 448), 1 for zeros), so that no row depends on another; blocks of 16
// have E4M3 scales and E2M1 codes by the rules that weights are quantized by. One block a row. `width` is a multiple of 16;
// padding up to the next multiple of 128 is zero from the start and stays.
GPU_KERNEL(256, quantize_nvfp4)
(u8* __restrict__ codes, u8* __restrict__ scales, float* __restrict__ row_scales, u32 padded, const u16* __restrict__ x,
 u32 stride, u32 width, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const u16* from = x + size_t(row) * stride;
  float most = 0;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, fabsf(bf16_to_f32(from[i])));
  most = block_max(most, partial);
  const float global = most == 0 ? 1.0f : divide(most, 2688.0f);
  if (threadIdx.x == 0) row_scales[row] = global;
  for (u32 block = threadIdx.x; block < width / 16; block += blockDim.x) {
    float numbers[16], largest = 0;
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
      numbers[i] = bf16_to_f32(from[block * 16 + i]);
      largest = fmaxf(largest, fabsf(numbers[i]));
    }
    const float wanted = largest == 0 ? 1.0f : fmaxf(divide(largest, times(6.0f, global)), 1.0f / 512.0f);
    const u32 scale = f32_to_e4m3(wanted);
    const float step = times(e4m3_to_f32(scale), global);
    Words2 out{};
#pragma unroll
    for (u32 i = 0; i < 16; i++) out.w[i / 8] |= f32_to_e2m1(divide(numbers[i], step)) << 4 * (i % 8);
    store(codes + size_t(row) * (padded / 2) + block * 8, out);
    scales[size_t(row) * (padded / 16) + block] = u8(scale);
  }
}
GPU_EXPORT(quantize_nvfp4)
