// Embedding rows, widened from the checkpoint's number format.
#include "gpu.cuh"

template <class Read>
GPU_FN void embed(float* out, u32 stride, u32 width, const u32* tokens, const u32* rows, Read read) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const size_t token = tokens[row];
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) out[size_t(row) * stride + i] = read(token * width + i);
}

// out[r] = table[tokens[r]], a row of `width` numbers.
GPU_KERNEL(256, embed_f32)
(float* __restrict__ out, u32 stride, const float* __restrict__ table, u32 width, const u32* __restrict__ tokens,
 const u32* __restrict__ rows) {
  embed(out, stride, width, tokens, rows, [=](size_t at) { return table[at]; });
}
GPU_EXPORT(embed_f32)

GPU_KERNEL(256, embed_bf16)
(float* __restrict__ out, u32 stride, const u16* __restrict__ table, u32 width, const u32* __restrict__ tokens,
 const u32* __restrict__ rows) {
  embed(out, stride, width, tokens, rows, [=](size_t at) { return bf16_to_f32(table[at]); });
}
GPU_EXPORT(embed_bf16)

GPU_KERNEL(256, embed_f16)
(float* __restrict__ out, u32 stride, const u16* __restrict__ table, u32 width, const u32* __restrict__ tokens,
 const u32* __restrict__ rows) {
  embed(out, stride, width, tokens, rows, [=](size_t at) { return f16_to_f32(table[at]); });
}
GPU_EXPORT(embed_f16)

// NVFP4 in the checkpoint's layout: (e2m1 * scale) * global.
GPU_KERNEL(256, embed_nvfp4)
(float* __restrict__ out, u32 stride, const u8* __restrict__ codes, const u8* __restrict__ scales, float global,
 u32 width, const u32* __restrict__ tokens, const u32* __restrict__ rows) {
  embed(out, stride, width, tokens, rows, [=](size_t at) {
    return times(e2m1_to_f32(codes[at / 2] >> (at % 2 * 4) & 15) * e4m3_to_f32(scales[at / 16]), global);
  });
}
GPU_EXPORT(embed_nvfp4)
