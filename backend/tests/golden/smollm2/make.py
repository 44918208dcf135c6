#!/usr/bin/env python3
"""Writes greedy.json: what llama.cpp says of SmolLM2-135M-Instruct.

    pip install numpy gguf xllamacpp
    python make.py SmolLM2-135M-Instruct.Q4_1.gguf OUT_DIR

llama.cpp (inside xllamacpp, a Python binding with prebuilt wheels) gets an F16 GGUF whose weights are the BF16 rounding of the
source's, which F16 holds exactly: the same numbers as a BF16 import. It runs on one CPU thread without flash attention.
"""
import json
import os
import sys
import tempfile
import urllib.request

import numpy as np
import xllamacpp
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize

STEPS = 24
CHAT = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" \
       "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = {
    "capital": CHAT.format("What is the capital of France?"),
    "story": CHAT.format("Tell me a short story about a lighthouse keeper."),
    "list": CHAT.format("Name three primary colours."),
    "water": CHAT.format("Why is the sky blue? Answer in two sentences."),
    "plain": "The quick brown fox",
    "code": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "unicode": "La météo à Zürich est très agréable en été, et",
    "long": "Rivers carry water from the mountains to the sea. " * 24 + "Rivers",
}
STRINGS = ["Hello, world!", "  two  spaces ", "\ttab\nnewline\r\n\r\n", "12345 3.14159 1,000,000", "naïve café Ünïcödé",
           "日本語のテキスト", "עברית ואנגלית", "😀👩‍👩‍👧‍👦🇩🇪", "a\u00a0b\u2003c", "don't we'll I'm they've",
           "<|im_start|>user\nhi<|im_end|>", "<|im_start", "x<|endoftext|>y", "fn main() { println!(\"{}\", 1 << 3); }",
           "`code` **bold** [link](http://a.b/c?d=e&f=g#h)", "\u0000\u0001\u007f", "ﬁ ligature Ⅷ ½", "क्षत्रिय", "한국어 띄어쓰기", ""]


def f16_gguf(source, path):
    reader, writer = GGUFReader(source), GGUFWriter(path, "llama")
    for f in reader.fields.values():
        if not f.name.startswith("GGUF.") and f.name not in ("general.architecture", "general.file_type", "general.quantization_version"):
            writer.add_key_value(f.name, f.contents(), f.types[0], f.types[1] if len(f.types) > 1 else None)
    writer.add_file_type(1)
    for t in reader.tensors:
        bits = dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(d) for d in t.shape][::-1]).view(np.uint32)
        bf16 = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
        half = bf16.astype(np.float16)
        if bf16.ndim == 2:
            assert (half.astype(np.float32) == bf16).all(), f"{t.name}: F16 does not hold the BF16 weights"
        writer.add_tensor(t.name, half if bf16.ndim == 2 else bf16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    source, out = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "f16.gguf")
        f16_gguf(source, path)
        params = xllamacpp.CommonParams()
        params.model.path = path
        params.n_ctx = 2048
        params.n_parallel = 1
        params.cpuparams.n_threads = 1
        params.warmup = False
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.port = 18099
        server = xllamacpp.Server(params)

        def post(route, body):
            request = urllib.request.Request(server.listening_address + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
            return json.load(urllib.request.urlopen(request))

        def tokens(text):
            return post("/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"]

        prompts = []
        for name, text in PROMPTS.items():
            ids = tokens(text)
            reply = post("/completion", {"prompt": ids, "n_predict": STEPS, "temperature": 0, "top_k": 1, "n_probs": 2, "ignore_eos": True,
                                         "cache_prompt": False, "return_tokens": True, "repeat_penalty": 1.0, "samplers": ["top_k"]})
            steps = reply["completion_probabilities"]
            gaps = [round(s["top_logprobs"][0]["logprob"] - s["top_logprobs"][1]["logprob"], 4) for s in steps]
            prompts.append({"name": name, "ids": ids, "greedy": reply["tokens"], "gap": gaps})
            print(name, len(ids), min(gaps), repr(reply["content"]))
        strings = [{"text": s, "ids": tokens(s)} for s in STRINGS]
        golden = {"made_with": f"xllamacpp {xllamacpp.__version__}", "prompts": prompts, "strings": strings}
        with open(os.path.join(out, "greedy.json"), "w", encoding="utf-8") as f:
            f.write(json.dumps(golden, ensure_ascii=True).replace('{"name"', '\n{"name"').replace('{"text"', '\n{"text"') + "\n")
    os._exit(0)


main()
