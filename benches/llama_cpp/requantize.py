"""Writes a GGUF file again with its Q4_1 tensors in another type. Arguments: source, destination, Q4_0 or Q8_0."""

import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

source, destination, name = sys.argv[1:4]
wanted = GGMLQuantizationType[name]
reader, writer = GGUFReader(source), GGUFWriter(destination + ".part", "llama")
written_anyway = ("general.architecture", "general.file_type", "general.quantization_version")
for field in reader.fields.values():
    if not field.name.startswith("GGUF.") and field.name not in written_anyway:
        element = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], element)
writer.add_file_type({"Q4_0": 2, "Q8_0": 7}[name])
for tensor in reader.tensors:
    if tensor.tensor_type == GGMLQuantizationType.Q4_1:
        shape = [int(size) for size in tensor.shape][::-1]
        weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        writer.add_tensor(tensor.name, quantize(weights, wanted), raw_dtype=wanted)
    else:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

os.replace(destination + ".part", destination)
