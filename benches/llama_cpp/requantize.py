"""Writes a GGUF file again with its Q4_1 tensors in another type. Arguments: source, destination, Q4_0, Q8_0 or NVFP4."""

import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import NVFP4, dequantize, quantize

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)


def nvfp4(weights):
    """Blocks of 64 as llama.cpp keeps them, four scales in front of 32 bytes of codes, and the tensor's scale."""
    tensor = np.abs(weights).max() / np.float32(6 * 448)
    blocks = (weights / tensor).reshape(-1, 4, 16)
    scales = NVFP4.fp32_to_ue4m3(np.abs(blocks).max(axis=2) / 6)
    # The library's numbers are half of what E4M3 says, for codes that it doubles.
    units = blocks / np.maximum(2 * NVFP4.ue4m3_to_fp32(scales), 1e-12)[..., None]
    codes = np.abs(np.abs(units)[..., None] - E2M1).argmin(axis=3).astype(np.uint8) | (np.signbit(units) << 3).astype(np.uint8)
    packed = codes[..., :8] | codes[..., 8:] << 4
    rows = np.concatenate([scales, packed.reshape(-1, 32)], axis=1)
    return rows.reshape(weights.shape[0], -1), np.array([tensor], dtype=np.float32)


source, destination, name = sys.argv[1:4]
wanted = GGMLQuantizationType[name]
reader, writer = GGUFReader(source), GGUFWriter(destination + ".part", "llama")
written_anyway = ("general.architecture", "general.file_type", "general.quantization_version")
for field in reader.fields.values():
    if not field.name.startswith("GGUF.") and field.name not in written_anyway:
        element = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], element)
writer.add_file_type({"Q4_0": 2, "Q8_0": 7, "NVFP4": 39}[name])
for tensor in reader.tensors:
    if tensor.tensor_type == GGMLQuantizationType.Q4_1:
        shape = [int(size) for size in tensor.shape][::-1]
        weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if name == "NVFP4":
            packed, scale = nvfp4(weights)
            writer.add_tensor(tensor.name, packed, raw_dtype=wanted)
            writer.add_tensor(tensor.name.removesuffix(".weight") + ".scale", scale)
        else:
            writer.add_tensor(tensor.name, quantize(weights, wanted), raw_dtype=wanted)
    else:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

os.replace(destination + ".part", destination)
