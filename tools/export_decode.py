#!/usr/bin/env python3
"""Exports a small transformer: one decode step with goldens for a greedy loop, and prefills.

    python -m venv VENV && VENV/bin/pip install -r tools/requirements.txt
    VENV/bin/python tools/export_decode.py            # writes models/decode and models/prefill_*

The model is of the usual decoder-only kind (RMS normalisation, rotary positions,
gated MLP) and small: 2 layers, width 64, 4 heads, 256 tokens, 48 positions. Its
weights are random with a fixed seed. The parameters stand in the order in which
neuronx-distributed writes a contract: user inputs, then states, then weights. The
caches are donated, so that each cache output takes the buffer of its input.

Written to the folder:

    module.pb          HloModuleProto, unoptimised
    signature.json     role, key, dtype and shape of each input and output
    weights/KEY.npy    one array for each checkpoint key
    tokens.npy         s32 [steps + 1]: the first token, then the argmax of each step
    logits.npy         f32 [steps, vocabulary]: golden logits of each step

A prefill takes a prompt that is filled up to its length and the position of the prompt's last
token, writes the caches that a decode step goes on from, and gives the logits after that token.
Its folder has a module and a signature; the weights are those of the decode step.
"""

import argparse
import json
import pathlib
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib import _hlo
from strip_sources import stripped

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY, MAX_LENGTH = 2, 64, 4, 128, 256, 48
HEAD = WIDTH // HEADS
EPSILON = 1e-6
STEPS, FIRST_TOKEN, SEED = 24, 17, 11
CACHE = (1, HEADS, MAX_LENGTH, HEAD)
PREFILLS = (8, 16)
RTOL, ATOL = 1e-4, 1e-5
# The best token leads the second by more than any backend may err.
MARGIN = 0.01


def make_weights(seed):
    """Weights by checkpoint key, in the order of the module's parameters."""
    random = np.random.default_rng(seed)

    def normal(*shape, scale):
        return (random.standard_normal(shape) * scale).astype(np.float32)

    weights = {"embedding.weight": normal(VOCABULARY, WIDTH, scale=1.0)}
    for layer in range(LAYERS):
        name = f"layers.{layer}."
        weights[name + "attention_norm.weight"] = 1 + normal(WIDTH, scale=0.1)
        for projection in ("q_proj", "k_proj", "v_proj", "o_proj"):
            weights[name + f"attention.{projection}.weight"] = normal(WIDTH, WIDTH, scale=WIDTH**-0.5)
        weights[name + "mlp_norm.weight"] = 1 + normal(WIDTH, scale=0.1)
        weights[name + "mlp.gate_proj.weight"] = normal(HIDDEN, WIDTH, scale=WIDTH**-0.5)
        weights[name + "mlp.up_proj.weight"] = normal(HIDDEN, WIDTH, scale=WIDTH**-0.5)
        weights[name + "mlp.down_proj.weight"] = normal(WIDTH, HIDDEN, scale=HIDDEN**-0.5)
    weights["norm.weight"] = 1 + normal(WIDTH, scale=0.1)
    weights["lm_head.weight"] = normal(VOCABULARY, WIDTH, scale=WIDTH**-0.5)
    return weights


def rms_norm(xp, x, weight):
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def rotate(xp, x, position):
    """Rotary position of x [heads, head] or [heads, length, head]."""
    half = HEAD // 2
    frequency = xp.asarray(10_000.0 ** (-np.arange(half) / half), dtype=x.dtype)
    angle = position * frequency
    cosine, sine = xp.cos(angle), xp.sin(angle)
    first, second = x[..., :half], x[..., half:]
    return xp.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)


def silu(xp, x):
    return x / (1 + xp.exp(-x))


def step(input_ids, position, caches, weights):
    """One token in, logits and updated caches out."""
    at = position[0]
    x = weights["embedding.weight"][input_ids[0, 0]]
    updated = []
    visible = jnp.arange(MAX_LENGTH) <= at
    for layer in range(LAYERS):
        w = {k.removeprefix(f"layers.{layer}."): v for k, v in weights.items()}
        normed = rms_norm(jnp, x, w["attention_norm.weight"])
        q, k, v = ((w[f"attention.{p}.weight"] @ normed).reshape(HEADS, HEAD) for p in ("q_proj", "k_proj", "v_proj"))
        q, k = (rotate(jnp, t, at.astype(jnp.float32)) for t in (q, k))
        old_keys, old_values = caches[2 * layer : 2 * layer + 2]
        keys = jax.lax.dynamic_update_slice(old_keys, k[None, :, None], (0, 0, at, 0))
        values = jax.lax.dynamic_update_slice(old_values, v[None, :, None], (0, 0, at, 0))
        updated += [keys, values]
        scores = jnp.einsum("hd,htd->ht", q, keys[0]) * HEAD**-0.5
        weight = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
        mixed = jnp.einsum("ht,htd->hd", weight, values[0]).reshape(WIDTH)
        x = x + w["attention.o_proj.weight"] @ mixed
        normed = rms_norm(jnp, x, w["mlp_norm.weight"])
        gate = silu(jnp, w["mlp.gate_proj.weight"] @ normed)
        x = x + w["mlp.down_proj.weight"] @ (gate * (w["mlp.up_proj.weight"] @ normed))
    logits = weights["lm_head.weight"] @ rms_norm(jnp, x, weights["norm.weight"])
    return logits[None], *updated


