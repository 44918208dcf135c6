// A fiber: a stack of its own that runs until it hands over. One CUDA thread is one fiber.
#pragma once
#include <cstddef>

namespace host {

struct Fiber {
  void* sp = nullptr;
  const void* stack = nullptr;
  size_t stack_bytes = 0;
  // What AddressSanitizer and ThreadSanitizer know this fiber by.
  void* asan = nullptr;
  void* tsan = nullptr;
};

// Makes `fiber` begin in `entry`, which must never return, on the stack `stack[0..bytes]`.
void prepare_fiber(Fiber& fiber, void (*entry)(), char* stack, size_t bytes);
// Runs `to` until somebody hands back. `last`: `from` will never run again.
void hand_over(Fiber& from, Fiber& to, bool last = false);
// The first thing that a fresh fiber does; `from` is the one that handed over to it.
void fiber_began(Fiber& from);
// Pairs with prepare_fiber where a sanitizer keeps something per fiber.
void drop_fiber(Fiber& fiber);
// Tells ThreadSanitizer who the calling thread is; the first fiber is the thread itself.
void adopt_thread(Fiber& fiber);

// ThreadSanitizer sees fibers as unordered threads; these two are the only order between them.
// Everything before a `publish` of a key happens before whatever follows an `observe` of it.
void publish(void* key);
void observe(void* key);
// Accesses that this uninstrumented file makes for a kernel.
void kernel_reads(const void* at, size_t bytes);
void kernel_writes(void* at, size_t bytes);

}  // namespace host
