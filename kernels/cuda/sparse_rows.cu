// Compressed sparse attention: rotated heads, one row per token, and the compressor.
#include "sparse.cuh"

// Normalises each head (where `eps` is not negative), rotates its end and rounds it. One warp a head.
GPU_KERNEL(128, rotate_tails)
(float* __restrict__ heads, u32 stride, u32 count, u32 dim, float eps, const float* __restrict__ cosines,
 const float* __restrict__ sines, u32 frequencies, u32 rounding, u32 rounding_tail, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x, head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= *rows || head >= count) return;
  float* x = heads + size_t(row) * stride + size_t(head) * dim;
  const Crew warp{lane_id(), 32};
  if (eps >= 0) {
    float sum = 0;
    for (u32 i = lane_id(); i < dim; i += 32) sum = fused(x[i], x[i], sum);
    const float scale = divide(1.0f, square_root(divide(warp_sum(sum), float(dim)) + eps));
    for (u32 i = lane_id(); i < dim; i += 32) x[i] = times(x[i], scale);
    sync_warp();
  }
  rotate_tail(x, dim, cosines + size_t(row) * frequencies, sines + size_t(row) * frequencies, frequencies, 1.0f, warp);
  sync_warp();
  Rounding{rounding, rounding_tail}.apply(x, dim, warp, [] { sync_warp(); });
}
GPU_EXPORT(rotate_tails)

// RMS norm with a gain, in place, over the block.
GPU_FN void normalize_row(float* x, u32 width, const float* gain, float eps, float* partial) {
  float sum = 0;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) sum = fused(x[i], x[i], sum);
  const float scale = divide(1.0f, square_root(divide(block_sum(sum, partial), float(width)) + eps));
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) x[i] = times(times(x[i], scale), gain[i]);
  __syncthreads();
}

// Normalises a row, rotates its end, rounds it, and makes of it what its pool would give back. One block a row.
GPU_KERNEL(256, finish_rows)
(float* __restrict__ x, u32 stride, u32 width, const float* __restrict__ gain, float eps,
 const float* __restrict__ cosines, const float* __restrict__ sines, u32 frequencies, u32 rounding, u32 rounding_tail,
 u32 kind, u32 tail, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  float* numbers = x + size_t(row) * stride;
  const Crew block{threadIdx.x, blockDim.x};
  normalize_row(numbers, width, gain, eps, partial);
  rotate_tail(numbers, width, cosines + size_t(row) * frequencies, sines + size_t(row) * frequencies, frequencies, 1.0f, block);
  __syncthreads();
  Rounding{rounding, rounding_tail}.apply(numbers, width, block, [] { __syncthreads(); });
  __syncthreads();
  round_stored(numbers, width, Store{kind, tail}, block);
}
GPU_EXPORT(finish_rows)

// Stores finished rows of the step's tokens in the ring of their block, in each block those of its last tokens. One block a row.
GPU_KERNEL(128, keep_rows)
(u8* __restrict__ pool, u32 kind, u32 tail, u32 ring, const float* __restrict__ x, u32 stride, u32 width, u32 block_tokens,
 const u32* __restrict__ positions, const u32* __restrict__ ends, const u32* __restrict__ tables,
 const u32* __restrict__ block_tables, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const u32 position = positions[row];
  if (last_of_block(position, block_tokens, ends[row]) - position >= ring) return;
  const PoolRows layout{pool, Store{kind, tail}, width, ring};
  u8* to = pool + layout.in_ring(block_tables + tables[row], position, block_tokens);
  write_row(x + size_t(row) * stride, to, width, layout.store, Crew{threadIdx.x, blockDim.x});
}
GPU_EXPORT(keep_rows)

// A sequence's rows in a step: first row, rows, position of the first, start of its block table.
struct Sequence {
  u32 row, rows, start;
  const u32* table;
};
GPU_FN Sequence sequence_of(const u32* extents, const u32* block_tables, u32 i) {
  return {extents[4 * i], extents[4 * i + 1], extents[4 * i + 2], block_tables + extents[4 * i + 3]};
}

// Number of the state after a position: a block keeps `slots`, those after its last tokens.
GPU_FN size_t state_of(const Sequence& s, u32 position, u32 block_tokens, u32 slots) {
  return size_t(s.table[position / block_tokens]) * slots + position % slots;
}

