// Switching stacks, and what the sanitizers have to be told about it.
//
// For race checks the kernels are compiled with -fsanitize=thread and the files of this folder with -DHOST_TSAN only:
// ThreadSanitizer then sees what kernels read and write, and nothing of the scheduler.
#include "fiber.h"

#include <cstdint>
#include <cstring>

#if defined(HOST_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_read_range(void* at, unsigned long bytes);
extern "C" void __tsan_write_range(void* at, unsigned long bytes);
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// void host_swap_stacks(void** save, void* load): callee-saved registers go to the old stack and come from the new one.
extern "C" void host_swap_stacks(void** save, void* load);

#if defined(__x86_64__)
constexpr size_t kSavedWords = 6, kReturnWord = 6;
asm(R"(
  .text
  .p2align 4
  .globl host_swap_stacks
  .type host_swap_stacks, @function
host_swap_stacks:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
  .size host_swap_stacks, .-host_swap_stacks
)");
#elif defined(__aarch64__)
// Not run yet on such a machine. x19..x28, x29, x30 (the return address), d8..d15.
constexpr size_t kSavedWords = 20, kReturnWord = 11;
asm(R"(
  .text
  .p2align 4
  .globl host_swap_stacks
  .type host_swap_stacks, %function
host_swap_stacks:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size host_swap_stacks, .-host_swap_stacks
)");
#else
#error "no stack switch is written for this processor"
#endif

namespace host {

void prepare_fiber(Fiber& fiber, void (*entry)(), char* stack, size_t bytes) {
  auto top = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t(63);
  auto* frame = reinterpret_cast<void**>(top) - 32;
  std::memset(frame, 0, 32 * sizeof(void*));
  // x86-64: after seven pops rsp is 8 off a multiple of 16, as at any function's first instruction.
  frame[kReturnWord] = reinterpret_cast<void*>(entry);
  static_assert(kReturnWord <= kSavedWords);
  fiber.sp = frame;
  fiber.stack = stack;
  fiber.stack_bytes = bytes;
#if defined(HOST_TSAN)
  fiber.tsan = __tsan_create_fiber(0);
#endif
}

void drop_fiber([[maybe_unused]] Fiber& fiber) {
#if defined(HOST_TSAN)
  __tsan_destroy_fiber(fiber.tsan);
#endif
}

void adopt_thread([[maybe_unused]] Fiber& fiber) {
#if defined(HOST_TSAN)
  fiber.tsan = __tsan_get_current_fiber();
#endif
}

void hand_over(Fiber& from, Fiber& to, [[maybe_unused]] bool last) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(last ? nullptr : &from.asan, to.stack, to.stack_bytes);
#endif
#if defined(HOST_TSAN)
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
  host_swap_stacks(&from.sp, to.sp);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.asan, nullptr, nullptr);
#endif
}

void fiber_began([[maybe_unused]] Fiber& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &from.stack, &from.stack_bytes);
#endif
}

void publish([[maybe_unused]] void* key) {
#if defined(HOST_TSAN)
  __tsan_release(key);
#endif
}

void observe([[maybe_unused]] void* key) {
#if defined(HOST_TSAN)
  __tsan_acquire(key);
#endif
}

void kernel_reads([[maybe_unused]] const void* at, [[maybe_unused]] size_t bytes) {
#if defined(HOST_TSAN)
  __tsan_read_range(const_cast<void*>(at), bytes);
#endif
}

void kernel_writes([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(HOST_TSAN)
  __tsan_write_range(at, bytes);
#endif
}

}  // namespace host
