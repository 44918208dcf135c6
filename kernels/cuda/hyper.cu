// Hyper-connections: a residual of several streams, mixed in front of and after each sublayer. One block a row; `n` streams of
// width `d` side by side.
#include "gpu.cuh"

constexpr u32 kMostStreams = 8;

GPU_FN float sigmoid(float v) { return divide(1.0f, 1.0f + exponential(-v)); }

// 1 / sqrt(mean(x^2) + eps) over the block.
GPU_FN float inverse_rms(const float* x, u32 width, float eps, float* partial) {
  float sum = 0;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) sum = fused(x[i], x[i], sum);
  return divide(1.0f, square_root(divide(block_sum(sum, partial), float(width)) + eps));
}

// out = sum_i weight_i * stream_i, streams ascending.
GPU_FN void weighted_streams(float* out, const float* streams, const float* weights, u32 n, u32 d) {
  for (u32 i = threadIdx.x; i < d; i += blockDim.x) {
    float sum = 0;
    for (u32 a = 0; a < n; a++) sum = fused(weights[a], streams[size_t(a) * d + i], sum);
    out[i] = sum;
  }
}

// Makes c[a * n + b] doubly stochastic, by one thread: there are 16 numbers.
GPU_FN void sinkhorn(float* c, u32 n, float eps, u32 iterations) {
  for (u32 a = 0; a < n; a++) {
    float most = -kInfinity, total = 0;
    for (u32 b = 0; b < n; b++) most = fmaxf(most, c[a * n + b]);
    for (u32 b = 0; b < n; b++) {
      c[a * n + b] = exponential(c[a * n + b] - most);
      total += c[a * n + b];
    }
    for (u32 b = 0; b < n; b++) c[a * n + b] = divide(c[a * n + b], total) + eps;
  }
  for (u32 round = 0; round < iterations; round++) {
    for (u32 a = 0; a < n && round > 0; a++) {
      float total = 0;
      for (u32 b = 0; b < n; b++) total += c[a * n + b];
      for (u32 b = 0; b < n; b++) c[a * n + b] = divide(c[a * n + b], total + eps);
    }
    for (u32 b = 0; b < n; b++) {
      float total = 0;
      for (u32 a = 0; a < n; a++) total += c[a * n + b];
      for (u32 a = 0; a < n; a++) c[a * n + b] = divide(c[a * n + b], total + eps);
    }
  }
}

// The sublayer's input, and for `hyper_post` the gates and the combination. `projected` is [pre | post | combination].
GPU_KERNEL(256, hyper_pre)
(float* __restrict__ input, u32 input_stride, float* __restrict__ mix, u32 mix_stride, const float* __restrict__ streams,
 u32 stride, const float* __restrict__ projected, u32 projected_stride, const float* __restrict__ scale,
 const float* __restrict__ base, u32 n, u32 d, float norm_eps, float eps, u32 iterations, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  SHARED_ARRAY(float, pre, kMostStreams);
  SHARED_ARRAY(float, combination, kMostStreams * kMostStreams);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const float* x = streams + size_t(row) * stride;
  const float* m = projected + size_t(row) * projected_stride;
  float* to = mix + size_t(row) * mix_stride;
  const float factor = inverse_rms(x, n * d, norm_eps, partial);
  auto scaled = [&](u32 i, u32 part) { return fused(times(m[i], factor), scale[part], base[i]); };
  if (threadIdx.x < n) {
    pre[threadIdx.x] = sigmoid(scaled(threadIdx.x, 0)) + eps;
    to[threadIdx.x] = 2.0f * sigmoid(scaled(n + threadIdx.x, 1));
  }
  for (u32 i = threadIdx.x; i < n * n; i += blockDim.x) combination[i] = scaled(2 * n + i, 2);
  __syncthreads();
  if (threadIdx.x == 0) {
    sinkhorn(combination, n, eps, iterations);
    for (u32 i = 0; i < n * n; i++) to[n + i] = combination[i];
  }
  weighted_streams(input + size_t(row) * input_stride, x, pre, n, d);
}
GPU_EXPORT(hyper_pre)

// stream'_b = post_b * output + sum_a combination[a][b] * stream_a.
GPU_KERNEL(256, hyper_post)
(float* __restrict__ streams, u32 stride, const float* __restrict__ output, u32 output_stride,
 const float* __restrict__ mix, u32 mix_stride, u32 n, u32 d, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const float* gates = mix + size_t(row) * mix_stride;
  float* x = streams + size_t(row) * stride;
  for (u32 i = threadIdx.x; i < d; i += blockDim.x) {
    float old[kMostStreams];
#pragma unroll
    for (u32 a = 0; a < kMostStreams; a++) old[a] = a < n ? x[size_t(a) * d + i] : 0.0f;
    for (u32 b = 0; b < n; b++) {
      float sum = 0;
#pragma unroll
      for (u32 a = 0; a < kMostStreams; a++)
        if (a < n) sum = fused(gates[n + a * n + b], old[a], sum);
      x[size_t(b) * d + i] = fused(gates[b], output[size_t(row) * output_stride + i], sum);
    }
  }
}
GPU_EXPORT(hyper_post)

// out = sum_i (sigmoid(m_i * scale + base_i) + eps) stream_i.
GPU_KERNEL(256, hyper_head)
(float* __restrict__ out, u32 out_stride, const float* __restrict__ streams, u32 stride,
 const float* __restrict__ projected, u32 projected_stride, const float* __restrict__ scale,
 const float* __restrict__ base, u32 n, u32 d, float norm_eps, float eps, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  SHARED_ARRAY(float, weights, kMostStreams);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const float* x = streams + size_t(row) * stride;
  const float factor = inverse_rms(x, n * d, norm_eps, partial);
  if (threadIdx.x < n) {
    const float m = projected[size_t(row) * projected_stride + threadIdx.x];
    weights[threadIdx.x] = sigmoid(fused(times(m, factor), scale[0], base[threadIdx.x])) + eps;
  }
  __syncthreads();
  weighted_streams(out + size_t(row) * out_stride, x, weights, n, d);
}
GPU_EXPORT(hyper_head)
