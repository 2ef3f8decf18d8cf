#!/usr/bin/env python3
"""Makes the HLO cases of this folder: modules, inputs and XLA's outputs.

    python -m venv VENV && VENV/bin/pip install -r tools/requirements.txt
    VENV/bin/python corpus/generate.py [--filter GLOB] [--check] [--list]

A case is a module, written as HLO text in `cases.py`, with inputs that depend on
its name only: adding a case changes no other. XLA compiles the module for the CPU
and computes the golden outputs. `--check` writes nothing and tells which files
would change (goldens of inexact cases are compared at the case's tolerance).
"""

import argparse
import fnmatch
import json
import os
import pathlib
import sys

# Collectives run on four devices of one process.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import ml_dtypes
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _hlo
from jaxlib import xla_client as xc

from cases import CASES, NUMPY

jax.config.update("jax_enable_x64", True)

# Types that .npy has no name for are stored as their bits.
BITS = {name: np.uint8 for name in NUMPY if name.startswith("f8")} | {"bf16": np.uint16}
NAMES = {np.dtype(value): key for key, value in NUMPY.items()}


def execute(module, replicas, inputs):
    """Outputs of each device."""
    mlir = xc._xla.mlir.xla_computation_to_mlir_module(xc.XlaComputation(module))
    devices = jax.devices("cpu")[:replicas]
    options = xc.CompileOptions()
    options.num_replicas = replicas
    executable = devices[0].client.compile_and_load(mlir, xc.DeviceList(tuple(devices)), options)
    if replicas == 1:
        arguments = [jax.device_put(array, devices[0]) for array in inputs[0]]
    else:
        sharding = NamedSharding(Mesh(np.array(devices), ("d",)), PartitionSpec("d"))
        arguments = []
        for shards in zip(*inputs, strict=True):
            placed = [jax.device_put(shard, device) for shard, device in zip(shards, devices, strict=True)]
            shape = (shards[0].shape[0] * replicas, *shards[0].shape[1:])
            arguments.append(jax.make_array_from_single_device_arrays(shape, sharding, placed))
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [[np.asarray(result[device]) for result in results] for device in range(replicas)]


def without_metadata(module):
    """The module without source lines, which move with every edit of `cases.py`."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = False
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(module).to_string(options)
    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


def stored(array):
    name = NAMES[array.dtype]
    return array.view(BITS[name]) if name in BITS else array


def describe(array, file):
    name = NAMES[array.dtype]
    return {
        "file": file,
        "shape": list(array.shape),
        "dtype": name,
        "npy_dtype": str(stored(array).dtype),
        "storage": "bits" if name in BITS else "native",
    }


def no_denormals(case, arrays):
    """Denormal inputs would make the golden depend on XLA's flushing to zero."""
    for array in arrays:
        if NAMES[array.dtype] in ("f32", "f64", "bf16", "f16"):
            tiny = float(ml_dtypes.finfo(array.dtype).tiny)
            magnitude = np.abs(array.astype(np.float64))
            assert not ((magnitude > 0) & (magnitude < tiny)).any(), f"{case.name}: a denormal input"


def build(case):
    """The files of a case."""
    if case.function is None:
        module = _hlo.hlo_module_from_text(case.text).as_serialized_hlo_module_proto()
    else:
        lowered = jax.jit(case.function, keep_unused=True, donate_argnums=case.donated).lower(*case.inputs[0])
        module = without_metadata(lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())
    for inputs in case.inputs:
        no_denormals(case, inputs)
    outputs = execute(module, case.replicas, case.inputs)
    files = {"module.pb": module}
    files["module.txt"] = _hlo.HloModule.from_serialized_hlo_module_proto(module).to_string().encode()

    def side(prefix, devices):
        lists = []
        for device, arrays in enumerate(devices):
            suffix = f"_r{device}" if case.replicas > 1 else ""
            names = [f"{prefix}{index}{suffix}.npy" for index in range(len(arrays))]
            files.update(zip(names, arrays, strict=True))
            lists.append([describe(array, name) for array, name in zip(arrays, names, strict=True)])
        return lists if case.replicas > 1 else lists[0]

    meta = {
        "name": case.name,
        "category": case.name.split("__")[0],
        "source": "hlo_text" if case.function is None else "jax",
        "inputs": side("input", case.inputs),
        "outputs": side("expected", outputs),
        "tolerance": case.tolerance,
    }
    if case.replicas > 1:
        meta |= {"num_replicas": case.replicas, "num_partitions": 1}
    files["meta.json"] = (json.dumps(meta, indent=1) + "\n").encode()
    return files


def write_file(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, stored(np.ascontiguousarray(content)).reshape(content.shape))


def write(files, folder):
    for name, content in files.items():
        write_file(folder / name, content)


def same(case, name, new, path):
    if not path.exists():
        return False
    if isinstance(new, bytes):
        return path.read_bytes() == new
    old, new = np.load(path), np.ascontiguousarray(new).reshape(new.shape)
    if old.shape != new.shape or old.dtype != stored(new).dtype:
        return False
    old = old.view(new.dtype) if NAMES[new.dtype] in BITS else old
    if name.startswith("input") or case.tolerance["mode"] == "exact" or new.dtype.kind not in "fVc":
        return np.array_equal(stored(old), stored(new)) or (
            new.dtype.kind in "fc" and np.array_equal(old, new, equal_nan=True)
        )
    wide = np.complex128 if new.dtype.kind == "c" else np.float64
    rtol, atol = case.tolerance.get("rtol", 1e-5), case.tolerance.get("atol", 1e-6)
    return np.allclose(new.astype(wide), old.astype(wide), rtol=rtol, atol=atol, equal_nan=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="*", help="names of cases")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    arguments = parser.parse_args()
    selected = [case for case in CASES if fnmatch.fnmatch(case.name, arguments.filter)]
    if arguments.list:
        print("\n".join(case.name for case in selected))
        return
    changed, failed = [], []
    for case in selected:
        try:
            files = build(case)
        except Exception as error:  # a case that XLA refuses must not hide the others
            failed.append(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        folder = arguments.out / case.name
        for name, content in files.items():
            if same(case, name, content, folder / name):
                continue
            changed.append(f"{case.name}/{name}")
            if not arguments.check:
                write_file(folder / name, content)
    print("\n".join(failed + (changed if arguments.check else [])))
    print(f"{len(selected)} cases, {len(failed)} failed, {len(changed)} files {'differ' if arguments.check else 'written'}")
    sys.exit(1 if failed or (arguments.check and changed) else 0)


if __name__ == "__main__":
    main()
