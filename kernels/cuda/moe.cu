// Mixtures of experts: choosing, listing each expert's entries, adding up results. Products are in gemm_*.cu.
//
// An entry is row * k + place: the place-th choice of a row. Choices of a row are by ascending expert number.
#include "gpu.cuh"

constexpr u32 kNone = 0xffffffffu, kMostExperts = 1024;

GPU_FN double softplus_root(double z) { return sqrt(fmax(z, 0.0) + log1p(exp(-fabs(z)))); }

// One block of one warp a row. Scores in double precision: a rounding that flips a choice changes everything after it.
// `bias` and `table` may be null; with a table the row's token says which experts.
GPU_KERNEL(32, route)
(u32* __restrict__ ids, float* __restrict__ weights, u32 k, const float* __restrict__ logits, u32 stride, u32 experts,
 u32 softmax, const float* __restrict__ bias, const u32* __restrict__ table, u32 normalize, float factor,
 const u32* __restrict__ tokens, const u32* __restrict__ rows) {
  SHARED_ARRAY(double, scores, kMostExperts);
  SHARED_ARRAY(u32, taken, kMostExperts / 32);
  const u32 row = blockIdx.x, lane = lane_id();
  if (row >= *rows) return;
  const float* z = logits + size_t(row) * stride;
  float most = -kInfinity;
  for (u32 e = lane; e < experts; e += 32) most = fmaxf(most, z[e]);
  most = warp_max(most);
  for (u32 e = lane; e < experts; e += 32) scores[e] = softmax ? exp(double(z[e]) - double(most)) : softplus_root(z[e]);
  taken[lane] = 0;
  sync_warp();
  double total = 1;
  if (softmax) {
    total = 0;
    for (u32 e = 0; e < experts; e++) total += scores[e];
  }
  u32* chosen = ids + size_t(row) * k;
  if (table) {
    for (u32 i = lane; i < k; i += 32) {
      const u32 e = table[size_t(tokens[row]) * k + i];
      // Places by ascending number.
      u32 place = 0;
      for (u32 j = 0; j < k; j++) {
        const u32 other = table[size_t(tokens[row]) * k + j];
        place += u32(other < e || (other == e && j < i));
      }
      chosen[place] = e;
    }
  } else {
    for (u32 i = 0; i < k; i++) {
      double best = -double(kInfinity);
      u32 which = kNone;
      for (u32 e = lane; e < experts; e += 32) {
        const double key = scores[e] / total + (bias ? double(bias[e]) : 0.0);
        if (!(taken[e / 32] >> (e % 32) & 1) && (which == kNone || key > best)) {
          best = key;
          which = e;
        }
      }
#pragma unroll
      for (u32 distance = 16; distance; distance /= 2) {
        const double key = from_lane_xor(best, distance);
        const u32 e = from_lane_xor(which, distance);
        if (e != kNone && (which == kNone || key > best || (key == best && e < which))) {
          best = key;
          which = e;
        }
      }
      if (lane == 0 && which != kNone) taken[which / 32] |= 1u << which % 32;
      sync_warp();
    }
    // Ascending: lanes count the chosen in front of their 32 experts.
    for (u32 word = lane; word < kMostExperts / 32; word += 32) {
      u32 place = 0;
      for (u32 w = 0; w < word; w++) place += count_bits(taken[w]);
      for (u32 bit = 0; bit < 32; bit++)
        if (taken[word] >> bit & 1) chosen[place++] = word * 32 + bit;
    }
  }
  sync_warp();
  double sum = 1;
  if (normalize) {
    sum = 0;
    for (u32 i = 0; i < k; i++) sum += scores[chosen[i]] / total;
  }
  for (u32 i = lane; i < k; i += 32)
    weights[size_t(row) * k + i] = float(scores[chosen[i]] / total / sum * double(factor));
}
GPU_EXPORT(route)

// For each expert its entries, ascending, and their number. One warp an expert.
GPU_KERNEL(32, list_experts)
(u32* __restrict__ lists, u32* __restrict__ counts, u32 room, const u32* __restrict__ ids, u32 k,
 const u32* __restrict__ rows) {
  const u32 expert = blockIdx.x, entries = *rows * k;
  u32 found = 0;
  for (u32 first = 0; first < entries; first += 32) {
    const u32 entry = first + lane_id();
    const bool mine = entry < entries && ids[entry] == expert;
    const u32 all = votes_of(mine);
    if (mine) lists[size_t(expert) * room + found + count_bits(all & ((1u << lane_id()) - 1))] = entry;
    found += count_bits(all);
  }
  if (lane_id() == 0) counts[expert] = found;
}
GPU_EXPORT(list_experts)

// out[r] += sum over the row's choices, ascending, of weight * result.
GPU_KERNEL(256, combine_experts)
(float* __restrict__ out, u32 stride, u32 width, const float* __restrict__ results, const u32* __restrict__ ids,
 const float* __restrict__ weights, u32 k, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = out[size_t(row) * stride + i];
    for (u32 place = 0; place < k; place++) {
      const size_t entry = size_t(row) * k + place;
      if (ids[entry] != kNone) sum += times(weights[entry], results[entry * width + i]);
    }
    out[size_t(row) * stride + i] = sum;
  }
}
GPU_EXPORT(combine_experts)
