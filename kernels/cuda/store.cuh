// Rows of a pool in their number formats, and the roundings of DeepSeek's reference; `kernels/src/rows.rs` says what each means.
// All functions work on a row in memory that all their threads see; `Crew` says which of them the calling thread is.
#pragma once
#include "gpu.cuh"

constexpr u32 kFp8Group = 64, kFp4Group = 32;

// The threads that share a row: one warp or several.
struct Crew {
  u32 worker, workers;

  GPU_FN u32 warp() const { return worker / 32; }
  GPU_FN u32 warps() const { return workers / 32; }
};

// A number format; `tail` numbers at the end of an FP8 row stay bf16.
struct Store {
  enum Kind : u32 { kF32, kBf16, kFp8, kFp8Row, kFp4 };
  u32 kind, tail;

  GPU_FN u32 row_bytes(u32 width) const {
    switch (kind) {
      case kF32: return 4 * width;
      case kBf16: return 2 * width;
      case kFp8: return (width + tail + (width - tail + kFp8Group - 1) / kFp8Group + 7) / 8 * 8;
      case kFp8Row: return width + 4;
      default: return (width + 1) / 2 + (width + kFp4Group - 1) / kFp4Group;
    }
  }

  // Number i of a stored row of `width`.
  GPU_FN float read(const u8* row, u32 width, u32 i) const {
    switch (kind) {
      case kF32: return load<float>(row + 4 * i);
      case kBf16: return bf16_to_f32(load<u16>(row + 2 * i));
      case kFp8: {
        const u32 scaled = width - tail;
        if (i >= scaled) return bf16_to_f32(load<u16>(row + scaled + 2 * (i - scaled)));
        return times(e4m3_to_f32(row[i]), e8m0_to_f32(row[scaled + 2 * tail + i / kFp8Group]));
      }
      case kFp8Row: return times(e4m3_to_f32(row[i]), load<float>(row + width));
      default:
        return times(e2m1_to_f32(row[i / 2] >> (i % 2 * 4) & 15), e8m0_to_f32(row[(width + 1) / 2 + i / kFp4Group]));
    }
  }
};

// Largest magnitude of some numbers, for all lanes of a warp, and at least `floor`.
GPU_FN float amax_of(const float* x, u32 count, float floor) {
  float most = 0;
  for (u32 i = lane_id(); i < count; i += 32) most = fmaxf(most, fabsf(x[i]));
  return fmaxf(warp_max(most), floor);
}

// The smallest power of two, as E8M0, that brings `amax` to at most 448 = 1.75 * 2^8, or 6 = 1.5 * 2^2.
GPU_FN u32 fp8_scale(float amax) {
  const u32 bits = bits_of(amax);
  return (bits >> 23) - 8 + u32((bits & 0x7fffff) > 0x600000);
}
GPU_FN u32 fp4_scale(float amax) {
  const u32 bits = bits_of(amax);
  return (bits >> 23) - 2 + u32((bits & 0x7fffff) > 0x400000);
}
constexpr float kFp8Floor = 1e-4f, kFp4Floor = 6 * 0x1p-126f;

// One warp a group: its scale as the format stores it.
GPU_FN u32 fp8_group(const float* x, u32 count) { return fp8_scale(amax_of(x, count, kFp8Floor)); }
GPU_FN u32 fp4_group(const float* x, u32 count) { return fp4_scale(amax_of(x, count, kFp4Floor)); }
GPU_FN float fp8_row_factor(const float* x, u32 width) { return divide(amax_of(x, width, kFp8Floor), 448.0f); }

