// Where keys and values of a token are in a pool of bf16: a block has all its keys, then all its values, each
// [head][token][dim], so that a tile of one head's tokens is contiguous.
#pragma once
#include "gpu/base.cuh"

struct KvLayout {
  u32 tokens, heads, dim;

  GPU_FN size_t key(u32 block, u32 head, u32 slot) const {
    return ((size_t(block) * 2 * heads + head) * tokens + slot) * dim;
  }
  GPU_FN size_t value(u32 block, u32 head, u32 slot) const {
    return ((size_t(block) * 2 * heads + heads + head) * tokens + slot) * dim;
  }
};
