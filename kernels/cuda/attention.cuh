// Causal attention over paged keys and values, the same arithmetic for decode and prefill.
//
// A sequence's tokens are cut into units of 128, counted from its start. A query row's unit has a softmax of its own: maximum,
// sum, and weighted values; units are folded ascending (`Softmax::fold`). So it does not matter whether one block folds all units
// in registers or several blocks leave theirs for `merge`, nor which rows share a block.
//
// A block has kTiles * 16 query rows of one KV head: tokens of one sequence times the query heads that read it. Its four warps
// share the unit's tokens for scores, and the head's dimensions for values.
#pragma once
#include "kv.cuh"
#include "operand.cuh"

constexpr u32 kUnit = 128, kWarps = 4, kWarpTokens = kUnit / kWarps;

struct AttentionArgs {
  u16* halves;
  u32 half_stride;
  float* floats;
  u32 float_stride;
  const float* q;
  u32 q_stride;
  const u16* pool;
  u32 q_heads, kv_heads, block_tokens;
  float scale;
  const u32* positions;
  const u32* tables;
  const u32* block_tables;
  // For each tile: first row, number of rows, first unit in `partials`.
  const u32* tiles;
  const u32* tile_count;
  // For each unit of a tile, head group and query row: values, maximum, sum.
  float* partials;
};

// What a tile works on, from the launch's coordinates.
struct TileWork {
  u32 first_row, tokens, slot, kv_head, first_head, heads, last, units;

  GPU_FN bool find(const AttentionArgs& a, u32 tile, u32 group_index) {
    if (tile >= *a.tile_count) return false;
    const u32 group = a.q_heads / a.kv_heads, chunks = (group + 15) / 16, chunk = group_index % chunks;
    first_row = a.tiles[3 * tile];
    tokens = a.tiles[3 * tile + 1];
    slot = a.tiles[3 * tile + 2];
    kv_head = group_index / chunks;
    heads = group - chunk * 16 < 16 ? group - chunk * 16 : 16;
    first_head = kv_head * group + chunk * 16;
    last = a.positions[first_row] + tokens - 1;
    units = last / kUnit + 1;
    return true;
  }
  GPU_FN bool has(u32 i) const { return i < tokens * heads; }
  GPU_FN u32 row(u32 i) const { return first_row + i / heads; }
  GPU_FN u32 head(u32 i) const { return first_head + i % heads; }
  // The position that query row i sees last.
  GPU_FN u32 limit(u32 i) const { return last + 1 - tokens + i / heads; }
};

// Maximum and sum of a query row's units so far; none yet where the sum is 0.
struct Softmax {
  float top, sum;

  // Takes one more unit in. Values then become `fused(value, mine, times(next value, theirs))`.
  GPU_FN void fold(float next_top, float next_sum, float& mine, float& theirs) {
    if (next_sum == 0 || sum == 0) {
      mine = sum == 0 ? 0.0f : 1.0f;
      theirs = 1.0f;  // of a unit without tokens the values are 0
      if (next_sum != 0) {
        top = next_top;
        sum = next_sum;
      }
      return;
    }
    const float both = fmaxf(top, next_top);
    mine = power_of_two(top - both);
    theirs = power_of_two(next_top - both);
    sum = fused(sum, mine, times(next_sum, theirs));
    top = both;
  }
};

// Sixteen-byte piece of a shared row of kWidth bf16 numbers; neighbours in a column go to different banks.
template <u32 kWidth>
GPU_FN u8* shared_piece(u8* tile, u32 row, u32 index) {
  constexpr u32 kPieces = kWidth / 8, kMask = (kPieces < 8 ? kPieces : 8) - 1;
  return tile + row * (kWidth * 2) + (index ^ (row & kMask)) * 16;
}

