#!/usr/bin/env python3
"""Compares execution times of HLO cases with XLA's on a CPU.

    python -m venv VENV && VENV/bin/pip install -r tools/requirements.txt
    cargo build --release -p xtask
    VENV/bin/python tools/xla_baseline.py [--dir CORPUS] [--filter GLOB] [--cpus N] [--seconds S]

Both sides execute the same cases, in turn, on the same processors: this process
and the other are bound to the first N of them. The table has the median times of
an execution, their ratio (above 1: XLA is faster), the time before the first
execution (verification and plan here, compilation there), and the geometric mean.
"""

import argparse
import fnmatch
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "corpus")
    parser.add_argument("--filter", default="*model__*", help="names of cases")
    parser.add_argument("--cpus", type=int, default=1, help="processors of both sides")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each case and side")
    parser.add_argument("--xtask", type=pathlib.Path, default=ROOT / "target/release/xtask")
    parser.add_argument("--json", type=pathlib.Path, help="write the table to this file")
    return parser.parse_args()


def bind(cpus):
    """Must come before XLA makes its threads."""
    allowed = sorted(os.sched_getaffinity(0))[:cpus]
    os.sched_setaffinity(0, allowed)
    os.environ["RAYON_NUM_THREADS"] = str(len(allowed))
    return len(allowed)


def ours(arguments, name):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [arguments.xtask, "time", "--dir", arguments.dir, "--filter", name, "--seconds", str(arguments.seconds), "--json", file.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        case = json.load(open(file.name, encoding="utf-8"))["cases"][0]
    return case["load"], case["median"]


def xla(folder, seconds, cache={}):
    if not cache:
        import jax
        from jaxlib import xla_client

        cache.update(jax=jax, xc=xla_client, device=jax.devices("cpu")[0])
    jax, xc, device = cache["jax"], cache["xc"], cache["device"]
    import ml_dtypes
    import numpy as np

    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    inputs = []
    for tensor in meta["inputs"]:
        array = np.load(folder / tensor["file"])
        if tensor["storage"] == "bits":
            names = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
            array = array.view(getattr(ml_dtypes, names[tensor["dtype"]]))
        inputs.append(array)
    module = (folder / "module.pb").read_bytes()
    start = time.perf_counter()
    mlir = xc._xla.mlir.xla_computation_to_mlir_module(xc.XlaComputation(module))
    executable = device.client.compile_and_load(mlir, xc.DeviceList((device,)), xc.CompileOptions())
    compiled = time.perf_counter() - start
    placed = [jax.device_put(array, device) for array in inputs]

    def run():
        # A donated buffer is gone after an execution.
        for index, array in enumerate(inputs):
            if placed[index].is_deleted():
                placed[index] = jax.device_put(array, device)
            placed[index].block_until_ready()
        start = time.perf_counter()
        results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        for result in results:
            result[0].block_until_ready()
        return time.perf_counter() - start

    for _ in range(4):
        run()
    runs, start = [], time.perf_counter()
    while len(runs) < 5 or time.perf_counter() - start < seconds:
        runs.append(run())
    return compiled * 1e6, statistics.median(runs) * 1e6


def main():
    arguments = parse()
    cpus = bind(arguments.cpus)
    import jax

    jax.config.update("jax_enable_x64", True)
    names = sorted(path.parent.name for path in arguments.dir.glob("*/meta.json"))
    names = [name for name in names if fnmatch.fnmatch(name, arguments.filter)]
    rows = []
    for name in names:
        load, our = ours(arguments, name)
        compiled, their = xla(arguments.dir / name, arguments.seconds)
        rows.append({"name": name, "load": load, "compile": compiled, "ours": our, "xla": their, "ratio": our / their})
        print(f"{name:40} {our:10.1f} {their:10.1f} µs  {our / their:6.2f}   before: {load:8.0f} {compiled:9.0f} µs", flush=True)
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    late = [row["name"] for row in rows if row["load"] > row["compile"]]
    print(f"{len(rows)} cases on {cpus} processors: geometric mean {mean:.2f}, largest {max(row['ratio'] for row in rows):.2f}; {len(late)} take longer before the first execution")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpus": cpus, "geometric_mean": mean, "cases": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
