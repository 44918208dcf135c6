// What a kernel sees of the machine when a host compiler builds it: threads, barriers, warp operations, shared memory,
// asynchronous copies. Included by gpu.cuh where the compiler is not nvcc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace host {

struct Thread {
  dim3 thread, block, block_size, grid;
};
extern thread_local Thread* current;

// Ends the launch with an error that names the place. Does not return.
[[noreturn]] void fail(const char* what, const char* where);

// Waits for every thread of the block that has not ended.
void sync_block(const char* where);

// Every lane of `mask` comes here with its own `argument`; the last to arrive calls `work` once for all of them.
using WarpWork = void (*)(void** arguments, unsigned mask, const void* extra);
void warp_operation(WarpWork work, void* argument, const void* extra, unsigned mask, const char* where);
unsigned lane();

// The launch's dynamic shared memory, and the block's variable that `key` stands for. Both begin as NaN.
void* dynamic_shared();
void* static_shared(const void* key, size_t bytes);

// Asynchronous copies to shared memory arrive when their group is waited for; until then the target is NaN.
void copy_async(void* to, const void* from, size_t bytes, size_t filled);
void commit_copies();
void wait_copies(int pending);

// Kernels by name: what cuModuleGetFunction is to a cubin.
using Entry = void (*)(void** arguments);
struct Kernel {
  Entry entry;
  const size_t* sizes;  // bytes of each parameter
  size_t count;
};
struct Registration {
  Registration(const char* name, Kernel kernel);
};
const Kernel* find_kernel(const char* name);

struct LaunchShape {
  dim3 grid, block;
  unsigned shared_bytes = 0;
  // 0 runs blocks and threads in order; anything else shuffles both.
  unsigned seed = 0;
};
// Runs a kernel; `arguments` point to its parameters, as for cuLaunchKernel. Returns false with the reason in `error`.
bool launch(const char* name, const LaunchShape& shape, void** arguments, char* error, size_t error_bytes);

template <class... A>
struct Parameters {
  static constexpr size_t sizes[sizeof...(A)] = {sizeof(A)...};
  static constexpr size_t count = sizeof...(A);
};
template <class... A>
Parameters<A...> parameters_of(void (*)(A...));
template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}
template <class... A>
void call(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<A...>{});
}

}  // namespace host
