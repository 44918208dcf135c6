// Head norms, rotation, and storing keys and values in their blocks.
#include "gpu.cuh"
#include "kv.cuh"

struct Rotation {
  const float* cosines;
  const float* sines;
  u32 count;
  bool interleaved;
};

// The place of pair i's two numbers in a head.
GPU_FN u32 first_of_pair(const Rotation& r, u32 i) { return r.interleaved ? 2 * i : i; }
GPU_FN u32 second_of_pair(const Rotation& r, u32 i) { return r.interleaved ? 2 * i + 1 : i + r.count; }

// One warp normalises (with a gain) and rotates a head in place.
GPU_FN void rotate_head(float* head, u32 dim, const float* gain, float eps, const Rotation& rotation) {
  if (gain) {
    float sum = 0;
    for (u32 i = lane_id(); i < dim; i += 32) sum = fused(head[i], head[i], sum);
    const float scale = divide(1.0f, square_root(divide(warp_sum(sum), float(dim)) + eps));
    for (u32 i = lane_id(); i < dim; i += 32) head[i] = times(times(head[i], scale), gain[i]);
    sync_warp();
  }
  for (u32 i = lane_id(); i < rotation.count; i += 32) {
    float& a = head[first_of_pair(rotation, i)];
    float& b = head[second_of_pair(rotation, i)];
    const float x = a, y = b, c = rotation.cosines[i], s = rotation.sines[i];
    a = fused(x, c, -times(y, s));
    b = fused(y, c, times(x, s));
  }
  sync_warp();
}

// Columns of a row: [q heads | k heads | v heads]. Block (row, y) takes the row's heads y * warps + warp, so that a decode step of
// few rows still fills the device. `gain_q` and `gain_k` are null where the model has no head norm.
GPU_KERNEL(128, rope_append)
(float* __restrict__ qkv, u32 stride, u16* __restrict__ pool, const float* __restrict__ cosines,
 const float* __restrict__ sines, u32 frequencies, u32 interleaved, const float* __restrict__ gain_q,
 const float* __restrict__ gain_k, float eps, u32 q_heads, u32 kv_heads, u32 dim, u32 block_tokens,
 const u32* __restrict__ positions, const u32* __restrict__ tables, const u32* __restrict__ block_tables,
 const u32* __restrict__ rows) {
  const u32 row = blockIdx.x, head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= *rows || head >= q_heads + 2 * kv_heads) return;
  float* numbers = qkv + size_t(row) * stride + size_t(head) * dim;
  const Rotation rotation{cosines + size_t(row) * frequencies, sines + size_t(row) * frequencies, frequencies,
                          interleaved != 0};
  if (head < q_heads + kv_heads) rotate_head(numbers, dim, head < q_heads ? gain_q : gain_k, eps, rotation);
  if (head < q_heads) return;
  const KvLayout layout{block_tokens, kv_heads, dim};
  const bool is_key = head < q_heads + kv_heads;
  const u32 kv_head = head - q_heads - (is_key ? 0 : kv_heads), position = positions[row];
  const u32 block = block_tables[tables[row] + position / block_tokens];
  const size_t at = is_key ? layout.key(block, kv_head, position % block_tokens)
                           : layout.value(block, kv_head, position % block_tokens);
  for (u32 i = lane_id(); i < dim; i += 32) pool[at + i] = to_bf16(numbers[i]);
}
GPU_EXPORT(rope_append)
