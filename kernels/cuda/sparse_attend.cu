// Compressed sparse attention: the indexer, and attention over a window of rows and some compressed ones. f32 arithmetic on plain
// cores: correct and batch-invariant; a tensor-core version is a matter of speed.
#include "sparse.cuh"

constexpr u32 kNone = 0xffffffffu;

// q . row over a warp, for all lanes: lanes stride through the numbers, then one tree.
template <class Row>
GPU_FN float warp_dot(const float* q, const Row& row, u32 width) {
  float sum = 0;
  for (u32 i = lane_id(); i < width; i += 32) sum = fused(q[i], row(i), sum);
  return warp_sum(sum);
}

// scores[row][i] = sum over heads, ascending, of weight * factor * max(0, q . key i), for the keys that the row sees: the first
// (position + 1) / ratio. Block (row, y): warps take keys in turn.
GPU_KERNEL(128, index_scores)
(float* __restrict__ out, u32 room, const float* __restrict__ q, u32 q_stride, const float* __restrict__ weights,
 u32 weight_stride, u32 heads, u32 width, float factor, const u8* __restrict__ pool, u32 kind, u32 tail, u32 ratio, u32 block_tokens,
 const u32* __restrict__ positions, const u32* __restrict__ tables, const u32* __restrict__ block_tables,
 const u32* __restrict__ rows) {
  const u32 row = blockIdx.x, warps = blockDim.x / 32;
  if (row >= *rows) return;
  const u32 visible = (positions[row] + 1) / ratio;
  const PoolRows layout{pool, Store{kind, tail}, width, block_tokens / ratio};
  for (u32 i = blockIdx.y * warps + threadIdx.x / 32; i < visible; i += gridDim.y * warps) {
    const u8* stored = pool + layout.at(block_tables + tables[row], i);
    auto key = [&](u32 d) { return layout.store.read(stored, width, d); };
    float sum = 0;
    for (u32 h = 0; h < heads; h++) {
      const float dot = warp_dot(q + size_t(row) * q_stride + size_t(h) * width, key, width);
      sum += times(times(weights[size_t(row) * weight_stride + h], factor), fmaxf(dot, 0.0f));
    }
    if (lane_id() == 0) out[size_t(row) * room + i] = sum;
  }
}
GPU_EXPORT(index_scores)

