#!/usr/bin/env python3
"""Exports the sentence encoder MiniLM-L6 (BERT, 6 layers, width 384), without its weights.

    python -m venv VENV && VENV/bin/pip install -r tools/requirements.txt
    VENV/bin/python tools/export_minilm.py            # writes models/minilm

One sentence of at most 32 tokens in, its embedding out: the mean of the last layer over the
sentence's tokens, of length one. Every weight is an input, keyed as in the checkpoint
`model.safetensors` of sentence-transformers/all-MiniLM-L6-v2, which `cargo xtask weights`
fetches; nothing here needs it.

    VENV/bin/python tools/export_minilm.py --check FOLDER

compares the module, compiled by XLA, with a plain evaluation in f64, both with the weights
in FOLDER.

Written to the folder:

    module.pb          HloModuleProto, unoptimised
    signature.json     role, key, dtype and shape of each input and output
"""

import argparse
import json
import math
import pathlib
import struct

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HEADS, HIDDEN = 6, 384, 12, 1536
VOCABULARY, POSITIONS, TYPES, LENGTH = 30_522, 512, 2, 32
HEAD = WIDTH // HEADS
EPSILON = 1e-12
RTOL, ATOL = 1e-4, 1e-5


def weight_shapes():
    """Shapes by checkpoint key, in the order of the module's parameters."""
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (TYPES, WIDTH),
    }

    def dense(name, rows, columns):
        shapes[f"{name}.weight"] = (rows, columns)
        shapes[f"{name}.bias"] = (rows,)

    def norm(name):
        shapes[f"{name}.weight"] = (WIDTH,)
        shapes[f"{name}.bias"] = (WIDTH,)

    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for projection in ("query", "key", "value"):
            dense(f"{name}.attention.self.{projection}", WIDTH, WIDTH)
        dense(f"{name}.attention.output.dense", WIDTH, WIDTH)
        norm(f"{name}.attention.output.LayerNorm")
        dense(f"{name}.intermediate.dense", HIDDEN, WIDTH)
        dense(f"{name}.output.dense", WIDTH, HIDDEN)
        norm(f"{name}.output.LayerNorm")
    return shapes


def encode(xp, erf, input_ids, attention_mask, weights):
    """The encoder, over jax or numpy."""

    def dense(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name, x):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / xp.sqrt(variance + EPSILON) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    ids, mask = input_ids[0], attention_mask[0]
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:LENGTH]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm("embeddings.LayerNorm", x)
    hidden = xp.where(mask == 0, xp.asarray(-1e9, x.dtype), xp.asarray(0, x.dtype))
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            dense(f"{name}.attention.self.{p}", x).reshape(LENGTH, HEADS, HEAD).transpose(1, 0, 2)
            for p in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(HEAD) + hidden
        scores = xp.exp(scores - scores.max(-1, keepdims=True))
        attention = scores / scores.sum(-1, keepdims=True)
        mixed = (attention @ v).transpose(1, 0, 2).reshape(LENGTH, WIDTH)
        x = norm(f"{name}.attention.output.LayerNorm", x + dense(f"{name}.attention.output.dense", mixed))
        inner = dense(f"{name}.intermediate.dense", x)
        inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
        x = norm(f"{name}.output.LayerNorm", x + dense(f"{name}.output.dense", inner))
    kept = mask.astype(x.dtype)[:, None]
    mean = (x * kept).sum(0) / kept.sum()
    return (mean / xp.sqrt((mean * mean).sum()))[None]


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    arrays = {}
    for key, entry in header.items():
        if key != "__metadata__" and entry["dtype"] == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            arrays[key] = np.frombuffer(data[start:end], "<f4").reshape(entry["shape"])
    return arrays


def check(run, keys, folder):
    """XLA in f32 against numpy in f64, for a few rows of tokens."""
    weights = read_safetensors(folder / "model.safetensors")
    exact = {key: weights[key].astype(np.float64) for key in keys}
    random = np.random.default_rng(5)
    for count in (1, 7, LENGTH):
        ids = np.zeros((1, LENGTH), np.int32)
        ids[0, :count] = random.integers(1000, VOCABULARY, count)
        mask = (np.arange(LENGTH) < count).astype(np.int32)[None]
        (found,) = run(ids, mask, *(weights[key] for key in keys))
        judge = encode(np, np.vectorize(math.erf), ids, mask, exact)
        np.testing.assert_allclose(found, judge, rtol=RTOL, atol=ATOL)
        print(f"{count} tokens: largest difference from f64 {np.abs(found - judge).max():.3g}")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=root / "models" / "minilm")
    parser.add_argument("--check", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    # Only the names of source files go into the module, so it does not depend on the machine.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

    shapes = weight_shapes()
    row = jax.ShapeDtypeStruct((1, LENGTH), jnp.int32)
    inputs = [row, row, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes.values())]

    def flat(input_ids, attention_mask, *weights):
        return (encode(jnp, jax.scipy.special.erf, input_ids, attention_mask, dict(zip(shapes, weights, strict=True))),)

    lowered = jax.jit(flat, keep_unused=True).lower(*inputs)
    if arguments.check:
        check(lowered.compile(), list(shapes), arguments.check)
        return

    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    (out / "module.pb").write_bytes(lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())
    users = [("input_ids", row), ("attention_mask", row)]
    signature = {
        "name": "minilm",
        "source": "tools/export_minilm.py",
        "inputs": [
            *({"role": "user", "key": key, "dtype": "s32", "shape": list(x.shape)} for key, x in users),
            *({"role": "weight", "key": k, "dtype": "f32", "shape": list(s)} for k, s in shapes.items()),
        ],
        "outputs": [{"key": "embedding", "dtype": "f32", "shape": [1, WIDTH]}],
        "tolerance": {"mode": "rtol_atol", "rtol": RTOL, "atol": ATOL},
    }
    (out / "signature.json").write_text(json.dumps(signature, indent=1) + "\n")


if __name__ == "__main__":
    main()