// Stores a row. Nobody may change `x` meanwhile.
GPU_FN void write_row(const float* x, u8* row, u32 width, Store store, Crew crew) {
  const u32 lane = lane_id();
  if (store.kind == Store::kF32) {
    for (u32 i = crew.worker; i < width; i += crew.workers) ::store<float>(row + 4 * i, x[i]);
  } else if (store.kind == Store::kBf16) {
    for (u32 i = crew.worker; i < width; i += crew.workers) ::store<u16>(row + 2 * i, to_bf16(x[i]));
  } else if (store.kind == Store::kFp8) {
    const u32 scaled = width - store.tail, scales = scaled + 2 * store.tail, groups = (scaled + kFp8Group - 1) / kFp8Group;
    for (u32 i = crew.worker; i < store.tail; i += crew.workers) ::store<u16>(row + scaled + 2 * i, to_bf16(x[scaled + i]));
    for (u32 i = scales + groups + crew.worker; i < store.row_bytes(width); i += crew.workers) row[i] = 0;
    for (u32 g = crew.warp(); g < groups; g += crew.warps()) {
      const u32 first = g * kFp8Group, count = min_of(kFp8Group, scaled - first), code = fp8_group(x + first, count);
      if (lane == 0) row[scales + g] = u8(code);
      for (u32 i = lane; i < count; i += 32) row[first + i] = u8(f32_to_e4m3(divide(x[first + i], e8m0_to_f32(code))));
    }
  } else if (store.kind == Store::kFp8Row) {
    if (crew.warp() != 0) return;
    const float factor = fp8_row_factor(x, width);
    if (lane == 0) ::store<float>(row + width, factor);
    for (u32 i = lane; i < width; i += 32) row[i] = u8(f32_to_e4m3(divide(x[i], factor)));
  } else {
    for (u32 g = crew.warp(); g < (width + kFp4Group - 1) / kFp4Group; g += crew.warps()) {
      const u32 first = g * kFp4Group, count = min_of(kFp4Group, width - first), code = fp4_group(x + first, count);
      if (lane == 0) row[(width + 1) / 2 + g] = u8(code);
      for (u32 i = 2 * lane; i < count; i += 64) {
        const float scale = e8m0_to_f32(code);
        const u32 low = f32_to_e2m1(divide(x[first + i], scale));
        const u32 high = i + 1 < count ? f32_to_e2m1(divide(x[first + i + 1], scale)) : 0;
        row[(first + i) / 2] = u8(low | high << 4);
      }
    }
  }
}

// Each 64 of the first `count` numbers to E4M3 with a power-of-two scale. One warp a group, which reads it before it changes it.
GPU_FN void round_fp8(float* x, u32 count, Crew crew) {
  for (u32 first = crew.warp() * kFp8Group; first < count; first += crew.warps() * kFp8Group) {
    const u32 many = min_of(kFp8Group, count - first);
    const float scale = e8m0_to_f32(fp8_group(x + first, many));
    for (u32 i = first + lane_id(); i < first + many; i += 32)
      x[i] = times(e4m3_to_f32(f32_to_e4m3(divide(x[i], scale))), scale);
  }
}
GPU_FN void round_fp4(float* x, u32 count, Crew crew) {
  for (u32 first = crew.warp() * kFp4Group; first < count; first += crew.warps() * kFp4Group) {
    const u32 many = min_of(kFp4Group, count - first);
    const float scale = e8m0_to_f32(fp4_group(x + first, many));
    for (u32 i = first + lane_id(); i < first + many; i += 32)
      x[i] = times(e2m1_to_f32(f32_to_e2m1(divide(x[i], scale))), scale);
  }
}

// Makes of a row what storing it would make of it.
GPU_FN void round_stored(float* x, u32 width, Store store, Crew crew) {
  if (store.kind == Store::kFp8) {
    round_fp8(x, width - store.tail, crew);
    for (u32 i = width - store.tail + crew.worker; i < width; i += crew.workers) x[i] = bf16_to_f32(to_bf16(x[i]));
  } else if (store.kind == Store::kBf16) {
    for (u32 i = crew.worker; i < width; i += crew.workers) x[i] = bf16_to_f32(to_bf16(x[i]));
  } else if (store.kind == Store::kFp4) {
    round_fp4(x, width, crew);
  } else if (store.kind == Store::kFp8Row && crew.warp() == 0) {
    const float factor = fp8_row_factor(x, width);
    for (u32 i = lane_id(); i < width; i += 32) x[i] = times(e4m3_to_f32(f32_to_e4m3(divide(x[i], factor))), factor);
  }
}

// What the reference does to a finished row: nothing, FP8 for all but `tail` numbers, the Hadamard transform, that and FP4.
struct Rounding {
  enum Kind : u32 { kExact, kFp8, kHadamard, kHadamardFp4 };
  u32 kind, tail;

  // `sync` waits for the crew. The row is as every thread left it, and complete when the crew has waited once more.
  template <class Sync>
  GPU_FN void apply(float* x, u32 width, Crew crew, Sync sync) const {
    if (kind == kFp8) round_fp8(x, width - tail, crew);
    if (kind < kHadamard) return;
    for (u32 half = 1; half < width; half *= 2) {
      for (u32 i = crew.worker; i < width / 2; i += crew.workers) {
        const u32 at = i / half * 2 * half + i % half;
        const float a = x[at], b = x[at + half];
        x[at] = a + b;
        x[at + half] = a - b;
      }
      sync();
    }
    const float factor = divide(1.0f, square_root(float(width)));
    for (u32 i = crew.worker; i < width; i += crew.workers) x[i] = times(x[i], factor);
    if (kind != kHadamardFp4) return;
    sync();
    round_fp4(x, width, crew);
  }
};