// Bits whose order as unsigned numbers is the order of floats.
GPU_FN u32 order_of(float value) {
  const u32 bits = bits_of(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The `k` largest scores of a row, the lower index of equals, ascending by index; kNone behind them. One block a row: finds the k-th
// largest bit by bit, then writes what is above it and as many of its equals as fit.
GPU_KERNEL(256, select_top)
(u32* __restrict__ ids, u32 k, const float* __restrict__ scores, u32 room, u32 ratio, const u32* __restrict__ positions,
 const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  SHARED_ARRAY(u32, counts, 64);
  const u32 row = blockIdx.x, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (row >= *rows) return;
  const u32 visible = (positions[row] + 1) / ratio;
  u32* out = ids + size_t(row) * k;
  if (visible <= k) {
    for (u32 i = threadIdx.x; i < k; i += blockDim.x) out[i] = i < visible ? i : kNone;
    return;
  }
  const float* from = scores + size_t(row) * room;
  u32 limit = 0;  // the largest number that at least k scores reach
  for (u32 bit = 0x80000000u; bit; bit >>= 1) {
    float reached = 0;  // counts stay below 2^24, so floats are exact
    for (u32 i = threadIdx.x; i < visible; i += blockDim.x) reached += order_of(from[i]) >= (limit | bit) ? 1.0f : 0.0f;
    if (block_sum(reached, partial) >= float(k)) limit |= bit;
  }
  float above = 0;
  for (u32 i = threadIdx.x; i < visible; i += blockDim.x) above += order_of(from[i]) > limit ? 1.0f : 0.0f;
  const u32 equals = k - u32(block_sum(above, partial));
  u32 written = 0, equals_seen = 0;
  for (u32 first = 0; first < visible; first += blockDim.x) {
    const u32 i = first + threadIdx.x, order = i < visible ? order_of(from[i]) : 0;
    const u32 equal_votes = votes_of(i < visible && order == limit), before = (1u << lane_id()) - 1;
    if (lane_id() == 0) counts[32 + warp] = count_bits(equal_votes);
    __syncthreads();
    u32 rank = equals_seen + count_bits(equal_votes & before);
    for (u32 w = 0; w < warps; w++) {
      if (w < warp) rank += counts[32 + w];
      equals_seen += counts[32 + w];
    }
    const bool taken = i < visible && (order > limit || (order == limit && rank < equals));
    const u32 votes = votes_of(taken);
    if (lane_id() == 0) counts[warp] = count_bits(votes);
    __syncthreads();
    u32 place = written + count_bits(votes & before);
    for (u32 w = 0; w < warps; w++) {
      if (w < warp) place += counts[w];
      written += counts[w];
    }
    if (taken) out[place] = i;
    __syncthreads();  // the counts are free again
  }
}
GPU_EXPORT(select_top)

// What a token sees: rows of its window from this step or from the ring of an earlier block, then compressed rows (those picked, or
// all visible), each ascending.
struct Seen {
  const float* step;  // the token's own row; `stride` back is the one before
  u32 stride, position, start, first, near, block_tokens;
  PoolRows ring, far;
  const u32 *table, *picks;

  GPU_FN float number(u32 entry, u32 d) const {
    if (entry >= near) {
      const u32 i = picks ? picks[entry - near] : entry - near;
      return far.store.read(far.pool + far.at(table, i), far.width, d);
    }
    const u32 p = first + entry;
    if (p >= start) return step[d - ptrdiff_t(position - p) * stride];
    return ring.store.read(ring.pool + ring.in_ring(table, p, block_tokens), ring.width, d);
  }
};

// One head of one row, a block each. A sink takes part in the softmax without a value; the result's end is rotated back. Shared
// memory has room for a weight of every entry, then the result.
GPU_KERNEL(128, sparse_attention)
(float* __restrict__ out, u32 out_stride, const float* __restrict__ q, u32 q_stride, u32 dim, float scale, u32 window,
 const float* __restrict__ step, u32 step_stride, const u8* __restrict__ pool, u32 kind, u32 tail, u32 ring,
 const u8* __restrict__ compressed, u32 far_kind, u32 far_tail, u32 ratio, const u32* __restrict__ picks, u32 k,
 const float* __restrict__ sinks, const float* __restrict__ cosines, const float* __restrict__ sines, u32 frequencies,
 u32 block_tokens, u32 room, const u32* __restrict__ positions, const u32* __restrict__ starts,
 const u32* __restrict__ tables, const u32* __restrict__ block_tables, const u32* __restrict__ rows) {
  SHARED_ARRAY(float, partial, 32);
  DYNAMIC_SHARED(smem);
  const u32 row = blockIdx.x, head = blockIdx.y;
  if (row >= *rows) return;
  float* weights = reinterpret_cast<float*>(smem);
  float* result = weights + room;
  const u32 position = positions[row], first = position + 1 > window ? position + 1 - window : 0;
  const u32 near = position + 1 - first, visible = compressed ? (position + 1) / ratio : 0;
  const u32* mine = picks ? picks + size_t(row) * k : nullptr;
  u32 far = visible;
  if (compressed && picks) {
    far = 0;
    while (far < k && mine[far] != kNone) far++;
  }
  const PoolRows ring_rows{pool, Store{kind, tail}, dim, ring};
  const PoolRows far_rows{compressed, Store{far_kind, far_tail}, dim, compressed ? block_tokens / ratio : 1};
  const Seen seen{step + size_t(row) * step_stride, step_stride, position, starts[row], first, near, block_tokens, ring_rows,
                  far_rows, block_tables + tables[row], mine};
  const float* query = q + size_t(row) * q_stride + size_t(head) * dim;
  float most = sinks[head];
  for (u32 i = threadIdx.x / 32; i < near + far; i += blockDim.x / 32) {
    const float score = times(warp_dot(query, [&](u32 d) { return seen.number(i, d); }, dim), scale);
    if (lane_id() == 0) weights[i] = score;
    most = fmaxf(most, score);
  }
  most = block_max(most, partial);
  float total = 0;
  for (u32 i = threadIdx.x; i < near + far; i += blockDim.x) {
    weights[i] = exponential(weights[i] - most);
    total += weights[i];
  }
  total = block_sum(total, partial) + exponential(sinks[head] - most);
  __syncthreads();
  for (u32 d = threadIdx.x; d < dim; d += blockDim.x) {
    float sum = 0;
    for (u32 i = 0; i < near + far; i++) sum = fused(weights[i], seen.number(i, d), sum);
    result[d] = divide(sum, total);
  }
  __syncthreads();
  rotate_tail(result, dim, cosines + size_t(row) * frequencies, sines + size_t(row) * frequencies, frequencies, -1.0f,
              Crew{threadIdx.x, blockDim.x});
  __syncthreads();
  float* to = out + size_t(row) * out_stride + size_t(head) * dim;
  for (u32 d = threadIdx.x; d < dim; d += blockDim.x) to[d] = result[d];
}
GPU_EXPORT(sparse_attention)
