// The one header that every kernel includes. Under nvcc each function of gpu/ is an instruction or two; under a host
// compiler it is a body that does what the instruction's documentation says, with more checks.
//
// Rules for kernels: inline PTX, launches and CUDA's own headers stay out of them. Shared memory is declared with
// SHARED_ARRAY or DYNAMIC_SHARED, a kernel is followed by GPU_EXPORT, register arrays are indexed by constants after
// unrolling. No reduction depends on the number of rows, on a grid size or on which block runs first.
#pragma once

#include "gpu/base.cuh"
#include "gpu/copy.cuh"
#include "gpu/matrix.cuh"
#include "gpu/numbers.cuh"
#include "gpu/warp.cuh"
