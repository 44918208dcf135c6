// NVFP4 weights and bf16 activations. One kernel for at most 16 rows, tiles of 64 and 128 rows for more, and
// one for experts, all with the same bits.
#define WEIGHTS Nvfp4Weights
#define NAMED(rest) gemm_nvfp4_##rest
#include "gemm_kernels.cuh"
