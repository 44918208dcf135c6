// bf16 weights and activations; `scales` is not read. One kernel for at most 16 rows, tiles of 64 and 128 rows for more, and
// one for experts, all with the same bits.
#define WEIGHTS Bf16Weights
#define NAMED(rest) gemm_bf16_##rest
#include "gemm_kernels.cuh"
