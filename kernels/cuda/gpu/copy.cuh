// Asynchronous copies from global to shared memory, and 8x8 matrix loads from there.
#pragma once
#include "base.cuh"

#ifdef __CUDACC__
GPU_FN u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }
#endif

// Sixteen bytes, both sides aligned; zeros where `valid` is false, and then nothing is read.
GPU_FN void copy_async16(void* shared, const void* global, bool valid = true) {
  check_aligned(shared, 16);
  check_aligned(global, 16);
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
#else
  host::copy_async(shared, global, 16, valid ? 16 : 0);
#endif
}

GPU_FN void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  host::commit_copies();
#endif
}

// Waits until at most `kPending` of this thread's groups are in flight.
template <int kPending>
GPU_FN void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#else
  host::wait_copies(kPending);
#endif
}

#ifndef __CUDACC__
namespace host {
struct MatrixRows {
  u32* out;
  const u8* row;
};
}  // namespace host
#endif

// Four 8x8 matrices of 16-bit numbers; lane i gives the address of row i % 8 of matrix i / 8. Lane i gets of each matrix
// the two numbers at row i / 4, columns 2 (i % 4) and the next.
GPU_FN void load_matrices(u32 (&out)[4], const void* row) {
  check_aligned(row, 16);
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
#else
  host::MatrixRows mine{out, static_cast<const u8*>(row)};
  host::warp_operation(
      [](void** all, unsigned, const void*) {
        for (int lane = 0; lane < 32; lane++)
          for (int m = 0; m < 4; m++)
            std::memcpy(&static_cast<host::MatrixRows*>(all[lane])->out[m],
                        static_cast<host::MatrixRows*>(all[8 * m + lane / 4])->row + 4 * (lane % 4), 4);
      },
      &mine, nullptr, 0xffffffffu, "load_matrices");
#endif
}

// The same, each matrix transposed: lane i gets rows 2 (i % 4) and the next of column i / 4.
GPU_FN void load_matrices_transposed(u32 (&out)[4], const void* row) {
  check_aligned(row, 16);
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
#else
  host::MatrixRows mine{out, static_cast<const u8*>(row)};
  host::warp_operation(
      [](void** all, unsigned, const void*) {
        for (int lane = 0; lane < 32; lane++)
          for (int m = 0; m < 4; m++)
            for (int half = 0; half < 2; half++)
              std::memcpy(reinterpret_cast<u8*>(&static_cast<host::MatrixRows*>(all[lane])->out[m]) + 2 * half,
                          static_cast<host::MatrixRows*>(all[8 * m + 2 * (lane % 4) + half])->row + 2 * (lane / 4), 2);
      },
      &mine, nullptr, 0xffffffffu, "load_matrices_transposed");
#endif
}
