// FP8 weights with powers of two for 128 x 128 blocks, and bf16 activations. One kernel for at most 16 rows, tiles of 64 and 128 rows for more, and
// one for experts, all with the same bits.
#define WEIGHTS Fp8Weights
#define NAMED(rest) gemm_fp8_##rest
#include "gemm_kernels.cuh"
