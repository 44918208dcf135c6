// Weight matrices as the tensor-core kernels read them.
//
// A warp multiplies 16-row tiles of activations with 32 columns (rows of the matrix), 64 of k at a time. In a step of 64,
// lane 4g+q owns k 16q..16q+15 of column g of each of four column groups. Which k meets which in an instruction is free as long as
// both sides agree, so a lane's numbers are neighbours in memory: activations and plain weights need no shuffling,
// and the 16 numbers of a lane are exactly one NVFP4 block. Instruction s of four takes k 16q+4s, +1 (first register)
// and 16q+4s+2, +3 (second register).
#pragma once
#include "gpu.cuh"

constexpr u32 kStepK = 64, kTileColumns = 32, kColumnGroups = 4;

// b[s] of one column group: the registers of the four instructions of a step.
struct WeightStep {
  u32 b[4][2];
};

// NVFP4, repacked. Tile (column tile, step) has 1024 bytes of codes: half c (groups 2c, 2c+1), lane, 16 bytes; and 128 bytes of
// scales: lane, group. Each lane word of eight nibbles is ordered for `unpack`.
struct Nvfp4Weights {
  const u8* codes;
  const u8* scales;
  GPU_FN static Nvfp4Weights of(const u8* codes, const u8* scales) { return {codes, scales}; }

  struct Raw {
    Words4 codes[2];
    u32 scales;
  };
  GPU_FN Raw fetch(u32 tile, u32 step, u32 steps) const {
    const size_t at = size_t(tile) * steps + step;
    const u8* from = codes + at * 1024 + lane_id() * 16;
    return {{load<Words4>(from), load<Words4>(from + 512)}, load<u32>(scales + at * 128 + lane_id() * 4)};
  }

  // Scale times 2^118 in both halves; see `unpack`. The factor 2^120 makes the bits an E4M3 number's value.
  GPU_FN static u32 scale_pair(u32 code) {
#ifdef __CUDACC__
    const u32 bits = __float_as_uint(__uint_as_float(code << 20) * 0x1p120f * 0x1p118f);
    return __byte_perm(bits, bits, 0x3232);
#else
    const u32 bits = bits_of(e4m3_to_f32(code) * 0x1p118f);
    return bits >> 16 | (bits & 0xffff0000u);
#endif
  }

  // Numbers 3 - i (low half) and 7 - i of a word of eight codes, times scale and 2^-8, exactly: at most 6 significant bits. As
  // bf16 the bits of a code mean its number times 2^-126.
  template <int i>
  GPU_FN static u32 unpack(u32 word, u32 scale) {
#ifdef __CUDACC__
    const u32 moved = word << (4 * i);
    return mul_bf16x2((moved & 0x80008000u) | (moved & 0x70007000u) >> 6, scale);
#else
    const float factor = high_bf16(scale) * 0x1p-126f;
    return pack_bf16(e2m1_to_f32(word >> 4 * (3 - i) & 15) * factor, e2m1_to_f32(word >> 4 * (7 - i) & 15) * factor);
#endif
  }

  GPU_FN static WeightStep expand(const Raw& raw, int group) {
    const u32 scale = scale_pair(raw.scales >> 8 * group & 0x7f);
    WeightStep out;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const u32 word = raw.codes[group / 2].w[group % 2 * 2 + half];
      out.b[2 * half][0] = unpack<0>(word, scale);
      out.b[2 * half][1] = unpack<1>(word, scale);
      out.b[2 * half + 1][0] = unpack<2>(word, scale);
      out.b[2 * half + 1][1] = unpack<3>(word, scale);
    }
    return out;
  }
};

// bf16, row-major with padded rows.
struct Bf16Weights {
  const u16* values;
  GPU_FN static Bf16Weights of(const u8* codes, const u8*) { return {reinterpret_cast<const u16*>(codes)}; }

  struct Raw {
    Words4 words[kColumnGroups][2];
  };
  GPU_FN Raw fetch(u32 tile, u32 step, u32 steps) const {
    Raw raw;
#pragma unroll
    for (u32 group = 0; group < kColumnGroups; group++) {
      const size_t column = tile * kTileColumns + group * 8 + lane_id() / 4;
      const u16* from = values + (column * steps + step) * kStepK + lane_id() % 4 * 16;
      raw.words[group][0] = load<Words4>(from);
      raw.words[group][1] = load<Words4>(from + 8);
    }
    return raw;
  }
  GPU_FN static WeightStep expand(const Raw& raw, int group) {
    WeightStep out;
#pragma unroll
    for (int s = 0; s < 4; s++) {
      out.b[s][0] = raw.words[group][s / 2].w[s % 2 * 2];
      out.b[s][1] = raw.words[group][s / 2].w[s % 2 * 2 + 1];
    }
    return out;
  }
};

// E4M3 row-major with padded rows. A step has for each column group one power of two (E8M0): a word for a tile and 128 of k.
struct Fp8Weights {
  const u8* codes;
  const u8* scales;
  GPU_FN static Fp8Weights of(const u8* codes, const u8* scales) { return {codes, scales}; }

  struct Raw {
    Words4 words[kColumnGroups];
    u32 scales;
  };
  GPU_FN Raw fetch(u32 tile, u32 step, u32 steps) const {
    Raw raw;
#pragma unroll
    for (u32 group = 0; group < kColumnGroups; group++) {
      const size_t column = tile * kTileColumns + group * 8 + lane_id() / 4;
      raw.words[group] = load<Words4>(codes + (column * steps + step) * kStepK + lane_id() % 4 * 16);
    }
    raw.scales = load<u32>(scales + (size_t(tile) * ((steps + 1) / 2) + step / 2) * 4);
    return raw;
  }
  // Two codes in bytes 0 and 1: as bf16 their bits mean the number times 2^-120.
  GPU_FN static u32 widen(u32 codes, u32 scale) {
#ifdef __CUDACC__
    const u32 apart = __byte_perm(codes, 0, 0x1404);  // bytes 0 and 1 on top of each half
    const u32 bits = (apart & 0x80008000u) | (apart & 0x7f007f00u) >> 4;
    return mul_bf16x2(mul_bf16x2(bits, 0x7b807b80u), scale);  // 2^120, then the block's scale
#else
    const float s = high_bf16(scale);
    return pack_bf16(e4m3_to_f32(codes & 255) * s, e4m3_to_f32(codes >> 8 & 255) * s);
#endif
  }
  GPU_FN static WeightStep expand(const Raw& raw, int group) {
    const float factor = e8m0_to_f32(raw.scales >> 8 * group & 255);
    const u32 scale = pack_bf16(factor, factor);
    WeightStep out;
#pragma unroll
    for (int s = 0; s < 4; s++) {
      out.b[s][0] = widen(raw.words[group].w[s], scale);
      out.b[s][1] = widen(raw.words[group].w[s] >> 16, scale);
    }
    return out;
  }
};
