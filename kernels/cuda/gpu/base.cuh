// Words that mean the same to both compilers: qualifiers, thread coordinates, shared memory, barriers.
#pragma once

#ifdef __CUDACC__

#include <cstddef>
#include <cstdint>
#define GPU_FN __device__ __forceinline__
#define GPU_EXPORT(kernel)
// The name must be `smem` everywhere: it is one symbol of the module.
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define SHARED_ARRAY(type, name, count) __shared__ type name[count]

#else

#include <cmath>
#include <cstring>

#include "../host/runtime.h"
#define GPU_FN inline
#define HOST_TEXT_(x) #x
#define HOST_TEXT(x) HOST_TEXT_(x)
#define HOST_HERE __FILE__ ":" HOST_TEXT(__LINE__)
#define GPU_EXPORT(kernel) HOST_EXPORT_(kernel)
#define HOST_EXPORT_(kernel)                                                                        \
  static const host::Registration host_registration_##kernel(                                       \
      #kernel, {[](void** arguments) { host::call(kernel, arguments); },                            \
                decltype(host::parameters_of(kernel))::sizes, decltype(host::parameters_of(kernel))::count});
#define DYNAMIC_SHARED(name) auto* name = static_cast<unsigned char*>(host::dynamic_shared())
#define SHARED_ARRAY(type, name, count)  \
  static const char host_key_##name = 0; \
  auto* name = static_cast<type*>(host::static_shared(&host_key_##name, sizeof(type) * (count)))
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define threadIdx (host::current->thread)
#define blockIdx (host::current->block)
#define blockDim (host::current->block_size)
#define gridDim (host::current->grid)
#define __syncthreads() host::sync_block(HOST_HERE)

#endif

// A kernel that is launched by name with at most `threads` threads a block. Without the second bound ptxas spills a few registers
// for the sake of occupancy.
#define GPU_KERNEL(threads, name) extern "C" __global__ void __launch_bounds__(threads, 1) name

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// Sixteen and eight bytes that travel in one access.
struct alignas(16) Words4 {
  u32 w[4];
};
struct alignas(8) Words2 {
  u32 w[2];
};

GPU_FN u32 min_of(u32 a, u32 b) { return a < b ? a : b; }

// The host checks what the GPU would fault on.
GPU_FN void check_aligned([[maybe_unused]] const void* at, [[maybe_unused]] unsigned bytes) {
#ifndef __CUDACC__
  if (reinterpret_cast<uintptr_t>(at) % bytes) host::fail("a misaligned access", HOST_HERE);
#endif
}

// One access of 4, 8 or 16 bytes, which has to be aligned to its size.
template <class T>
GPU_FN T load(const void* at) {
  check_aligned(at, sizeof(T));
  return *static_cast<const T*>(at);
}
template <class T>
GPU_FN void store(void* at, T value) {
  check_aligned(at, sizeof(T));
  *static_cast<T*>(at) = value;
}
