// What the 32 lanes of a warp do together.
#pragma once
#include "numbers.cuh"

constexpr u32 kWholeWarp = 0xffffffffu;

#ifdef __CUDACC__

GPU_FN u32 lane_id() { return threadIdx.x % 32; }
template <class T>
GPU_FN T from_lane_xor(T value, u32 distance) {
  return __shfl_xor_sync(kWholeWarp, value, distance);
}
template <class T>
GPU_FN T from_lane(T value, u32 source) {
  return __shfl_sync(kWholeWarp, value, source);
}
GPU_FN u32 votes_of(bool vote) { return __ballot_sync(kWholeWarp, vote); }
#define sync_warp() __syncwarp()

#else

inline u32 lane_id() { return host::lane(); }

namespace host {
template <class T>
struct Exchange {
  T value, received;
  u32 source;
};
template <class T>
T exchange(T value, u32 source, const char* where) {
  Exchange<T> mine{value, value, source % 32};
  warp_operation(
      [](void** all, unsigned, const void*) {
        for (int lane = 0; lane < 32; lane++) {
          auto* to = static_cast<Exchange<T>*>(all[lane]);
          to->received = static_cast<Exchange<T>*>(all[to->source])->value;
        }
      },
      &mine, nullptr, kWholeWarp, where);
  return mine.received;
}
inline u32 vote(bool yes, const char* where) {
  struct Vote {
    u32 yes, result;
  } mine{yes, 0};
  warp_operation(
      [](void** all, unsigned, const void*) {
        u32 result = 0;
        for (int lane = 0; lane < 32; lane++) result |= static_cast<Vote*>(all[lane])->yes << lane;
        for (int lane = 0; lane < 32; lane++) static_cast<Vote*>(all[lane])->result = result;
      },
      &mine, nullptr, kWholeWarp, where);
  return mine.result;
}
}  // namespace host
#define from_lane_xor(value, distance) host::exchange(value, lane_id() ^ (distance), HOST_HERE)
#define from_lane(value, source) host::exchange(value, source, HOST_HERE)
#define votes_of(yes) host::vote(yes, HOST_HERE)
#define sync_warp() ((void)host::vote(false, HOST_HERE))

#endif

GPU_FN u32 count_bits(u32 word) {
#ifdef __CUDACC__
  return u32(__popc(word));
#else
  return u32(__builtin_popcount(word));
#endif
}

// All 32 lanes get the sum, the maximum: one tree, whatever the launch.
GPU_FN float warp_sum(float value) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) value += from_lane_xor(value, distance);
  return value;
}
GPU_FN float warp_max(float value) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) value = fmaxf(value, from_lane_xor(value, distance));
  return value;
}

// Sum over the block, for all threads; `partial` is shared, one number per warp. Its order depends on the block's size alone.
GPU_FN float block_sum(float value, float* partial) {
  value = warp_sum(value);
  __syncthreads();  // the last readers of `partial` are done
  if (lane_id() == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_sum(lane_id() < blockDim.x / 32 ? partial[lane_id()] : 0.0f);
}

// The largest, likewise.
GPU_FN float block_max(float value, float* partial) {
  value = warp_max(value);
  __syncthreads();
  if (lane_id() == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_max(lane_id() < blockDim.x / 32 ? partial[lane_id()] : -kInfinity);
}
