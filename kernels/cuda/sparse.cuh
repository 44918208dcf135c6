// Rows of a pool that are found through a sequence's block table, and rotated at their end only.
#pragma once
#include "gpu.cuh"

// Rows of `width` bf16 numbers, `per_block` of them in a KV block.
struct PoolRows {
  const u16* pool;
  u32 width, per_block;

  GPU_FN size_t at(const u32* table, u32 i) const { return (size_t(table[i / per_block]) * per_block + i % per_block) * width; }
};

// Rotates the last 2 * count numbers of a row, neighbours together; `turn` -1 takes a rotation back. Threads of `workers`.
GPU_FN void rotate_tail(float* row, u32 width, const float* cosines, const float* sines, u32 count, float turn, u32 worker,
                        u32 workers) {
  float* tail = row + width - 2 * count;
  for (u32 i = worker; i < count; i += workers) {
    const float x = tail[2 * i], y = tail[2 * i + 1], c = cosines[i], s = times(sines[i], turn);
    tail[2 * i] = fused(x, c, -times(y, s));
    tail[2 * i + 1] = fused(y, c, times(x, s));
  }
}
