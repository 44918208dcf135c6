// Paged attention for the head sizes that models have; 16 query rows a block for decode, 64 for prefill.
#include "attention.cuh"

#define PARAMETERS                                                                                                     \
  u16 *__restrict__ halves, u32 half_stride, float *__restrict__ floats, u32 float_stride,                             \
      const float *__restrict__ q, u32 q_stride, const u16 *__restrict__ pool, u32 q_heads, u32 kv_heads,              \
      u32 block_tokens, float scale, const u32 *__restrict__ positions, const u32 *__restrict__ tables,                \
      const u32 *__restrict__ block_tables, const u32 *__restrict__ tiles, const u32 *__restrict__ tile_count,         \
      float *__restrict__ partials
#define ARGUMENTS                                                                                                      \
  AttentionArgs {                                                                                                      \
    halves, half_stride, floats, float_stride, q, q_stride, pool, q_heads, kv_heads, block_tokens, scale, positions,   \
        tables, block_tables, tiles, tile_count, partials                                                              \
  }
#define KERNELS(dim)                                                                                                   \
  GPU_KERNEL(128, attention_##dim##_16)(PARAMETERS, u32 per_block) { attend<dim, 1>(ARGUMENTS, per_block); }           \
  GPU_EXPORT(attention_##dim##_16)                                                                                     \
  GPU_KERNEL(128, attention_##dim##_64)(PARAMETERS, u32 per_block) { attend<dim, 4>(ARGUMENTS, per_block); }           \
  GPU_EXPORT(attention_##dim##_64)                                                                                     \
  GPU_KERNEL(128, attention_merge_##dim)(PARAMETERS, u32 tile_rows) { merge<dim>(ARGUMENTS, tile_rows); }              \
  GPU_EXPORT(attention_merge_##dim)

KERNELS(16)
KERNELS(32)
KERNELS(64)
KERNELS(128)
