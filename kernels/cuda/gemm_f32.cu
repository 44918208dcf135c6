// Products with f32 weights and activations, for the small matrices whose precision matters: routers, stream mixes.
#include "gpu.cuh"

// out[m][n] = sum_k a[m][k] w[n][k], stored or added: one warp for each result, lanes stride through k, then one tree.
GPU_KERNEL(128, gemm_f32)
(float* __restrict__ out, u32 stride, const float* __restrict__ a, u32 a_stride, const float* __restrict__ weights,
 u32 columns, u32 width, u32 add, const u32* __restrict__ rows) {
  const u32 row = blockIdx.y, column = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= *rows || column >= columns) return;
  const float* x = a + size_t(row) * a_stride;
  const float* w = weights + size_t(column) * width;
  float sum = 0;
  for (u32 k = lane_id(); k < width; k += 32) sum = fused(x[k], w[k], sum);
  sum = warp_sum(sum);
  if (lane_id() > 0) return;
  float& to = out[size_t(row) * stride + column];
  to = add ? to + sum : sum;
}
GPU_EXPORT(gemm_f32)