// Starts copying keys or values of a unit to shared memory; tokens behind the last one become zero.
template <u32 kDim, bool kValues>
GPU_FN void fetch_unit(u8* tile, const AttentionArgs& a, const TileWork& work, u32 unit) {
  const KvLayout layout{a.block_tokens, a.kv_heads, kDim};
  const u32* table = a.block_tables + a.tables[work.first_row];
  for (u32 i = threadIdx.x; i < kUnit * (kDim / 8); i += kWarps * 32) {
    const u32 slot = i / (kDim / 8), index = i % (kDim / 8), token = unit * kUnit + slot;
    const bool valid = token <= work.last;
    const u32 position = valid ? token : work.last, block = table[position / a.block_tokens];
    const size_t at = kValues ? layout.value(block, work.kv_head, position % a.block_tokens)
                              : layout.key(block, work.kv_head, position % a.block_tokens);
    copy_async16(shared_piece<kDim>(tile, slot, index), a.pool + at + index * 8, valid);
  }
  commit_copies();
}

template <u32 kDim, u32 kTiles>
GPU_FN void load_queries(u8* tile, const AttentionArgs& a, const TileWork& work) {
  for (u32 i = threadIdx.x; i < kTiles * 16 * (kDim / 8); i += kWarps * 32) {
    const u32 row = i / (kDim / 8), index = i % (kDim / 8);
    Words4 piece{};
    if (work.has(row)) {
      const float* from = a.q + size_t(work.row(row)) * a.q_stride + work.head(row) * kDim + index * 8;
#pragma unroll
      for (u32 w = 0; w < 4; w++) piece.w[w] = pack_bf16(from[2 * w], from[2 * w + 1]);
    }
    store(shared_piece<kDim>(tile, row, index), piece);
  }
}