// Copies the state that each sequence continues, that after the token before its first, to `begun`. All are read before
// `compress` writes any: sequences may share the block that their common prefix ends in. One block a sequence.
GPU_KERNEL(256, compress_begin)
(float* __restrict__ begun, const float* __restrict__ states, u32 slots, u32 width, u32 parts, u32 block_tokens,
 const u32* __restrict__ extents, const u32* __restrict__ block_tables, const u32* __restrict__ count) {
  if (blockIdx.x >= *count) return;
  const Sequence s = sequence_of(extents, block_tables, blockIdx.x);
  const u32 numbers = 3 * width * parts;
  const float* from = s.start ? states + state_of(s, s.start - 1, block_tokens, slots) * numbers : nullptr;
  // An empty state has no maximum yet.
  for (u32 i = threadIdx.x; i < numbers; i += blockDim.x)
    begun[size_t(blockIdx.x) * numbers + i] = from ? from[i] : (i / width % 3 == 0 ? -kInfinity : 0.0f);
}
GPU_EXPORT(compress_begin)

// Takes a token's channel into a running softmax: maximum, sum, weighted sum, `width` apart.
GPU_FN void take_in(float* state, u32 width, float score, float value) {
  const float most = score > state[0] ? score : state[0];
  const float fade = exponential(state[0] - most), weight = exponential(score - most);
  state[width] = fused(state[width], fade, weight);
  state[2 * width] = fused(state[2 * width], fade, times(weight, value));
  state[0] = most;
}

// The compressor: each channel of a group is the softmax-weighted sum of its tokens; with `parts` 2 a group also has the tokens of
// the one before, under scores and values of their own (the first half). Token by token, so that chunks of any size give the same
// bits. One block a sequence, threads share channels; `state` is the copy in `begun`. `angles` [group][cosines | sines] are those of
// the groups that the step completes, in order of rows, `first_group[i]` the first of sequence i.
GPU_KERNEL(512, compress)
(float* __restrict__ begun, float* __restrict__ states, u32 slots, u8* __restrict__ pool, u32 kind, u32 tail, u32 rounding,
 u32 rounding_tail, const float* __restrict__ values, u32 value_stride, const float* __restrict__ scores, u32 score_stride, const float* __restrict__ place, u32 ratio,
 u32 width, u32 parts, const float* __restrict__ gain, float eps, const float* __restrict__ angles, u32 frequencies,
 const u32* __restrict__ first_group, u32 block_tokens, const u32* __restrict__ extents,
 const u32* __restrict__ block_tables, const u32* __restrict__ count) {
  SHARED_ARRAY(float, partial, 32);
  DYNAMIC_SHARED(smem);
  if (blockIdx.x >= *count) return;
  float* row = reinterpret_cast<float*>(smem);
  const Sequence s = sequence_of(extents, block_tables, blockIdx.x);
  const u32 numbers = 3 * width * parts, own = (parts - 1) * width;
  float* state = begun + size_t(blockIdx.x) * numbers;
  const PoolRows layout{pool, Store{kind, tail}, width, block_tokens / ratio};
  const Crew block{threadIdx.x, blockDim.x};
  u32 group = first_group[blockIdx.x];
  for (u32 t = 0; t < s.rows; t++) {
    const u32 position = s.start + t, within = position % ratio;
    const float* v = values + size_t(s.row + t) * value_stride;
    const float* z = scores + size_t(s.row + t) * score_stride;
    const float* p = place + size_t(within) * width * parts;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
      take_in(state + i, width, z[own + i] + p[own + i], v[own + i]);
      if (parts == 2) take_in(state + 3 * width + i, width, z[i] + p[i], v[i]);
      if (within + 1 < ratio) continue;
      row[i] = divide(state[2 * width + i], state[width + i]);
      for (u32 kind = 0; kind < 3; kind++) {
        const float empty = kind == 0 ? -kInfinity : 0.0f;
        state[kind * width + i] = parts == 2 ? state[(3 + kind) * width + i] : empty;
        if (parts == 2) state[(3 + kind) * width + i] = empty;
      }
    }
    if (within + 1 == ratio) {
      __syncthreads();
      normalize_row(row, width, gain, eps, partial);
      const float* angle = angles + size_t(group++) * 2 * frequencies;
      rotate_tail(row, width, angle, angle + frequencies, frequencies, 1.0f, block);
      __syncthreads();
      Rounding{rounding, rounding_tail}.apply(row, width, block, [] { __syncthreads(); });
      __syncthreads();
      write_row(row, pool + layout.at(s.table, position / ratio), width, layout.store, block);
      __syncthreads();  // the row is free again
    }
    if (last_of_block(position, block_tokens, s.start + s.rows) - position < slots) {
      float* to = states + state_of(s, position, block_tokens, slots) * numbers;
      for (u32 i = threadIdx.x; i < width; i += blockDim.x)
        for (u32 kind = 0; kind < 3 * parts; kind++) to[kind * width + i] = state[kind * width + i];
    }
  }
}
GPU_EXPORT(compress)
