// NVFP4 weights and NVFP4 activations on the block-scaled FP4 instruction of sm_12x.
//
// Both operands are row-major codes and scales with rows padded to whole steps of 128. The instruction adds k ascending, one
// accumulator for all of K, whatever the number of rows. Blocks have 64 columns and 16 or 64 rows.
#include "gemm.cuh"

constexpr u32 kWide = 128, kColumns = 64, kRowBytes = kWide / 2;

struct Fp4Rows {
  const u8* codes;
  const u8* scales;

  GPU_FN u32 scale_word(u32 row, u32 steps, u32 step, u32 half) const {
    return load<u32>(scales + (size_t(row) * steps + step) * (kWide / 16) + half * 4);
  }
};

// Sixteen-byte piece of a shared row of 64 bytes; two rows fill the banks once.
GPU_FN u8* fp4_piece(u8* tile, u32 row, u32 index) { return tile + row * kRowBytes + (index ^ (row / 2 & 3)) * 16; }

template <u32 kRows>
GPU_FN void fetch_fp4(u8* tile, const Fp4Rows& from, u32 first, u32 rows, u32 steps, u32 step) {
  for (u32 i = threadIdx.x; i < kRows * (kRowBytes / 16); i += 128) {
    const u32 row = first + i / 4;
    const bool valid = row < rows;
    copy_async16(fp4_piece(tile, i / 4, i % 4), from.codes + (size_t(valid ? row : 0) * steps + step) * kRowBytes + i % 4 * 16,
                 valid);
  }
}

template <Finish finish, u32 kTiles>
GPU_FN void gemm_fp4(const Target& to, const Fp4Rows& a, const Fp4Rows& b, const float* alpha, u32 columns, u32 steps,
                     const u32* row_count) {
  constexpr u32 kRows = kTiles * 16, kStage = (kRows + kColumns) * kRowBytes;
  DYNAMIC_SHARED(smem);  // two stages
  const u32 rows = *row_count, lane = lane_id(), warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  const u32 first_row = blockIdx.y * kRows, first_column = blockIdx.x * kColumns;
  if (first_row >= rows) return;
  auto fetch = [&](u32 step) {
    u8* stage = smem + step % 2 * kStage;
    fetch_fp4<kRows>(stage, a, first_row, rows, steps, step);
    // Weights are padded to whole blocks of columns.
    fetch_fp4<kColumns>(stage + kRows * kRowBytes, b, first_column, first_column + kColumns, steps, step);
    commit_copies();
  };
  float acc[kTiles][2][4] = {};
  fetch(0);
  for (u32 step = 0; step < steps; step++) {
    if (step + 1 < steps) {
      fetch(step + 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();
    u8* rows_of_a = smem + step % 2 * kStage;
    u8* rows_of_b = rows_of_a + kRows * kRowBytes;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
      u32 w[4], scale_b[2];
      load_matrices(w, fp4_piece(rows_of_b, warp * 16 + lane / 16 * 8 + lane % 8, half * 2 + lane / 8 % 2));
#pragma unroll
      for (u32 n = 0; n < 2; n++) scale_b[n] = b.scale_word(first_column + warp * 16 + n * 8 + g, steps, step, half);
#pragma unroll
      for (u32 t = 0; t < kTiles; t++) {
        u32 x[4];
        load_matrices(x, fp4_piece(rows_of_a, t * 16 + lane % 16, half * 2 + lane / 16));
        // The instruction takes row g's scales from lane 4g, row g + 8's from lane 4g + 1.
        const u32 row = first_row + t * 16 + g + 8 * (q & 1);
        const u32 scale_a = row < rows ? a.scale_word(row, steps, step, half) : 0;
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
          const u32 column[2] = {w[2 * n], w[2 * n + 1]};
          multiply_nvfp4(acc[t][n], x, column, scale_a, scale_b[n]);
        }
      }
    }
    __syncthreads();  // the stage is free again
  }
#pragma unroll
  for (u32 t = 0; t < kTiles; t++)
    finish_pair<finish>(to, AllRows{}, first_row + t * 16, rows, first_column / kTileColumns + warp / 2, warp % 2, columns, acc[t][0],
                        acc[t][1], alpha);
}

#define KERNEL(name, finish, tiles)                                                                                    \
  GPU_KERNEL(128, name)                                                                                                \
  (float* __restrict__ out, u32 stride, u16* __restrict__ halves, u32 half_stride, float* __restrict__ floats,         \
   u32 float_stride, float limit, const u8* __restrict__ a, const u8* __restrict__ a_scales,                           \
   const float* __restrict__ row_scales, const u8* __restrict__ codes, const u8* __restrict__ scales,                  \
   const float* __restrict__ alpha, u32 columns, u32 steps, const u32* __restrict__ rows) {                            \
    const Target to{out, stride, halves, half_stride, floats, float_stride, limit, row_scales};                        \
    gemm_fp4<Finish::finish, tiles>(to, {a, a_scales}, {codes, scales}, alpha, columns, steps, rows);                  \
  }                                                                                                                    \
  GPU_EXPORT(name)

KERNEL(gemm_w4a4_16_store, kStore, 1)
KERNEL(gemm_w4a4_16_add, kAdd, 1)
KERNEL(gemm_w4a4_16_gated, kGated, 1)
KERNEL(gemm_w4a4_64_store, kStore, 4)
KERNEL(gemm_w4a4_64_add, kAdd, 4)
KERNEL(gemm_w4a4_64_gated, kGated, 4)
