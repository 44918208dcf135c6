// out[m][n] = sum_k a[m][k] w[n][k] * alpha[n], with a in bf16 and w in any format of weights.cuh.
//
// Order of additions, the same for every number of rows: K is cut into kSlices slices of whole steps, which depend on K alone; a
// slice's products are added by the tensor cores k ascending from zero; then slices are added ascending. The kernel for few
// rows gives each slice to a warp, the one for many rows works through them one after another.
#pragma once
#include "operand.cuh"
#include "weights.cuh"

constexpr u32 kSlices = 8;

GPU_FN u32 slice_start(u32 slice, u32 steps) { return slice * steps / kSlices; }

// Which rows of the input and of the results a block's rows are.
struct AllRows {
  GPU_FN u32 source(u32 row) const { return row; }
  GPU_FN u32 target(u32 row) const { return row; }
};
// Entries of a list: results go where the entry says, input comes from a row that `shared` entries have in common.
struct ListedRows {
  const u32* list;
  u32 shared;
  GPU_FN u32 source(u32 row) const { return list[row] / shared; }
  GPU_FN u32 target(u32 row) const { return list[row]; }
};

// Where results go.
struct Target {
  // Plain: f32 rows, stored or added to.
  float* out;
  u32 stride;
  // Gated: column groups alternate between gate and up; silu(gate) * up goes to linears' input.
  u16* halves;
  u32 half_stride;
  float* floats;
  u32 float_stride;
  float limit;
  // A factor for each row, or null.
  const float* row_factor;
};
enum class Finish { kStore, kAdd, kGated };

// Results of one 16-row tile and one pair of column groups: lane 4g+q has rows g, g+8 and columns 2q, 2q+1 of each group.
template <Finish finish, class Map>
GPU_FN void finish_pair(const Target& to, const Map& map, u32 row0, u32 rows, u32 tile, u32 pair, u32 columns,
                        const float (&first)[4], const float (&second)[4], const float* alpha) {
  const u32 g = lane_id() / 4, q = lane_id() % 4;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    const u32 n = tile * kTileColumns + pair * 16 + 2 * q + i % 2;
    if (row0 + g + i / 2 * 8 >= rows) continue;
    const u32 row = map.target(row0 + g + i / 2 * 8);
    const float factor = to.row_factor ? to.row_factor[row] : 1.0f;
    const float a = times(times(first[i], alpha[n]), factor), b = times(times(second[i], alpha[n + 8]), factor);
    if (finish == Finish::kGated) {
      const u32 column = (tile * kTileColumns + pair * 16) / 2 + 2 * q + i % 2;
      if (column >= columns) continue;
      const float gate = fminf(a, to.limit), up = fmaxf(fminf(b, to.limit), -to.limit);
      put(operand_row(to.halves, to.half_stride, to.floats, to.float_stride, row), column, times(silu(gate), up));
    } else {
      float* at = to.out + size_t(row) * to.stride;
      if (n < columns) at[n] = finish == Finish::kAdd ? at[n] + a : a;
      if (n + 8 < columns) at[n + 8] = finish == Finish::kAdd ? at[n + 8] + b : b;
    }
  }
}

// A lane's 16 numbers of one row in one step.
struct RowStep {
  Words4 words[2];
};

// One step of one 16-row tile: `low` is row g, `high` row g + 8.
GPU_FN void multiply_step(float (&acc)[4], const RowStep& low, const RowStep& high, const WeightStep& w) {
#pragma unroll
  for (int s = 0; s < 4; s++) {
    const u32 a[4] = {low.words[s / 2].w[s % 2 * 2], high.words[s / 2].w[s % 2 * 2], low.words[s / 2].w[s % 2 * 2 + 1],
                      high.words[s / 2].w[s % 2 * 2 + 1]};
    multiply_bf16(acc, a, w.b[s]);
  }
}

