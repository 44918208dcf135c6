// What linears read: bf16 rows for tensor cores, f32 rows for those that need them, either or both.
#pragma once
#include "gpu.cuh"

// The bf16 form has its width padded with zeros, which are written once and kept.
struct OperandRow {
  u16* halves;
  float* floats;
};

GPU_FN OperandRow operand_row(u16* halves, u32 half_stride, float* floats, u32 float_stride, u32 row) {
  return {halves ? halves + size_t(row) * half_stride : nullptr, floats ? floats + size_t(row) * float_stride : nullptr};
}

GPU_FN void put(const OperandRow& row, u32 column, float value) {
  if (row.halves) row.halves[column] = to_bf16(value);
  if (row.floats) row.floats[column] = value;
}