def prefill(input_ids, position, caches, weights):
    """A prompt in, logits after its last token and filled caches out."""
    length = input_ids.shape[1]
    at = jnp.arange(length)
    x = weights["embedding.weight"][input_ids[0]]
    updated = []
    visible = at[:, None] >= at
    for layer in range(LAYERS):
        w = {k.removeprefix(f"layers.{layer}."): v for k, v in weights.items()}
        normed = rms_norm(jnp, x, w["attention_norm.weight"])
        q, k, v = (
            (normed @ w[f"attention.{p}.weight"].T).reshape(length, HEADS, HEAD).transpose(1, 0, 2)
            for p in ("q_proj", "k_proj", "v_proj")
        )
        q, k = (rotate(jnp, t, at[:, None].astype(jnp.float32)) for t in (q, k))
        for cache, value in zip(caches[2 * layer : 2 * layer + 2], (k, v), strict=True):
            updated.append(jax.lax.dynamic_update_slice(cache, value[None], (0, 0, 0, 0)))
        scores = jnp.einsum("hqd,hkd->hqk", q, k) * HEAD**-0.5
        weight = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
        mixed = jnp.einsum("hqk,hkd->qhd", weight, v).reshape(length, WIDTH)
        x = x + mixed @ w["attention.o_proj.weight"].T
        normed = rms_norm(jnp, x, w["mlp_norm.weight"])
        gate = silu(jnp, normed @ w["mlp.gate_proj.weight"].T)
        x = x + (gate * (normed @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
    logits = weights["lm_head.weight"] @ rms_norm(jnp, x[position[0]], weights["norm.weight"])
    return logits[None], *updated


def whole_sequence(tokens, weights):
    """Logits of every position, in f64 and without a cache: the judge of `step`."""
    weights = {key: value.astype(np.float64) for key, value in weights.items()}
    x = weights["embedding.weight"][tokens]
    length = len(tokens)
    position = np.arange(length)[:, None]
    for layer in range(LAYERS):
        w = {k.removeprefix(f"layers.{layer}."): v for k, v in weights.items()}
        normed = rms_norm(np, x, w["attention_norm.weight"])
        q, k, v = (
            (normed @ w[f"attention.{p}.weight"].T).reshape(length, HEADS, HEAD).transpose(1, 0, 2)
            for p in ("q_proj", "k_proj", "v_proj")
        )
        q, k = rotate(np, q, position), rotate(np, k, position)
        scores = np.einsum("hqd,hkd->hqk", q, k) * HEAD**-0.5
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,hkd->qhd", weight, v).reshape(length, WIDTH)
        x = x + mixed @ w["attention.o_proj.weight"].T
        normed = rms_norm(np, x, w["mlp_norm.weight"])
        gate = silu(np, normed @ w["mlp.gate_proj.weight"].T)
        x = x + (gate * (normed @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
    return rms_norm(np, x, weights["norm.weight"]) @ weights["lm_head.weight"].T


def dtype_name(array):
    return {"float32": "f32", "int32": "s32"}[str(np.dtype(array.dtype))]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=root / "models" / "decode")
    out = parser.parse_args().out
    # Only the names of source files go into the module, so it does not depend on the machine.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

    weights = make_weights(SEED)
    keys = list(weights)
    caches = [np.zeros(CACHE, np.float32) for _ in range(2 * LAYERS)]

    def flat(input_ids, position, *rest):
        return step(input_ids, position, rest[: 2 * LAYERS], dict(zip(keys, rest[2 * LAYERS :], strict=True)))

    first = np.array([[FIRST_TOKEN]], np.int32)
    arguments = [first, np.array([0], np.int32), *caches, *weights.values()]
    donated = tuple(range(2, 2 + 2 * LAYERS))
    lowered = jax.jit(flat, keep_unused=True, donate_argnums=donated).lower(*arguments)
    module = stripped(lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())
    text = _hlo.HloModule.from_serialized_hlo_module_proto(module).to_string()
    aliases = {int(o): int(i) for o, i in re.findall(r"\{(\d+)\}: \((\d+), \{\}", text.splitlines()[0])}
    assert aliases == {1 + i: 2 + i for i in range(2 * LAYERS)}, aliases

    run = lowered.compile()
    tokens, logits = [FIRST_TOKEN], []
    for position in range(STEPS):
        outputs = run(np.array([[tokens[-1]]], np.int32), np.array([position], np.int32), *caches, *weights.values())
        caches = list(outputs[1:])
        logits.append(np.asarray(outputs[0])[0])
        tokens.append(int(logits[-1].argmax()))
        second, best = np.sort(logits[-1])[-2:]
        assert best - second > MARGIN, f"step {position} is nearly a tie: choose another seed"
    logits = np.stack(logits)
    judge = whole_sequence(np.array(tokens[:-1]), weights)
    np.testing.assert_allclose(logits, judge, rtol=RTOL, atol=ATOL)
    print(f"tokens {tokens}")
    print(f"largest difference from f64 without a cache: {np.abs(logits - judge).max():.3g}")

    if out.exists():
        shutil.rmtree(out / "weights", ignore_errors=True)
    (out / "weights").mkdir(parents=True)
    (out / "module.pb").write_bytes(module)
    np.save(out / "tokens.npy", np.array(tokens, np.int32))
    np.save(out / "logits.npy", logits)
    for key, value in weights.items():
        np.save(out / "weights" / f"{key}.npy", value)

    cache_keys = [f"layers.{layer}.{side}_cache" for layer in range(LAYERS) for side in ("k", "v")]

    def describe(role, key, array, **more):
        return {"role": role, "key": key, "dtype": dtype_name(array), "shape": list(array.shape), **more}

    signature = {
        "name": "decode",
        "source": "tools/export_decode.py",
        "inputs": [
            describe("user", "input_ids", arguments[0]),
            describe("user", "position_ids", arguments[1]),
            *(describe("state", key, cache) for key, cache in zip(cache_keys, caches, strict=True)),
            *(describe("weight", key, value, file=f"weights/{key}.npy") for key, value in weights.items()),
        ],
        "outputs": [
            {"key": "logits", "dtype": "f32", "shape": [1, VOCABULARY]},
            *(
                {"key": key, "dtype": "f32", "shape": list(CACHE), "alias": aliases[1 + index]}
                for index, key in enumerate(cache_keys)
            ),
        ],
        "golden": {"steps": STEPS, "tokens": "tokens.npy", "logits": "logits.npy"},
        "tolerance": {"mode": "rtol_atol", "rtol": RTOL, "atol": ATOL},
    }
    (out / "signature.json").write_text(json.dumps(signature, indent=1) + "\n")

    for length in PREFILLS:
        export_prefill(out.parent / f"prefill_{length}", length, weights, tokens, logits, signature)


def export_prefill(out, length, weights, tokens, logits, decode):
    """Writes a prefill of so many tokens, whose logits are those of the decode steps."""
    keys = list(weights)

    def flat(input_ids, position, *rest):
        return prefill(input_ids, position, rest[: 2 * LAYERS], dict(zip(keys, rest[2 * LAYERS :], strict=True)))

    caches = [np.zeros(CACHE, np.float32) for _ in range(2 * LAYERS)]
    row, position = np.zeros((1, length), np.int32), np.zeros(1, np.int32)
    donated = tuple(range(2, 2 + 2 * LAYERS))
    lowered = jax.jit(flat, keep_unused=True, donate_argnums=donated).lower(row, position, *caches, *weights.values())
    run = lowered.compile()
    for count in (1, length // 2, length):
        row[0] = 0
        row[0, :count] = tokens[:count]
        position[0] = count - 1
        caches = [np.zeros(CACHE, np.float32) for _ in range(2 * LAYERS)]
        (found, *_) = run(row, position, *caches, *weights.values())
        np.testing.assert_allclose(np.asarray(found)[0], logits[count - 1], rtol=RTOL, atol=ATOL)

    out.mkdir(parents=True, exist_ok=True)
    (out / "module.pb").write_bytes(lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())
    inputs = [dict(entry) for entry in decode["inputs"]]
    inputs[0]["shape"] = [1, length]
    for entry in inputs:
        entry.pop("file", None)
    signature = {
        "name": out.name,
        "source": "tools/export_decode.py",
        "inputs": inputs,
        "outputs": decode["outputs"],
        "tolerance": decode["tolerance"],
    }
    (out / "signature.json").write_text(json.dumps(signature, indent=1) + "\n")


if __name__ == "__main__":
    main()
