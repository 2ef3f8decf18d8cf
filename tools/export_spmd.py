#!/usr/bin/env python3
"""Exports a multilayer perceptron whose hidden layer is spread over two ranks.

    python -m venv VENV && VENV/bin/pip install -r tools/requirements.txt
    VENV/bin/python tools/export_spmd.py            # writes models/spmd

Every rank has half of the hidden units. What it computes is a part of the sum, which an
all-reduce completes, so that both ranks give the whole output. Weights are random with a
fixed seed, in one checkpoint for each rank, as neuronx-distributed shards them.

Written to the folder:

    module.pb                              HloModuleProto, for two replicas
    signature.json                         role, key, dtype and shape of each input and output
    tp{rank}_sharded_checkpoint.safetensors    the weights of a rank
    input.npy, golden.npy                  f32 [rows, width]; the golden computed in f64
"""

import argparse
import json
import pathlib
import struct

import numpy as np
from jaxlib import _hlo

RANKS, ROWS, WIDTH, HIDDEN = 2, 4, 16, 32
SEED = 23
RTOL, ATOL = 1e-5, 1e-6

SHARE = HIDDEN // RANKS
MODULE = f"""
HloModule spmd, replica_count={RANKS}

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}}

ENTRY %main (x: f32[{ROWS},{WIDTH}], up: f32[{WIDTH},{SHARE}], down: f32[{SHARE},{WIDTH}]) -> (f32[{ROWS},{WIDTH}]) {{
  %x = f32[{ROWS},{WIDTH}] parameter(0)
  %up = f32[{WIDTH},{SHARE}] parameter(1)
  %down = f32[{SHARE},{WIDTH}] parameter(2)
  %hidden = f32[{ROWS},{SHARE}] dot(%x, %up), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %zero = f32[] constant(0)
  %zeros = f32[{ROWS},{SHARE}] broadcast(%zero), dimensions={{}}
  %active = f32[{ROWS},{SHARE}] maximum(%hidden, %zeros)
  %part = f32[{ROWS},{WIDTH}] dot(%active, %down), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %whole = f32[{ROWS},{WIDTH}] all-reduce(%part), replica_groups={{{{0,1}}}}, to_apply=%sum
  ROOT %root = (f32[{ROWS},{WIDTH}]) tuple(%whole)
}}
"""


def write_safetensors(path, arrays):
    header, data = {}, b""
    for key, array in arrays.items():
        raw = np.ascontiguousarray(array, "<f4").tobytes()
        header[key] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=root / "models" / "spmd")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    random = np.random.default_rng(SEED)
    x = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
    up = (random.standard_normal((WIDTH, HIDDEN)) * WIDTH**-0.5).astype(np.float32)
    down = (random.standard_normal((HIDDEN, WIDTH)) * HIDDEN**-0.5).astype(np.float32)
    golden = np.maximum(x.astype(np.float64) @ up, 0) @ down.astype(np.float64)

    (out / "module.pb").write_bytes(_hlo.hlo_module_from_text(MODULE).as_serialized_hlo_module_proto())
    np.save(out / "input.npy", x)
    np.save(out / "golden.npy", golden.astype(np.float32))
    for rank in range(RANKS):
        share = slice(rank * SHARE, (rank + 1) * SHARE)
        weights = {"mlp.up.weight": up[:, share], "mlp.down.weight": down[share]}
        write_safetensors(out / f"tp{rank}_sharded_checkpoint.safetensors", weights)

    def describe(role, key, shape):
        return {"role": role, "key": key, "dtype": "f32", "shape": list(shape)}

    signature = {
        "name": "spmd",
        "source": "tools/export_spmd.py",
        "inputs": [
            describe("user", "x", (ROWS, WIDTH)),
            describe("weight", "mlp.up.weight", (WIDTH, SHARE)),
            describe("weight", "mlp.down.weight", (SHARE, WIDTH)),
        ],
        "outputs": [{"key": "y", "dtype": "f32", "shape": [ROWS, WIDTH]}],
        "tolerance": {"mode": "rtol_atol", "rtol": RTOL, "atol": ATOL},
    }
    (out / "signature.json").write_text(json.dumps(signature, indent=1) + "\n")


if __name__ == "__main__":
    main()
