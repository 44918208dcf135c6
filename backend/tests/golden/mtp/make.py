"""Writes `mtp.safetensors`, a random drafting layer for the golden DeepSeek-V4, and what float64 arithmetic makes of it.

An evaluation of its own: numpy in float64, whole sequences, no cache, DeepSeek's numbering (streams of position i with token i + 1).
It first evaluates the model alone and compares with the stored logits of the other oracle, then the drafting layer behind it.

    pip install numpy && python make.py        # from this folder; rewrites mtp.safetensors, drafts.json, drafts.safetensors
"""

import json
import struct
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
GOLDEN = HERE.parent
SETS = {"deepseek_v4": "deepseek_v4", "deepseek_v4_mixed": "deepseek_v4_nvfp4_mixed"}
CHAIN = 4  # drafts in a row


# ---------------------------------------------------------------------------------------------------- number formats


def e4m3_table():
    codes = np.arange(256)
    sign, exponent, mantissa = np.where(codes & 128, -1.0, 1.0), (codes >> 3) & 15, codes & 7
    value = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    return np.where((codes & 127) == 127, np.nan, sign * value)


E4M3 = e4m3_table()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def nearest(table, x):
    """Codes of the nearest entries; of two equally near ones the even code."""
    order = np.argsort(np.where(np.isnan(table), np.inf, table), kind="stable")
    order = order[np.isfinite(table[order])]
    values = table[order]
    above = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    pick_high = (x - low > high - x) | ((x - low == high - x) & (order[above] % 2 == 0))
    return order[np.where(pick_high, above, above - 1)].astype(np.uint8)