// Scores of the warp's 32 tokens, in units of log2; -inf where a row does not look.
template <u32 kDim, u32 kTiles>
GPU_FN void scores_of(float (&s)[kTiles][4][4], u8* queries, u8* keys, const AttentionArgs& a, const TileWork& work,
                      u32 unit) {
  const u32 lane = lane_id(), first = threadIdx.x / 32 * kWarpTokens;
#pragma unroll
  for (u32 k = 0; k < kDim / 16; k++) {
    u32 q[kTiles][4], b[2][4];
#pragma unroll
    for (u32 t = 0; t < kTiles; t++)
      load_matrices(q[t], shared_piece<kDim>(queries, t * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
    for (u32 pair = 0; pair < 2; pair++)
      load_matrices(b[pair],
                    shared_piece<kDim>(keys, first + pair * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
      const u32 column[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
#pragma unroll
      for (u32 t = 0; t < kTiles; t++) multiply_bf16(s[t][n], q[t], column);
    }
  }
  const float scale = times(a.scale, kLog2E);
#pragma unroll
  for (u32 t = 0; t < kTiles; t++)
#pragma unroll
    for (u32 n = 0; n < 4; n++)
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        const u32 row = t * 16 + lane / 4 + i / 2 * 8, token = unit * kUnit + first + n * 8 + lane % 4 * 2 + i % 2;
        s[t][n][i] = work.has(row) && token <= work.limit(row) ? times(s[t][n][i], scale) : -kInfinity;
      }
}

// Shared memory of a block: queries, keys, values, weights, and for each warp and row a maximum and a sum.
template <u32 kDim, u32 kTiles>
struct AttentionMemory {
  static constexpr u32 kRows = kTiles * 16;
  u8* base;
  GPU_FN u8* queries() const { return base; }
  GPU_FN u8* keys() const { return queries() + kRows * kDim * 2; }
  GPU_FN u8* values() const { return keys() + kUnit * kDim * 2; }
  GPU_FN u8* weights() const { return values() + kUnit * kDim * 2; }
  GPU_FN float* tops() const { return reinterpret_cast<float*>(weights() + kRows * kUnit * 2); }
  GPU_FN float* sums() const { return tops() + kWarps * kRows; }
};

// Turns scores into weights in shared memory. Each thread learns maximum and sum of its rows g, g + 8 of every tile, once the
// barrier that the caller still needs for the values has passed (`read_sums`).
template <u32 kDim, u32 kTiles>
GPU_FN void weigh(float (&s)[kTiles][4][4], const AttentionMemory<kDim, kTiles>& memory, float (&top)[kTiles][2]) {
  constexpr u32 kRows = kTiles * 16;
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
#pragma unroll
  for (u32 t = 0; t < kTiles; t++)
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
      float best = -kInfinity;
#pragma unroll
      for (u32 n = 0; n < 4; n++) best = fmaxf(best, fmaxf(s[t][n][2 * half], s[t][n][2 * half + 1]));
      best = fmaxf(best, from_lane_xor(best, 1));
      best = fmaxf(best, from_lane_xor(best, 2));
      if (lane % 4 == 0) memory.tops()[warp * kRows + t * 16 + half * 8 + lane / 4] = best;
    }
  __syncthreads();
#pragma unroll
  for (u32 t = 0; t < kTiles; t++)
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
      const u32 row = t * 16 + half * 8 + lane / 4;
      float best = memory.tops()[row];
      for (u32 w = 1; w < kWarps; w++) best = fmaxf(best, memory.tops()[w * kRows + row]);
      top[t][half] = best;
      const float base = best == -kInfinity ? 0.0f : best;
      float sum = 0;
#pragma unroll
      for (u32 n = 0; n < 4; n++) {
        const u32 pair = pack_bf16(power_of_two(s[t][n][2 * half] - base), power_of_two(s[t][n][2 * half + 1] - base));
        sum = (sum + low_bf16(pair)) + high_bf16(pair);
        store(shared_piece<kUnit>(memory.weights(), row, warp * (kWarpTokens / 8) + n) + lane % 4 * 4, pair);
      }
      sum += from_lane_xor(sum, 1);
      sum += from_lane_xor(sum, 2);
      if (lane % 4 == 0) memory.sums()[warp * kRows + row] = sum;
    }
}

// Where a query row of a unit leaves its values, maximum and sum.
template <u32 kDim>
GPU_FN float* partial_row(const AttentionArgs& a, const TileWork& work, u32 unit, u32 tile_rows, u32 row) {
  const size_t unit_at = size_t(work.slot + unit) * gridDim.y + blockIdx.y;
  return a.partials + (unit_at * (tile_rows / work.heads * work.heads) + row) * (kDim + 2);
}

// The kernel. `per_block` units for each block of grid z, left in `partials`; 0: this block folds all of them and writes results.
template <u32 kDim, u32 kTiles>
GPU_FN void attend(const AttentionArgs& a, u32 per_block) {
  // Of pairs of 8-column groups, warp w has w, w + 4, ...
  constexpr u32 kPairs = (kDim / 16 + kWarps - 1) / kWarps, kRows = kTiles * 16;
  DYNAMIC_SHARED(smem);
  const AttentionMemory<kDim, kTiles> memory{smem};
  TileWork work;
  if (!work.find(a, blockIdx.x, blockIdx.y)) return;
  const u32 from = blockIdx.z * per_block, to = per_block == 0 ? work.units : (work.units < from + per_block ? work.units : from + per_block);
  if (from >= to) return;
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  Softmax whole[kTiles][2] = {};
  float total[kTiles][kPairs][2][4] = {};
  load_queries<kDim, kTiles>(memory.queries(), a, work);
  for (u32 unit = from; unit < to; unit++) {
    fetch_unit<kDim, false>(memory.keys(), a, work, unit);
    fetch_unit<kDim, true>(memory.values(), a, work, unit);
    wait_copies<1>();
    __syncthreads();  // keys (and queries) are there
    float s[kTiles][4][4] = {}, top[kTiles][2];
    scores_of<kDim, kTiles>(s, memory.queries(), memory.keys(), a, work, unit);
    weigh<kDim, kTiles>(s, memory, top);
    wait_copies<0>();
    __syncthreads();  // values, weights and sums are there
    float o[kTiles][kPairs][2][4] = {};
#pragma unroll
    for (u32 k = 0; k < kUnit / 16; k++) {
      u32 p[kTiles][4];
#pragma unroll
      for (u32 t = 0; t < kTiles; t++)
        load_matrices(p[t], shared_piece<kUnit>(memory.weights(), t * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (u32 i = 0; i < kPairs; i++) {
        const u32 pair = warp + i * kWarps;
        if (pair >= kDim / 16) continue;
        u32 v[4];
        load_matrices_transposed(v, shared_piece<kDim>(memory.values(), k * 16 + lane % 16, pair * 2 + lane / 16));
        const u32 first[2] = {v[0], v[1]}, second[2] = {v[2], v[3]};
#pragma unroll
        for (u32 t = 0; t < kTiles; t++) {
          multiply_bf16(o[t][i][0], p[t], first);
          multiply_bf16(o[t][i][1], p[t], second);
        }
      }
    }
#pragma unroll
    for (u32 t = 0; t < kTiles; t++)
#pragma unroll
      for (u32 half = 0; half < 2; half++) {
        const u32 row = t * 16 + half * 8 + lane / 4;
        float sum = memory.sums()[row];
        for (u32 w = 1; w < kWarps; w++) sum += memory.sums()[w * kRows + row];
        float mine = 0, theirs = 0;
        if (per_block == 0) whole[t][half].fold(top[t][half], sum, mine, theirs);
#pragma unroll
        for (u32 i = 0; i < kPairs; i++)
#pragma unroll
          for (u32 j = 0; j < 4; j++) {
            const float part = o[t][i][j / 2][half * 2 + j % 2];
            float& value = total[t][i][j / 2][half * 2 + j % 2];
            if (per_block == 0) {
              value = fused(value, mine, times(part, theirs));
              continue;
            }
            const u32 pair = warp + i * kWarps;
            if (pair >= kDim / 16 || !work.has(row)) continue;
            float* out = partial_row<kDim>(a, work, unit, kRows, row);
            out[pair * 16 + j / 2 * 8 + lane % 4 * 2 + j % 2] = part;
            if (pair == 0 && j == 0 && lane % 4 == 0) {
              out[kDim] = top[t][half];
              out[kDim + 1] = sum;
            }
          }
      }
    __syncthreads();  // the unit's memory is free again
  }
  if (per_block) return;
#pragma unroll
  for (u32 t = 0; t < kTiles; t++)
#pragma unroll
    for (u32 i = 0; i < kPairs; i++)
#pragma unroll
      for (u32 j = 0; j < 8; j++) {
        const u32 row = t * 16 + j % 4 / 2 * 8 + lane / 4, pair = warp + i * kWarps;
        if (pair >= kDim / 16 || !work.has(row)) continue;
        const u32 column = work.head(row) * kDim + pair * 16 + j / 4 * 8 + lane % 4 * 2 + j % 2;
        put(operand_row(a.halves, a.half_stride, a.floats, a.float_stride, work.row(row)), column,
            divide(total[t][i][j / 4][j % 4], whole[t][j % 4 / 2].sum));
      }
}

// Folds the units that `attend` left, ascending; `tile_rows` is the other kernel's.
template <u32 kDim>
GPU_FN void merge(const AttentionArgs& a, u32 tile_rows) {
  TileWork work;
  if (!work.find(a, blockIdx.x, blockIdx.y)) return;
  for (u32 i = threadIdx.x; i < work.tokens * work.heads * kDim; i += blockDim.x) {
    const u32 row = i / kDim, d = i % kDim;
    Softmax whole{0, 0};
    float value = 0;
    for (u32 unit = 0; unit < work.units; unit++) {
      const float* from = partial_row<kDim>(a, work, unit, tile_rows, row);
      float mine, theirs;
      whole.fold(from[kDim], from[kDim + 1], mine, theirs);
      value = fused(value, mine, times(from[d], theirs));
    }
    put(operand_row(a.halves, a.half_stride, a.floats, a.float_stride, work.row(row)), work.head(row) * kDim + d,
        divide(value, whole.sum));
  }
}