// Sixteen rows from `first` on: a block has 32 columns, each of its warps a slice of K. Weights come straight from memory, each
// byte once.
template <class Weights, Finish finish, class Map>
GPU_FN void gemm_sixteen(const Target& to, const Map& map, const u16* a, u32 a_stride, const Weights& weights,
                         const float* alpha, u32 columns, u32 steps, u32 first, u32 rows) {
  SHARED_ARRAY(float, partial, kSlices * 16 * kTileColumns);
  const u32 tile = blockIdx.x, slice = threadIdx.x / 32, lane = lane_id();
  float acc[kColumnGroups][4] = {};
  const u32 end = slice_start(slice + 1, steps);
  const u32 low = first + lane / 4, high = low + 8;
  const bool has_low = low < rows, has_high = high < rows;
  const u16* low_row = a + size_t(has_low ? map.source(low) : 0) * a_stride + lane % 4 * 16;
  const u16* high_row = a + size_t(has_high ? map.source(high) : 0) * a_stride + lane % 4 * 16;
  auto fetch_row = [&](const u16* from, bool has) -> RowStep {
    if (!has) return RowStep{};
    return {{load<Words4>(from), load<Words4>(from + 8)}};
  };
  u32 step = slice_start(slice, steps);
  typename Weights::Raw next{};
  if (step < end) next = weights.fetch(tile, step, steps);
  for (; step < end; step++) {
    const typename Weights::Raw raw = next;
    if (step + 1 < end) next = weights.fetch(tile, step + 1, steps);
    const RowStep x = fetch_row(low_row + step * kStepK, has_low), y = fetch_row(high_row + step * kStepK, has_high);
#pragma unroll
    for (u32 group = 0; group < kColumnGroups; group++) multiply_step(acc[group], x, y, Weights::expand(raw, group));
  }
#pragma unroll
  for (u32 group = 0; group < kColumnGroups; group++)
#pragma unroll
    for (u32 i = 0; i < 4; i++) partial[((slice * kColumnGroups + group) * 4 + i) * 32 + lane] = acc[group][i];
  __syncthreads();
  if (threadIdx.x >= 32 * (kColumnGroups / 2)) return;
  // Warp p finishes column groups 2p and 2p + 1.
  const u32 pair = threadIdx.x / 32;
  float total[2][4];
#pragma unroll
  for (u32 half = 0; half < 2; half++)
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      float sum = 0;
      for (u32 s = 0; s < kSlices; s++) sum += partial[((s * kColumnGroups + pair * 2 + half) * 4 + i) * 32 + lane];
      total[half][i] = sum;
    }
  finish_pair<finish>(to, map, first, rows, tile, pair, columns, total[0], total[1], alpha);
}

// At most 16 rows.
template <class Weights, Finish finish>
GPU_FN void gemm_few(const Target& to, const u16* a, u32 a_stride, const Weights& weights, const float* alpha, u32 columns,
                     u32 steps, const u32* rows) {
  gemm_sixteen<Weights, finish>(to, AllRows{}, a, a_stride, weights, alpha, columns, steps, 0, *rows);
}

// Experts: block y is an expert, whose rows are the entries of its list, 16 for each block z. Experts' matrices follow each other,
// `strides` bytes of codes and of scales and factors apart.
struct ExpertStrides {
  u32 codes, scales, factors;
};
template <class Weights, Finish finish>
GPU_FN void gemm_experts(const Target& to, const u16* a, u32 a_stride, const u8* codes, const u8* scales,
                         const float* alpha, ExpertStrides strides, u32 columns, u32 steps, const u32* lists,
                         const u32* counts, u32 room, u32 shared) {
  const u32 expert = blockIdx.y, first = blockIdx.z * 16;
  if (first >= counts[expert]) return;
  const Weights weights = Weights::of(codes + size_t(expert) * strides.codes, scales + size_t(expert) * strides.scales);
  const ListedRows map{lists + size_t(expert) * room, shared};
  gemm_sixteen<Weights, finish>(to, map, a, a_stride, weights, alpha + size_t(expert) * strides.factors, columns, steps,
                                first, counts[expert]);
}

