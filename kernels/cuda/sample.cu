// From logits to a token: bias, penalties and grammar mask; then temperature, top-k, top-p over what top-k kept, min-p, and one
// draw. One block a row, of a size that follows from the vocabulary. Sums are in double precision.
#include "gpu.cuh"

constexpr u32 kSampleThreads = 1024;

// What a row asks for. `seed` and the position decide the draw, whatever the batch.
struct SampleRow {
  float temperature;  // 0: the largest
  u32 top_k;          // 0: all
  float top_p, min_p;
  u32 seed_low, seed_high, position;
  float repetition, frequency, presence;
  u32 first_seen, seen, first_bias, biases;
};

// Sum over the block, in an order that depends on its size alone.
GPU_FN double block_sum(double value, double* partial) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) value += from_lane_xor(value, distance);
  __syncthreads();
  if (lane_id() == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  for (u32 w = 0; w < blockDim.x / 32; w++) sum += partial[w];
  return sum;
}

// Philox 4x32-10 (Salmon et al. 2011) of (position, 0, 0, 0): uniform in 0..1 with 53 bits.
GPU_FN double uniform(u32 seed_low, u32 seed_high, u32 position) {
  u32 c[4] = {position, 0, 0, 0}, k0 = seed_low, k1 = seed_high;
  for (u32 round = 0; round < 10; round++) {
    const u64 p0 = u64(0xD2511F53u) * c[0], p1 = u64(0xCD9E8D57u) * c[2];
    const u32 c1 = c[1], c3 = c[3];
    c[0] = u32(p1 >> 32) ^ c1 ^ k0;
    c[1] = u32(p1);
    c[2] = u32(p0 >> 32) ^ c3 ^ k1;
    c[3] = u32(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return double((u64(c[0]) << 32 | c[1]) >> 11) * 0x1p-53;
}

// Changes logits in place. `seen` has for each different token of a row its number, how often it occurs, and how often in the
// output; `biases` a token and the bits of a float. `mask` has a bit for each token, or is null.
GPU_KERNEL(1024, adjust_logits)
(float* __restrict__ logits, u32 stride, u32 width, const SampleRow* __restrict__ wanted, const u32* __restrict__ seen,
 const u32* __restrict__ biases, const u32* __restrict__ mask, u32 mask_stride, const u32* __restrict__ rows) {
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const SampleRow& w = wanted[row];
  float* x = logits + size_t(row) * stride;
  for (u32 i = threadIdx.x; i < w.biases; i += blockDim.x) {
    const u32* entry = biases + size_t(w.first_bias + i) * 2;
    if (entry[0] < width) x[entry[0]] += float_of(entry[1]);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < w.seen; i += blockDim.x) {
    const u32* entry = seen + size_t(w.first_seen + i) * 3;
    if (entry[0] >= width) continue;
    float value = x[entry[0]];
    if (w.repetition != 1.0f) value = value > 0 ? divide(value, w.repetition) : times(value, w.repetition);
    if (entry[2]) value -= times(w.frequency, float(entry[2])) + w.presence;
    x[entry[0]] = value;
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
    const bool admitted = !mask || (mask[size_t(row) * mask_stride + i / 32] >> i % 32 & 1);
    const float value = x[i];
    x[i] = !admitted || value != value ? -kInfinity : fminf(value, 3.402823466e38f);
  }
}
GPU_EXPORT(adjust_logits)

// Bits whose order as unsigned numbers is the order of floats.
GPU_FN u32 order_of(float value) {
  const u32 bits = bits_of(value + 0.0f);  // -0 equals 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The end of a run of best-ranked tokens: all with a larger logit, and the first `equals` of those with this one.
struct Cut {
  u32 order, equals;
};
GPU_FN float logit_of(u32 order) { return float_of(order & 0x80000000u ? order & 0x7fffffffu : ~order); }

// A row's candidates.
struct Row {
  const float* logits;
  u32 width;
  float most, temperature;
  double* partial;  // shared, a number for each thread
  u32* found;       // shared

  GPU_FN double weight(float logit) const {
    return logit == -kInfinity ? 0.0 : exp(double(logit - most) / double(temperature));
  }

  // Sum over tokens of `order` or more: of weights, or of ones.
  GPU_FN double reached(u32 order, bool ones) const {
    double sum = 0;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x)
      if (logits[i] != -kInfinity && order_of(logits[i]) >= order) sum += ones ? 1.0 : weight(logits[i]);
    return block_sum(sum, partial);
  }

  // The shortest run of best-ranked tokens (larger logits first, lower numbers among equals) whose sum reaches `wanted`, or exceeds it.
  GPU_FN Cut cut(double wanted, bool ones, bool exceed) const {
    auto enough = [&](double sum) { return exceed ? sum > wanted : sum >= wanted; };
    u32 order = 0;
    for (u32 bit = 0x80000000u; bit; bit >>= 1)
      if (enough(reached(order | bit, ones))) order |= bit;
    // All with this order weigh the same.
    const double above = order == 0xffffffffu ? 0.0 : reached(order + 1, ones);
    const double equals = reached(order, true) - (order == 0xffffffffu ? 0.0 : reached(order + 1, true));
    const double one = equals > 0 ? (reached(order, ones) - above) / equals : 1.0;
    double count = exceed ? floor((wanted - above) / one) + 1 : ceil((wanted - above) / one);
    count = fmin(fmax(count, 1.0), equals);
    return {order, u32(count)};
  }

  // Weight of a cut's tokens.
  GPU_FN double weight_of(Cut c) const {
    const double above = c.order == 0xffffffffu ? 0.0 : reached(c.order + 1, false);
    return above + weight(logit_of(c.order)) * c.equals;
  }

  // The first token, by number, at which the sum of `value` exceeds `target`; all ones if none does. For every thread.
  template <class Value>
  GPU_FN u32 locate(double target, Value value) const {
    const u32 each = (width + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    const u32 end = first + each < width ? first + each : width;
    double sum = 0;
    for (u32 i = first; i < end; i++) sum += value(i);
    __syncthreads();
    partial[threadIdx.x] = sum;
    if (threadIdx.x == 0) *found = 0xffffffffu;
    __syncthreads();
    double before = 0;
    for (u32 t = 0; t < threadIdx.x; t++) before += partial[t];
    if (before <= target && before + sum > target) {
      // Rounding may let two neighbours claim it; the lower one wins below.
      u32 i = first;
      for (double running = before + value(first); running <= target && i + 1 < end;) running += value(++i);
      partial[threadIdx.x] = -1.0 - double(i);
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (u32 t = 0; t < blockDim.x && *found == 0xffffffffu; t++)
        if (partial[t] < 0) *found = u32(-1.0 - partial[t]);
    __syncthreads();
    return *found;
  }

  // The token at the end of a cut.
  GPU_FN u32 last_of(Cut c) const {
    return locate(double(c.equals) - 1, [&](u32 i) {
      return logits[i] != -kInfinity && order_of(logits[i]) == c.order ? 1.0 : 0.0;
    });
  }
};

GPU_FN u32 draw(const Row& candidates, const SampleRow& w) {
  const double all = candidates.reached(0, true);
  double kept = candidates.reached(0, false);
  bool ranked = false;
  if (w.top_k > 0 && double(w.top_k) < all) {
    kept = candidates.weight_of(candidates.cut(double(w.top_k), true, false));
    ranked = true;
  }
  if (w.top_p < 1) {
    kept = fmin(kept, candidates.weight_of(candidates.cut(double(w.top_p) * kept, false, false)));
    ranked = true;
  }
  // The likeliest token weighs exactly 1.
  auto heavy = [&](u32 i) {
    const double weight = candidates.weight(candidates.logits[i]);
    return weight >= double(w.min_p) ? weight : 0.0;
  };
  if (w.min_p > 0) {
    double sum = 0;
    for (u32 i = threadIdx.x; i < candidates.width; i += blockDim.x) sum += heavy(i);
    kept = fmin(kept, block_sum(sum, candidates.partial));
  }
  const double at = uniform(w.seed_low, w.seed_high, w.position) * kept;
  return ranked ? candidates.last_of(candidates.cut(at, false, true)) : candidates.locate(at, heavy);
}

// Draws a token for each row. Top-k cuts the candidates, then top-p what is left, then min-p. The draw goes through them from the
// best-ranked on where something was cut by rank, else by number. Rows without a candidate give token 0xffffffff.
GPU_KERNEL(1024, sample)
(u32* __restrict__ out, const float* __restrict__ logits, u32 stride, u32 width, const SampleRow* __restrict__ wanted,
 const u32* __restrict__ rows) {
  SHARED_ARRAY(float, tops, 32);
  SHARED_ARRAY(double, partial, kSampleThreads);
  SHARED_ARRAY(u32, found, 1);
  const u32 row = blockIdx.x;
  if (row >= *rows) return;
  const SampleRow& w = wanted[row];
  const float* x = logits + size_t(row) * stride;
  float most = -kInfinity;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, x[i]);
  most = block_max(most, tops);
  const Row candidates{x, width, most, w.temperature == 0 ? 1.0f : w.temperature, partial, found};
  u32 token = 0xffffffffu;
  if (most != -kInfinity) {
    const Cut best{order_of(most), 1};
    token = w.temperature == 0 ? candidates.last_of(best) : draw(candidates, w);
    if (token == 0xffffffffu) token = candidates.last_of(best);  // rounding left nothing
  }
  if (threadIdx.x == 0) out[row] = token;
}
GPU_EXPORT(sample)
