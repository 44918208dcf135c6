"""llama.cpp's half of `cargo xtask bench`: the same requests, the same lines of JSON. Arguments: file.gguf, threads,
and a number of sequences or `prefill`."""

import json
import os
import resource
import sys
import threading
import time
import urllib.request

import xllamacpp

TOKENS, PROMPT, PREFILL = 48, 8, 512


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def post(address, i, prompt, tokens):
    body = {
        "prompt": [(i * 31 + t * 7) % 40000 + 20 for t in range(prompt)],
        "n_predict": tokens, "temperature": 0, "top_k": 1, "samplers": ["top_k"],
        "ignore_eos": True, "cache_prompt": False,
    }
    request = urllib.request.Request(address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()


def report(what, batch, tokens, began, used):
    wall, used = time.time() - began, cpu() - used
    line = {"what": what, "batch": batch, "per_second": round(tokens / wall, 1), "per_cpu_second": round(tokens / used, 1)}
    print(json.dumps(line), flush=True)


def server(gguf, threads, parallel, port):
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.n_ctx = max(1024, 128 * parallel)
    params.n_parallel = parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.port = port
    params.warmup = True
    return xllamacpp.Server(params)


def main():
    gguf, threads, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    batch = 1 if what == "prefill" else int(what)
    began = time.time()
    engine = server(gguf, threads, batch, 18100 + batch)  # ends when nobody holds it
    address = engine.listening_address
    print(json.dumps({"what": "load", "seconds": round(time.time() - began, 3)}), flush=True)
    post(address, 0, PROMPT, 4)
    began, used = time.time(), cpu()
    if what == "prefill":
        post(address, 7, PREFILL, 1)
        print(json.dumps({"what": "first token", "seconds": round(time.time() - began, 3)}), flush=True)
        report("prefill", 1, PREFILL, began, used)
    else:
        clients = [threading.Thread(target=post, args=(address, i, PROMPT, TOKENS)) for i in range(batch)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        report("decode", batch, batch * TOKENS, began, used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"what": "memory", "megabytes": round(peak)}), flush=True)
    os._exit(0)  # the server's threads do not end by themselves


main()