// Sixteen-byte pieces of a shared row of 64 numbers, exchanged so that eight lanes of a load meet eight banks groups.
GPU_FN u8* piece(u8* tile, u32 row, u32 index) { return tile + row * (kStepK * 2) + ((index ^ (row & 7)) * 16); }

// Many rows: a block has kTiles * 16 * kRowWarps rows and 32 * kColumnWarps columns; activations pass through shared memory in two
// stages, weights go to registers.
template <class Weights, Finish finish, u32 kTiles, u32 kRowWarps, u32 kColumnWarps>
GPU_FN void gemm_many(const Target& to, const u16* a, u32 a_stride, const Weights& weights, const float* alpha,
                      u32 columns, u32 steps, const u32* row_count) {
  constexpr u32 kRows = kTiles * 16 * kRowWarps, kThreads = 32 * kRowWarps * kColumnWarps;
  DYNAMIC_SHARED(smem);  // two stages of kRows rows of 128 bytes
  const u32 rows = *row_count, lane = lane_id(), warp = threadIdx.x / 32;
  const u32 first_row = blockIdx.y * kRows, warp_row = warp / kColumnWarps * kTiles * 16;
  if (first_row >= rows) return;
  const u32 tile = blockIdx.x * kColumnWarps + warp % kColumnWarps;
  const bool has_tile = tile * kTileColumns < columns * (finish == Finish::kGated ? 2 : 1);
  auto fetch_rows = [&](u32 step) {
    u8* stage = smem + step % 2 * (kRows * kStepK * 2);
    for (u32 i = threadIdx.x; i < kRows * 8; i += kThreads) {
      const u32 row = first_row + i / 8;
      const bool valid = row < rows;
      copy_async16(piece(stage, i / 8, i % 8), a + size_t(valid ? row : 0) * a_stride + step * kStepK + i % 8 * 8, valid);
    }
    commit_copies();
  };
  float total[kTiles][kColumnGroups][4] = {}, acc[kTiles][kColumnGroups][4] = {};
  u32 slice = 0;
  fetch_rows(0);
  typename Weights::Raw next{};
  if (has_tile) next = weights.fetch(tile, 0, steps);
  for (u32 step = 0; step < steps; step++) {
    if (step + 1 < steps) {
      fetch_rows(step + 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();
    const typename Weights::Raw raw = next;
    if (has_tile && step + 1 < steps) next = weights.fetch(tile, step + 1, steps);
    u8* stage = smem + step % 2 * (kRows * kStepK * 2);
    RowStep low[kTiles], high[kTiles];
#pragma unroll
    for (u32 t = 0; t < kTiles; t++) {
      const u32 row = warp_row + t * 16 + lane / 4;
#pragma unroll
      for (u32 half = 0; half < 2; half++) {
        low[t].words[half] = load<Words4>(piece(stage, row, lane % 4 * 2 + half));
        high[t].words[half] = load<Words4>(piece(stage, row + 8, lane % 4 * 2 + half));
      }
    }
#pragma unroll
    for (u32 group = 0; group < kColumnGroups; group++) {
      const WeightStep w = Weights::expand(raw, group);
#pragma unroll
      for (u32 t = 0; t < kTiles; t++) multiply_step(acc[t][group], low[t], high[t], w);
    }
    while (slice_start(slice + 1, steps) <= step) slice++;
    if (slice_start(slice + 1, steps) == step + 1) {
#pragma unroll
      for (u32 t = 0; t < kTiles; t++)
#pragma unroll
        for (u32 group = 0; group < kColumnGroups; group++)
#pragma unroll
          for (u32 i = 0; i < 4; i++) {
            total[t][group][i] += acc[t][group][i];
            acc[t][group][i] = 0;
          }
    }
    __syncthreads();  // the stage is free again
  }
  if (!has_tile) return;
#pragma unroll
  for (u32 t = 0; t < kTiles; t++)
#pragma unroll
    for (u32 pair = 0; pair < kColumnGroups / 2; pair++)
      finish_pair<finish>(to, AllRows{}, first_row + warp_row + t * 16, rows, tile, pair, columns, total[t][2 * pair],
                          total[t][2 * pair + 1], alpha);
}
