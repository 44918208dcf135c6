// Rows of a pool that are found through a sequence's block table, and rotated at their end only.
#pragma once
#include "store.cuh"

// Rows of `width` numbers, `per_block` of them in a KV block.
struct PoolRows {
  const u8* pool;
  Store store;
  u32 width, per_block;

  // Row i of a sequence.
  GPU_FN size_t at(const u32* table, u32 i) const {
    return (size_t(table[i / per_block]) * per_block + i % per_block) * store.row_bytes(width);
  }
  // The row of a position, where a block of `tokens` keeps the rows of its last tokens in a ring of `per_block`.
  GPU_FN size_t in_ring(const u32* table, u32 position, u32 tokens) const {
    return (size_t(table[position / tokens]) * per_block + position % tokens % per_block) * store.row_bytes(width);
  }
};

// The last position of the block of `position`, or of the step if that is in the same block. `end` is behind the step's last.
GPU_FN u32 last_of_block(u32 position, u32 block_tokens, u32 end) {
  return min_of(position / block_tokens * block_tokens + block_tokens, end) - 1;
}

// Rotates the last 2 * count numbers of a row, neighbours together; `turn` -1 takes a rotation back.
GPU_FN void rotate_tail(float* row, u32 width, const float* cosines, const float* sines, u32 count, float turn, Crew crew) {
  float* tail = row + width - 2 * count;
  for (u32 i = crew.worker; i < count; i += crew.workers) {
    const float x = tail[2 * i], y = tail[2 * i + 1], c = cosines[i], s = times(sines[i], turn);
    tail[2 * i] = fused(x, c, -times(y, s));
    tail[2 * i + 1] = fused(y, c, times(x, s));
  }
}
