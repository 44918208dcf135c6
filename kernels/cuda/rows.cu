// Rows that are copied, converted or combined number by number.
#include "operand.cuh"

// out[r] = x[r], in the forms that linears read.
GPU_KERNEL(256, convert)
(u16* __restrict__ halves, u32 half_stride, float* __restrict__ floats, u32 float_stride, const float* __restrict__ x,
 u32 stride, u32 width, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const OperandRow to = operand_row(halves, half_stride, floats, float_stride, row);
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) put(to, i, x[size_t(row) * stride + i]);
}
GPU_EXPORT(convert)

// out[r] = silu(gate[r]) * up[r]. A limit that is not infinite caps the gate and clamps up beforehand.
GPU_KERNEL(256, silu_up)
(u16* __restrict__ halves, u32 half_stride, float* __restrict__ floats, u32 float_stride, const float* __restrict__ gate,
 const float* __restrict__ up, u32 stride, u32 width, float limit, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const OperandRow to = operand_row(halves, half_stride, floats, float_stride, row);
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
    const float g = fminf(gate[size_t(row) * stride + i], limit);
    const float u = fmaxf(fminf(up[size_t(row) * stride + i], limit), -limit);
    put(to, i, times(silu(g), u));
  }
}
GPU_EXPORT(silu_up)

// out[i] = x[samples[i]].
GPU_KERNEL(256, gather_rows)
(float* __restrict__ out, u32 out_stride, const float* __restrict__ x, u32 stride, u32 width,
 const u32* __restrict__ samples, const u32* __restrict__ count) {
  if (blockIdx.x >= *count) return;
  const float* from = x + size_t(samples[blockIdx.x]) * stride;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) out[size_t(blockIdx.x) * out_stride + i] = from[i];
}
GPU_EXPORT(gather_rows)

// For each row the column of its largest number, the lowest of equals; NaN never wins. One block a row.
GPU_KERNEL(1024, argmax)
(u32* __restrict__ out, const float* __restrict__ x, u32 stride, u32 width, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, values, 32);
  SHARED_ARRAY(u32, columns, 32);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  float best = -kInfinity;
  u32 column = 0xffffffffu;
  auto challenge = [&](float value, u32 at) {
    if (value > best || (value == best && at < column)) {
      best = value;
      column = at;
    }
  };
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) challenge(x[size_t(row) * stride + i], i);
  auto among_lanes = [&] {
    for (u32 distance = 16; distance; distance /= 2) {
      const float value = from_lane_xor(best, distance);
      challenge(value, from_lane_xor(column, distance));
    }
  };
  among_lanes();
  if (lane_id() == 0) {
    values[threadIdx.x / 32] = best;
    columns[threadIdx.x / 32] = column;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const bool has = lane_id() < blockDim.x / 32;
  best = has ? values[lane_id()] : -kInfinity;
  column = has ? columns[lane_id()] : 0xffffffffu;
  among_lanes();
  if (threadIdx.x == 0) out[row] = column == 0xffffffffu ? 0 : column;
}
GPU_EXPORT(argmax)
