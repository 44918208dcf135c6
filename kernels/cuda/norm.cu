// RMS norm of rows.
#include "operand.cuh"

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * gain. One block a row; the launch's block size follows from `width` alone, and
// with it the order of additions. `rows` is read on the device, so that one recorded launch serves any smaller batch.
GPU_KERNEL(1024, rms_norm)
(u16* __restrict__ halves, u32 half_stride, float* __restrict__ floats, u32 float_stride, const float* __restrict__ x,
 u32 stride, const float* __restrict__ gain, u32 width, float eps, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const float* from = x + size_t(row) * stride;
  float sum = 0;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) sum = fused(from[i], from[i], sum);
  sum = block_sum(sum, partial);
  const float scale = divide(1.0f, square_root(divide(sum, float(width)) + eps));
  const OperandRow to = operand_row(halves, half_stride, floats, float_stride, row);
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) put(to, i, times(times(from[i], scale), gain[i]));
}
GPU_EXPORT(rms_norm)