def read(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    body = raw[8 + size :]
    return {n: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for n, t in header.items()}


def write(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


def plain(tensor):
    dtype, shape, data = tensor
    if dtype == "BF16":
        values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype == "F8_E4M3":
        values = E4M3[np.frombuffer(data, np.uint8)]
    elif dtype == "F8_E8M0":
        values = 2.0 ** (np.frombuffer(data, np.uint8).astype(np.float64) - 127)
    else:
        values = np.frombuffer(data, {"F32": np.float32, "I64": np.int64, "U8": np.uint8, "I8": np.uint8}[dtype])
    return values.reshape(shape).astype(np.int64 if dtype == "I64" else np.float64)


class Weights:
    def __init__(self, *files):
        self.tensors = {name: t for file in files for name, t in read(file).items()}

    def __call__(self, name):
        return plain(self.tensors[name])

    def linear(self, name):
        """The matrix in any of the formats that stand in these files."""
        dtype, shape, data = self.tensors[name + ".weight"]
        if dtype == "BF16":
            return self(name + ".weight")
        if dtype == "F8_E4M3":
            scale = self(name + ".scale").repeat(128, 0).repeat(128, 1)
            return self(name + ".weight") * scale[: shape[0], : shape[1]]
        packed = np.frombuffer(data, np.uint8).reshape(shape)
        values = E2M1[np.stack([packed & 15, packed >> 4], -1).reshape(shape[0], -1)]
        if name + ".weight_scale_2" in self.tensors:
            return values * self(name + ".weight_scale").repeat(16, 1) * self(name + ".weight_scale_2")
        return values * self(name + ".scale").repeat(32, 1)


# ------------------------------------------------------------------------------------------------------------- model


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rms(x, gain=1.0, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


class Model:
    def __init__(self, config, weights):
        self.c, self.w = config, weights

    def frequencies(self, compressed):
        c, width = self.c, self.c["qk_rope_head_dim"]
        k = np.arange(width // 2)
        if not compressed:
            return c["rope_theta"] ** (-2.0 * k / width)
        base, s = c["compress_rope_theta"], c["rope_scaling"]
        plain = base ** (-2.0 * k / width)
        original = s["original_max_position_embeddings"]
        turn = lambda r: width * np.log(original / (r * 2 * np.pi)) / (2 * np.log(base))
        low = max(np.floor(turn(s["beta_fast"])), 0)
        high = min(np.ceil(turn(s["beta_slow"])), width - 1)
        ramp = np.clip((k - low) / max(high - low, 1e-3), 0, 1)
        return plain / s["factor"] * ramp + plain * (1 - ramp)

    def rotate(self, x, positions, compressed, back=False):
        """Turns the last numbers of rows `[rows, ..., width]` as complex neighbours."""
        angles = np.multiply.outer(positions, self.frequencies(compressed)) * (-1 if back else 1)
        angles = angles.reshape(len(x), *[1] * (x.ndim - 2), angles.shape[1])
        width = self.c["qk_rope_head_dim"]
        tail = x[..., -width:]
        z = (tail[..., ::2] + 1j * tail[..., 1::2]) * np.exp(1j * angles)
        turned = np.stack([z.real, z.imag], -1).reshape(tail.shape)
        return np.concatenate([x[..., :-width], turned], -1)

    def mix(self, streams, name):
        c = self.c
        n, eps = c["hc_mult"], c["hc_eps"]
        flat = streams.reshape(len(streams), -1)
        m = flat @ self.w(name + "_fn").T / np.sqrt((flat * flat).mean(-1, keepdims=True) + c["rms_norm_eps"])
        scale, base = self.w(name + "_scale"), self.w(name + "_base")
        pre = sigmoid(m[:, :n] * scale[0] + base[:n]) + eps
        post = 2 * sigmoid(m[:, n : 2 * n] * scale[1] + base[n : 2 * n])
        comb = (m[:, 2 * n :] * scale[2] + base[2 * n :]).reshape(-1, n, n)
        comb = np.exp(comb - comb.max(-1, keepdims=True))
        comb = comb / comb.sum(-1, keepdims=True) + eps
        comb /= comb.sum(1, keepdims=True) + eps
        for _ in range(c["hc_sinkhorn_iters"] - 1):
            comb /= comb.sum(2, keepdims=True) + eps
            comb /= comb.sum(1, keepdims=True) + eps
        return np.einsum("ti,tih->th", pre, streams), post, comb

    def unmix(self, out, streams, post, comb):
        return post[:, :, None] * out[:, None] + np.einsum("tab,tah->tbh", comb, streams)

    def compress(self, y, name, ratio, width):
        """Finished rows of a compressor."""
        w, wide = self.w, 2 * width if ratio == 4 else width
        values, scores = y @ w.linear(name + ".wkv").T, y @ w.linear(name + ".wgate").T
        scores = scores + w(name + ".ape")[np.arange(len(y)) % ratio]
        rows = []
        for b in range(len(y) // ratio):
            own = slice(b * ratio, (b + 1) * ratio)
            v, s = values[own, wide - width :], scores[own, wide - width :]
            if ratio == 4 and b > 0:
                before = slice((b - 1) * ratio, b * ratio)
                v, s = np.concatenate([values[before, :width], v]), np.concatenate([scores[before, :width], s])
            p = np.exp(s - s.max(0))
            rows.append((p / p.sum(0) * v).sum(0))
        rows = rms(np.array(rows).reshape(-1, width), w(name + ".norm.weight"), self.c["rms_norm_eps"])
        return self.rotate(rows, np.arange(len(rows)) * ratio, True)

    def picked(self, y, low, name, ratio):
        """Which compressed rows each token sees: `[tokens, rows]`."""
        c, w, t = self.c, self.w, np.arange(len(y))
        visible = np.arange(len(y) // ratio)[None] < ((t + 1) // ratio)[:, None]
        if ratio != 4:
            return visible
        heads, width = c["index_n_heads"], c["index_head_dim"]
        q = self.rotate((low @ w.linear(name + ".indexer.wq_b").T).reshape(-1, heads, width), t, True)
        keys = self.compress(y, name + ".indexer.compressor", ratio, width)
        factor = y @ w.linear(name + ".indexer.weights_proj").T * (width * heads) ** -0.5
        score = np.einsum("th,thr->tr", factor, np.maximum(np.einsum("thd,rd->thr", q, keys), 0))
        score = np.where(visible, score, -np.inf)
        best = np.argsort(-score, 1, kind="stable")[:, : c["index_topk"]]
        seen = np.zeros_like(visible)
        np.put_along_axis(seen, best, True, 1)
        return seen & visible

    def attention(self, y, name, ratio):
        c, w, t = self.c, self.w, np.arange(len(y))
        heads, dim, eps = c["num_attention_heads"], c["head_dim"], c["rms_norm_eps"]
        low = rms(y @ w.linear(name + ".wq_a").T, w(name + ".q_norm.weight"), eps)
        q = rms((low @ w.linear(name + ".wq_b").T).reshape(-1, heads, dim), eps=eps)
        q = self.rotate(q, t, ratio > 0)
        row = self.rotate(rms(y @ w.linear(name + ".wkv").T, w(name + ".kv_norm.weight"), eps), t, ratio > 0)
        distance = t[:, None] - t[None]
        seen = (distance >= 0) & (distance < c["sliding_window"])
        if ratio:
            row = np.concatenate([row, self.compress(y, name + ".compressor", ratio, dim)])
            seen = np.concatenate([seen, self.picked(y, low, name, ratio)], 1)
        score = np.einsum("thd,jd->thj", q, row) * dim**-0.5
        score = np.where(seen[:, None], score, -np.inf)
        sink = w(name + ".attn_sink")[None, :, None]
        top = np.maximum(score.max(-1, keepdims=True), sink)
        p = np.exp(score - top)
        o = np.einsum("thj,jd->thd", p / (p.sum(-1, keepdims=True) + np.exp(sink - top)), row)
        o = self.rotate(o, t, ratio > 0, back=True)
        groups, rank = c["o_groups"], c["o_lora_rank"]
        a = w.linear(name + ".wo_a").reshape(groups, rank, -1)
        o = np.einsum("tgx,grx->tgr", o.reshape(len(y), groups, -1), a)
        return o.reshape(len(y), -1) @ w.linear(name + ".wo_b").T

    def expert(self, y, name):
        w, limit = self.w, self.c["swiglu_limit"]
        gate = np.minimum(y @ w.linear(name + ".w1").T, limit)
        up = np.clip(y @ w.linear(name + ".w3").T, -limit, limit)
        return (gate * sigmoid(gate) * up) @ w.linear(name + ".w2").T

    def experts(self, y, name, tokens):
        c, w = self.c, self.w
        score = np.sqrt(np.logaddexp(0, y @ w.linear(name + ".gate").T))
        if name + ".gate.tid2eid" in w.tensors:
            chosen = w(name + ".gate.tid2eid")[tokens]
        else:
            chosen = np.argsort(-(score + w(name + ".gate.bias")), 1, kind="stable")[:, : c["num_experts_per_tok"]]
        weight = np.take_along_axis(score, chosen, 1)
        weight = weight / weight.sum(1, keepdims=True) * c["routed_scaling_factor"]
        out = self.expert(y, name + ".shared_experts")
        for e in range(c["n_routed_experts"]):
            hit = chosen == e
            rows = hit.any(1)
            if rows.any():
                out[rows] += (weight * hit).sum(1)[rows, None] * self.expert(y[rows], f"{name}.experts.{e}")
        return out

    def layer(self, streams, name, ratio, tokens):
        w, eps = self.w, self.c["rms_norm_eps"]
        y, post, comb = self.mix(streams, name + ".hc_attn")
        y = rms(y, w(name + ".attn_norm.weight"), eps)
        streams = self.unmix(self.attention(y, name + ".attn", ratio), streams, post, comb)
        y, post, comb = self.mix(streams, name + ".hc_ffn")
        y = rms(y, w(name + ".ffn_norm.weight"), eps)
        return self.unmix(self.experts(y, name + ".ffn", tokens), streams, post, comb)

    def head(self, streams, name, norm):
        flat = streams.reshape(len(streams), -1)
        m = flat @ self.w(name + "_fn").T / np.sqrt((flat * flat).mean(-1, keepdims=True) + self.c["rms_norm_eps"])
        weight = sigmoid(m * self.w(name + "_scale")[0] + self.w(name + "_base")) + self.c["hc_eps"]
        h = rms(np.einsum("ti,tih->th", weight, streams), self.w(norm), self.c["rms_norm_eps"])
        return h @ self.w("head.weight").T

    def streams(self, tokens):
        """Streams behind the last layer."""
        x = np.repeat(self.w("embed.weight")[tokens][:, None], self.c["hc_mult"], 1)
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(x, f"layers.{i}", self.c["compress_ratios"][i], tokens)
        return x

    def draft(self, streams, tokens):
        """The drafting layer over streams and the tokens after them: its own streams, and logits of the tokens after those."""
        w, eps = self.w, self.c["rms_norm_eps"]
        e = rms(w("embed.weight")[tokens], w("mtp.0.enorm.weight"), eps) @ w.linear("mtp.0.e_proj").T
        h = rms(streams, w("mtp.0.hnorm.weight"), eps) @ w.linear("mtp.0.h_proj").T
        out = self.layer(h + e[:, None], "mtp.0", 0, tokens)
        return out, self.head(out, "mtp.0.hc_head", "mtp.0.norm.weight")


# ------------------------------------------------------------------------------------------------------ random weights


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ("BF16", x.shape, ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes())


def fp8(x):
    rows, cols = -(-x.shape[0] // 128), -(-x.shape[1] // 128)
    padded = np.zeros((rows * 128, cols * 128))
    padded[: x.shape[0], : x.shape[1]] = x
    top = np.abs(padded.reshape(rows, 128, cols, 128)).max((1, 3))
    exponent = np.ceil(np.log2(top / 448))
    codes = nearest(E4M3, x / (2.0**exponent).repeat(128, 0).repeat(128, 1)[: x.shape[0], : x.shape[1]])
    scale = (exponent + 127).astype(np.uint8)
    return ("F8_E4M3", x.shape, codes.tobytes()), ("F8_E8M0", scale.shape, scale.tobytes())


def mxfp4(x):
    exponent = np.ceil(np.log2(np.abs(x.reshape(x.shape[0], -1, 32)).max(-1) / 6))
    codes = nearest(E2M1, x / (2.0**exponent).repeat(32, 1))
    scale = (exponent + 127).astype(np.uint8)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    return ("I8", packed.shape, packed.tobytes()), ("F8_E8M0", scale.shape, scale.tobytes())


def random_layer(weights, like="layers.3.", seed=2026):
    """Tensors of `mtp.0` in DeepSeek's own mix of formats, each distributed as that of a layer of the model."""
    dice = np.random.Generator(np.random.PCG64(seed))
    draw = lambda model: model.mean() + model.std() * dice.standard_normal(model.shape)
    out = {}

    def put(name, x, form):
        if form is bf16:
            out[name + ".weight"] = bf16(x)
        else:
            out[name + ".weight"], out[name + ".scale"] = form(x)

    for full, (dtype, shape, _) in sorted(weights.tensors.items()):
        name = full.removeprefix(like)
        if name == full or ".compressor." in name or ".indexer." in name:
            continue
        x = draw(plain(weights.tensors[full]))
        if dtype == "F32":
            out["mtp.0." + name] = ("F32", x.shape, x.astype(np.float32).tobytes())
        elif len(shape) == 1 or ".gate." in name:
            out["mtp.0." + name] = bf16(x)
        else:
            put("mtp.0." + name.removesuffix(".weight"), x, mxfp4 if ".experts." in name else fp8)
    for name in ["hc_head_fn", "hc_head_base", "hc_head_scale"]:
        x = draw(weights(name)) if name != "hc_head_scale" else weights(name)
        out["mtp.0." + name] = ("F32", x.shape, x.astype(np.float32).tobytes())
    hidden = len(weights("norm.weight"))
    for name in ["enorm", "hnorm", "norm"]:
        out[f"mtp.0.{name}.weight"] = bf16(draw(weights("norm.weight")))
    for name in ["e_proj", "h_proj"]:
        put("mtp.0." + name, dice.standard_normal((hidden, hidden)) * hidden**-0.5, fp8)
    return out


# ------------------------------------------------------------------------------------------------------------- goldens


def prompt_goldens(model, p, stored):
    tokens = np.array(p["ids"] + p["greedy"][:-1])
    streams = model.streams(tokens)
    logits = model.head(streams, "hc_head", "norm.weight")
    n = len(p["ids"])
    error = np.abs(logits[np.array(p["positions"])] - stored).max()
    assert error < 2e-6, f"the model itself is off by {error}"
    assert (logits[n - 1 :].argmax(1) == p["greedy"]).all()
    _, drafts = model.draft(streams[:-1], tokens[1:])
    # Row i is the guess behind token i + 1; by position of the token, so from 1 on.
    positions = sorted({1, 2, n // 2, n - 1, n, n + 11, n + 22} & set(range(1, len(tokens))))
    # A chain behind the prompt and its first token: the layer's own streams stand in for those that are not known.
    known, inputs, chain, rows, gaps = np.array(p["ids"] + p["greedy"][:1]), streams[:n], [], [], []
    for _ in range(CHAIN):
        out, guess = model.draft(inputs, np.concatenate([known[1:], chain]).astype(np.int64))
        rows.append(guess[-1])
        best = np.sort(guess[-1])[::-1]
        gaps.append(float(best[0] - best[1]))
        chain.append(int(guess[-1].argmax()))
        inputs = np.concatenate([inputs, out[-1:]])
    entry = {"name": p["name"], "positions": positions, "chain": chain, "chain_gap": min(gaps)}
    return entry, drafts[np.array(positions) - 1], np.array(rows), error


def main():
    folder = GOLDEN / "models"
    write(HERE / "mtp.safetensors", random_layer(Weights(folder / "deepseek_v4" / "model.safetensors")))
    tensors, sets = {}, {}
    for name, dir in SETS.items():
        config = json.loads((folder / dir / "config.json").read_text())
        model = Model(config, Weights(folder / dir / "model.safetensors", HERE / "mtp.safetensors"))
        golden = read(GOLDEN / "goldens" / f"{name}.safetensors")
        sets[name] = []
        for p in json.loads((GOLDEN / "goldens" / f"{name}.json").read_text())["prompts"]:
            entry, drafts, chain, error = prompt_goldens(model, p, plain(golden[p["name"] + ".logits64"]))
            print(f"{name} {p['name']}: model off by {error:.1e}, smallest gap of the chain {entry['chain_gap']:.3f}")
            sets[name].append(entry)
            for what, x in [("drafts", drafts), ("chain", chain)]:
                tensors[f"{name}.{p['name']}.{what}"] = ("F32", x.shape, x.astype(np.float32).tobytes())
    write(HERE / "drafts.safetensors", tensors)
    (HERE / "drafts.json").write_text(json.dumps(sets, indent=1) + "\n")


if __name__ == "__main__":
    main()
