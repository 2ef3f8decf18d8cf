#!/usr/bin/env python3
"""Random cases of the kinds that `cases.py` has, to look for faults with.

    VENV/bin/python corpus/random_cases.py --out ELSEWHERE [--seed N] [--count N] [--filter GLOB]
    cargo xtask corpus --dir ELSEWHERE

Attributes, shapes, types and inputs are drawn; XLA's outputs on a CPU are the
goldens. A case is named after its kind, seed and number, and is the same each
time. What finds a fault becomes a case of `cases.py`.
"""

import argparse
import fnmatch
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import generate
from cases import CHAIN, EXACT, NUMPY, SUM, Case, allowed, binary_computation, shape, special

FLOATS = ("f32", "f64", "bf16", "f16")
NARROW = ("f8e4m3fn", "f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz")
SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
REALS = FLOATS + NARROW + SIGNED + UNSIGNED
ALL = (*REALS, "pred", "c64")
KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


class Draw:
    def __init__(self, seed, number):
        self.rng = np.random.default_rng([seed, number])

    def int(self, low, high):
        return int(self.rng.integers(low, high, endpoint=True))

    def pick(self, options):
        return options[self.int(0, len(options) - 1)]

    def flag(self):
        return self.int(0, 1) == 1

    def dims(self, rank, high=5, low=1):
        return [self.int(low, high) if self.int(0, 29) else 0 for _ in range(rank)]

    def array(self, dtype, dims, edges=True, low=None, high=None):
        """Numbers of the type; among floats special ones, no denormals."""
        count = int(np.prod(dims, dtype=np.int64))
        if dtype == "pred":
            return self.rng.integers(0, 2, dims).astype(bool)
        if dtype == "c64":
            return (self.array("f32", dims, False) + 1j * self.array("f32", dims, False)).astype(np.complex64)
        if dtype[0] in "su":
            info = np.iinfo(NUMPY[dtype])
            low = info.min if low is None else max(low, info.min)
            high = info.max if high is None else min(high, info.max)
            values = self.rng.integers(low, high, dims, dtype=NUMPY[dtype], endpoint=True)
            small = self.rng.integers(max(low, -3), min(high, 9), dims, endpoint=True).astype(NUMPY[dtype])
            return np.where(self.rng.integers(0, 2, dims) == 1, values, small).astype(NUMPY[dtype]).reshape(dims)
        scale = self.pick([0.3, 3.0, 3.0, 40.0])
        values = self.rng.uniform(-scale if low is None else low, scale if high is None else high, count)
        if edges:
            placed = self.rng.integers(0, 5, count) == 0
            values = np.where(placed, self.rng.choice(special("f64"), count), values)
        with np.errstate(all="ignore"):
            values = values.astype(NUMPY[dtype])
        if dtype in FLOATS:
            wide = np.abs(values.astype(np.float64))
            tiny = float(generate.ml_dtypes.finfo(NUMPY[dtype]).tiny)
            values = np.where((wide > 0) & (wide < tiny), NUMPY[dtype](0), values).astype(NUMPY[dtype])
        return values.reshape(dims)


def text(dims):
    return ",".join(map(str, dims))


def braces(numbers):
    return "{" + text(numbers) + "}"


def function_tolerance(dtype):
    return allowed("function", dtype)


def sum_tolerance(dtype):
    return allowed("sum", dtype)


def module(inputs, body, called="", replicas=1, header=""):
    lines = [f"  %p{i} = {shape(array)} parameter({i})" for i, array in enumerate(inputs)]
    lines += ["  " + line.strip() for line in body.strip().splitlines()]
    return f"HloModule m{header}\n\n{called}\nENTRY %main {{\n" + "\n".join(lines) + "\n}\n"


def op(inputs, body, within=EXACT, called=""):
    return Case("", [inputs], within, text=module(inputs, body, called))


@kind
def unary(d):
    exact = ("abs", "negate", "sign", "floor", "ceil", "round-nearest-afz", "round-nearest-even", "sqrt", "is-finite", "copy")
    functions = ("exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "rsqrt", "cbrt", "cosine", "sine", "tan", "erf")
    integer = ("not", "popcnt", "count-leading-zeros", "negate")
    group = d.int(0, 4)
    if group == 0:
        opcode, dtype = d.pick(integer), d.pick(SIGNED + UNSIGNED)
    elif group == 1:
        opcode, dtype = d.pick(("abs", "sign", "copy")), d.pick(SIGNED)
    elif group == 2:
        opcode, dtype = d.pick(exact), d.pick(FLOATS + NARROW)
    else:
        opcode, dtype = d.pick(functions), d.pick(FLOATS + NARROW)
    x = d.array(dtype, d.dims(d.int(0, 3), 9))
    result = shape(x)
    if opcode == "is-finite":
        result = f"pred[{text(x.shape)}]"
    if (opcode, dtype) == ("logistic", "f16"):
        # XLA flushes what the specification gives below -9.7.
        x = np.where(x.astype(np.float32) < -9, np.float16(-9), x).astype(np.float16).reshape(x.shape)
    return op([x], f"ROOT %r = {result} {opcode}(%p0)", function_tolerance(dtype) if opcode in functions or opcode == "sqrt" and dtype in FLOATS[:2] else EXACT)


@kind
def binary(d):
    group = d.int(0, 2)
    arithmetic = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder")
    if group == 0:
        opcode, dtype = d.pick(arithmetic), d.pick(FLOATS + NARROW)
    elif group == 1:
        dtype = d.pick(SIGNED + UNSIGNED)
        opcode = d.pick((*arithmetic, "and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic", "power"))
    else:
        opcode, dtype = d.pick(("power", "atan2")), d.pick(FLOATS + NARROW)
    dims = d.dims(d.int(0, 3), 9)
    x, y = d.array(dtype, dims), d.array(dtype, dims)
    inexact = opcode == "atan2" or (opcode == "power" and dtype[0] not in "su")
    return op([x, y], f"ROOT %r = {shape(x)} {opcode}(%p0, %p1)", function_tolerance(dtype) if inexact else EXACT)


@kind
def compare(d):
    dtype = d.pick((*REALS, "pred"))
    dims = d.dims(d.int(0, 2), 12)
    total = ", type=TOTALORDER" if dtype[0] in "fb" and d.flag() else ""
    direction = d.pick(("EQ", "NE", "LT", "LE", "GT", "GE"))
    return op([d.array(dtype, dims), d.array(dtype, dims)], f"ROOT %r = pred[{text(dims)}] compare(%p0, %p1), direction={direction}{total}")


@kind
def ternary(d):
    dims = d.dims(d.int(0, 2), 12)
    if d.flag():
        dtype = d.pick(ALL)
        condition = d.array("pred", dims if d.flag() else [])
        return op([condition, d.array(dtype, dims), d.array(dtype, dims)], f"ROOT %r = {dtype}[{text(dims)}] select(%p0, %p1, %p2)")
    dtype = d.pick(REALS)
    bounds = dims if d.flag() else []
    return op([d.array(dtype, bounds), d.array(dtype, dims), d.array(dtype, bounds)], f"ROOT %r = {dtype}[{text(dims)}] clamp(%p0, %p1, %p2)")


@kind
def convert(d):
    source, target = d.pick((*REALS, "pred")), d.pick((*REALS, "pred"))
    x = d.array(source, d.dims(d.int(0, 2), 20))
    return op([x], f"ROOT %r = {target}[{text(x.shape)}] convert(%p0)")


@kind
def precision(d):
    dtype = d.pick(FLOATS)
    x = d.array(dtype, d.dims(1, 30))
    exponent, mantissa = d.int(2, {"f16": 5, "f64": 11}.get(dtype, 8)), d.int(1, 10)
    return op([x], f"ROOT %r = {shape(x)} reduce-precision(%p0), exponent_bits={exponent}, mantissa_bits={mantissa}")


@kind
def movement(d):
    dtype = d.pick(ALL)
    x = d.array(dtype, d.dims(d.int(1, 4)))
    rank = x.ndim
    which = d.int(0, 5)
    if which == 0:
        order = [int(i) for i in d.rng.permutation(rank)]
        return op([x], f"ROOT %r = {dtype}[{text([x.shape[i] for i in order])}] transpose(%p0), dimensions={braces(order)}")
    if which == 1:
        kept = sorted(int(i) for i in d.rng.permutation(rank + 2)[:rank])
        dims = d.dims(rank + 2, 4)
        for size, place in zip(x.shape, kept, strict=True):
            dims[place] = size
        return op([x], f"ROOT %r = {dtype}[{text(dims)}] broadcast(%p0), dimensions={braces(kept)}")
    if which == 2:
        turned = [i for i in range(rank) if d.flag()]
        return op([x], f"ROOT %r = {shape(x)} reverse(%p0), dimensions={braces(turned)}")
    if which == 3:
        starts = [d.int(0, n) for n in x.shape]
        limits = [d.int(start, n) for start, n in zip(starts, x.shape, strict=True)]
        strides = [d.int(1, 3) for _ in starts]
        dims = [-(-(limit - start) // stride) for start, limit, stride in zip(starts, limits, strides, strict=True)]
        slices = ",".join(f"[{a}:{b}:{c}]" for a, b, c in zip(starts, limits, strides, strict=True))
        return op([x], f"ROOT %r = {dtype}[{text(dims)}] slice(%p0), slice={{{slices}}}")
    if which == 4:
        padding = [(d.int(-2, 3), d.int(-2, 3), d.pick((0, 0, 1, 2))) for _ in x.shape]
        dims = [low + high + (n + (n - 1) * inner if n else 0) for n, (low, high, inner) in zip(x.shape, padding, strict=True)]
        if min(dims) < 0:
            return None
        config = "x".join("_".join(map(str, p)) for p in padding)
        return op([x, d.array(dtype, [])], f"ROOT %r = {dtype}[{text(dims)}] pad(%p0, %p1), padding={config}")
    dimension = d.int(0, rank - 1)
    parts = [x]
    for _ in range(d.int(0, 3)):
        dims = list(x.shape)
        dims[dimension] = d.int(0, 4)
        parts.append(d.array(dtype, dims))
    dims = list(x.shape)
    dims[dimension] = sum(part.shape[dimension] for part in parts)
    names = ", ".join(f"%p{i}" for i in range(len(parts)))
    return op(parts, f"ROOT %r = {dtype}[{text(dims)}] concatenate({names}), dimensions={{{dimension}}}")


@kind
def dot(d):
    types = [("f32", "f32"), ("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f64", "f64"), ("s32", "s32"), ("s8", "s32"), ("s8", "s8"), ("u8", "u32"), ("c64", "c64"), ("f8e4m3fn", "f32"), ("f8e5m2", "bf16"), ("f16", "f32"), ("s64", "s64")]
    source, result = d.pick(types)
    batch, contracted = d.dims(d.int(0, 2), 3), d.dims(d.int(0, 2), 12)
    free = [d.dims(d.int(0, 2), 6), d.dims(d.int(0, 2), 6)]
    operands, places = [], []
    for side in range(2):
        sizes = batch + contracted + free[side]
        order = [int(i) for i in d.rng.permutation(len(sizes))]
        operands.append(d.array(source, [sizes[i] for i in order], edges=False, low=-9 if source in ("s8", "u8") else None))
        places.append([order.index(i) for i in range(len(sizes))])
    b, c = len(batch), len(contracted)
    dims = list(batch)
    for operand, place in zip(operands, places, strict=True):
        dims += [operand.shape[i] for i in sorted(place[b + c :])]
    lhs, rhs = places
    attributes = f"lhs_batch_dims={braces(lhs[:b])}, rhs_batch_dims={braces(rhs[:b])}, lhs_contracting_dims={braces(lhs[b : b + c])}, rhs_contracting_dims={braces(rhs[b : b + c])}"
    within = sum_tolerance(result)
    if within == SUM:
        within = {"mode": "rtol_atol", "rtol": 2e-5, "atol": 2e-6 * max(1.0, max((float(np.abs(o.astype(np.complex128)).max()) for o in operands if o.size), default=1.0) ** 2)}
    return op(operands, f"ROOT %r = {result}[{text(dims)}] dot(%p0, %p1), {attributes}", within)


@kind
def conv(d):
    source, result = d.pick([("f32", "f32"), ("f32", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("s32", "s32"), ("s8", "s32"), ("bf16", "f32")])
    rank = d.int(1, 3)
    groups = d.pick((1, 1, 2, 3))
    batch_groups = d.pick((1, 1, 2)) if groups == 1 else 1
    inputs, outputs, batch = d.int(1, 3), d.int(1, 2) * groups * batch_groups, d.int(1, 2) * batch_groups
    base = [d.int(1, 4 if rank == 3 else 8) for _ in range(rank)]
    size, stride = [d.int(1, 3) for _ in base], [d.int(1, 3) for _ in base]
    # Padding of mixed signs is one of XLA's faults.
    pads = [(d.int(0, 3), d.int(0, 3)) for _ in base]
    lhs, rhs = [d.pick((1, 1, 2, 3)) for _ in base], [d.pick((1, 1, 2)) for _ in base]
    reversal = [d.pick((0, 0, 1)) for _ in base]
    outs = []
    for n, k, s, (low, high), a, b in zip(base, size, stride, pads, lhs, rhs, strict=True):
        room = (n - 1) * a + 1 + low + high - ((k - 1) * b + 1)
        outs.append(room // s + 1 if room >= 0 else 0)
    window = f"size={'x'.join(map(str, size))} stride={'x'.join(map(str, stride))} pad={'x'.join(f'{a}_{b}' for a, b in pads)} lhs_dilate={'x'.join(map(str, lhs))} rhs_dilate={'x'.join(map(str, rhs))} rhs_reversal={'x'.join(map(str, reversal))}"
    spatial = "".join(map(str, range(rank)))

    def placed(labels, sizes):
        order = [int(i) for i in d.rng.permutation(len(labels))]
        return "".join(labels[i] for i in order), [sizes[i] for i in order]

    x_labels, x_dims = placed("bf" + spatial, [batch, inputs * groups, *base])
    w_labels, w_dims = placed("oi" + spatial, [outputs, inputs, *size])
    r_labels, r_dims = placed("bf" + spatial, [batch // batch_groups, outputs, *outs])
    x, w = d.array(source, x_dims, False, low=-5, high=5), d.array(source, w_dims, False, low=-5, high=5)
    within = sum_tolerance(result)
    if within != EXACT:
        within = within | {"atol": 25 * within["atol"]}
    return op([x, w], f"ROOT %r = {result}[{text(r_dims)}] convolution(%p0, %p1), window={{{window}}}, dim_labels={x_labels}_{w_labels}->{r_labels}, feature_group_count={groups}, batch_group_count={batch_groups}", within)


REDUCERS = {"add": "0", "multiply": "1", "maximum": None, "minimum": None, "and": None, "or": None}


def reducer(d):
    opcode = d.pick(tuple(REDUCERS))
    if opcode in ("and", "or"):
        dtype = d.pick(("pred", *SIGNED, *UNSIGNED))
        init = {"and": "true", "or": "false"}[opcode] if dtype == "pred" else d.pick(("0", "1", "7"))
    else:
        dtype = d.pick(("f32", "f32", "bf16", "f16", "f64", *SIGNED, *UNSIGNED))
        init = REDUCERS[opcode] or {"maximum": "-inf", "minimum": "inf"}[opcode]
        if dtype[0] in "su" and opcode in ("maximum", "minimum"):
            info = np.iinfo(NUMPY[dtype])
            init = str(info.min if opcode == "maximum" else info.max)
    exact = opcode not in ("add", "multiply")
    return opcode, dtype, init, EXACT if exact or dtype[0] in "su" else sum_tolerance(dtype)


@kind
def reduce(d):
    opcode, dtype, init, within = reducer(d)
    x = d.array(dtype, d.dims(d.int(1, 4), 7), edges=opcode in ("maximum", "minimum"), low=-2 if opcode == "multiply" else None, high=2 if opcode == "multiply" else None)
    over = sorted(int(i) for i in d.rng.permutation(x.ndim)[: d.int(0, x.ndim)])
    dims = [n for i, n in enumerate(x.shape) if i not in over]
    if dtype in ("f32", "f64", "f16", "bf16") and opcode == "add":
        within = within | {"atol": within["atol"] * 40 * 40}
    return op([x], f"%i = {dtype}[] constant({init})\nROOT %r = {dtype}[{text(dims)}] reduce(%p0, %i), dimensions={braces(over)}, to_apply=%f", within, binary_computation("f", opcode, dtype))


@kind
def reduce_window(d):
    opcode, dtype, init, within = reducer(d)
    x = d.array(dtype, [d.int(1, 7) for _ in range(d.int(1, 3))], edges=False, low=-2 if opcode == "multiply" else -5, high=2 if opcode == "multiply" else 5)
    windows, dims = [], []
    for n in x.shape:
        size, stride, low, high = d.int(1, 3), d.int(1, 3), d.int(0, 2), d.int(0, 2)
        base, dilation = d.pick((1, 1, 2)), d.pick((1, 1, 2))
        room = (n - 1) * base + 1 + low + high - ((size - 1) * dilation + 1)
        dims.append(room // stride + 1 if room >= 0 else 0)
        windows.append((size, stride, f"{low}_{high}", base, dilation))
    names = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate")
    window = " ".join(f"{name}={'x'.join(str(w[i]) for w in windows)}" for i, name in enumerate(names))
    if within != EXACT:
        within = within | {"atol": within["atol"] * 10}
    return op([x], f"%i = {dtype}[] constant({init})\nROOT %r = {dtype}[{text(dims)}] reduce-window(%p0, %i), window={{{window}}}, to_apply=%f", within, binary_computation("f", opcode, dtype))


@kind
def select_and_scatter(d):
    dims = [d.int(2, 7) for _ in range(d.int(1, 2))]
    size, stride = [d.int(1, min(3, n)) for n in dims], [d.int(1, 3) for _ in dims]
    source = [(n - k) // s + 1 for n, k, s in zip(dims, size, stride, strict=True)]
    direction = d.pick(("GE", "LE", "GT"))
    called = f"%s {{\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %r = pred[] compare(%a, %b), direction={direction}\n}}\n"
    x = np.round(d.array("f32", dims, False))
    body = f"%i = f32[] constant({d.pick((0, 1))})\nROOT %r = f32[{text(dims)}] select-and-scatter(%p0, %p1, %i), window={{size={'x'.join(map(str, size))} stride={'x'.join(map(str, stride))}}}, select=%s, scatter=%f"
    return op([x, d.array("f32", source, False)], body, SUM | {"atol": 1e-4}, called + binary_computation("f", "add", "f32"))


@kind
def gather(d):
    dtype, index = d.pick(("f32", "bf16", "s8", "pred", "s64")), d.pick(("s32", "s64", "u32", "s8"))
    operand = d.array(dtype, [d.int(1, 6) for _ in range(d.int(1, 4))])
    rank = operand.ndim
    mapped = [int(i) for i in d.rng.permutation(rank)[: d.int(1, rank)]]
    sizes = [d.int(1, n) for n in operand.shape]
    collapsed = sorted(i for i in range(rank) if d.flag())
    for i in collapsed:
        sizes[i] = 1
    batch = [d.int(1, 4) for _ in range(d.int(0, 2))]
    vector = d.int(0, len(batch))
    index_dims = batch[:vector] + [len(mapped)] + batch[vector:]
    indices = d.array(index, index_dims, low=-3, high=8)
    window = [n for i, n in enumerate(sizes) if i not in collapsed]
    offsets = sorted(int(i) for i in d.rng.permutation(len(batch) + len(window))[: len(window)])
    dims, rest, inner = [], list(batch), list(window)
    for i in range(len(batch) + len(window)):
        dims.append(inner.pop(0) if i in offsets else rest.pop(0))
    return op([operand, indices], f"ROOT %r = {dtype}[{text(dims)}] gather(%p0, %p1), offset_dims={braces(offsets)}, collapsed_slice_dims={braces(collapsed)}, start_index_map={braces(mapped)}, index_vector_dim={vector}, slice_sizes={braces(sizes)}")


@kind
def scatter(d):
    dtype, index = d.pick(("f32", "bf16", "s8", "s32", "f16")), d.pick(("s32", "s64", "u32"))
    operand = d.array(dtype, [d.int(1, 6) for _ in range(d.int(1, 3))], False)
    rank = operand.ndim
    mapped = [int(i) for i in d.rng.permutation(rank)[: d.int(1, rank)]]
    sizes = [d.int(1, n) for n in operand.shape]
    inserted = sorted(i for i in range(rank) if d.flag())
    for i in inserted:
        sizes[i] = 1
    batch = [d.int(1, 4) for _ in range(d.int(0, 2))]
    vector = d.int(0, len(batch))
    indices = d.array(index, batch[:vector] + [len(mapped)] + batch[vector:], low=-2, high=7)
    window = [n for i, n in enumerate(sizes) if i not in inserted]
    places = sorted(int(i) for i in d.rng.permutation(len(batch) + len(window))[: len(window)])
    dims, rest, inner = [], list(batch), list(window)
    for i in range(len(batch) + len(window)):
        dims.append(inner.pop(0) if i in places else rest.pop(0))
    opcode = d.pick(("add", "maximum", "minimum", "multiply"))
    within = EXACT if dtype[0] == "s" or opcode in ("maximum", "minimum") else sum_tolerance(dtype)
    if within != EXACT:
        within = within | {"atol": 1e-3 if dtype == "f32" else 0.5, "rtol": within["rtol"] * 2}
    return op(
        [operand, indices, d.array(dtype, dims, False)],
        f"ROOT %r = {shape(operand)} scatter(%p0, %p1, %p2), update_window_dims={braces(places)}, inserted_window_dims={braces(inserted)}, scatter_dims_to_operand_dims={braces(mapped)}, index_vector_dim={vector}, to_apply=%f",
        within,
        binary_computation("f", opcode, dtype),
    )


@kind
def dynamic(d):
    dtype, index = d.pick(ALL), d.pick(("s32", "s64", "u32", "s8", "u8"))
    x = d.array(dtype, d.dims(d.int(1, 3), 6))
    sizes = [d.int(0, n) for n in x.shape]
    starts = [d.array(index, [], low=-3, high=8) for _ in sizes]
    names = ", ".join(f"%p{i + 1}" for i in range(len(starts)))
    if d.flag():
        return op([x, *starts], f"ROOT %r = {dtype}[{text(sizes)}] dynamic-slice(%p0, {names}), dynamic_slice_sizes={braces(sizes)}")
    names = ", ".join(f"%p{i + 2}" for i in range(len(starts)))
    return op([x, d.array(dtype, sizes), *starts], f"ROOT %r = {shape(x)} dynamic-update-slice(%p0, %p1, {names})")


@kind
def sort(d):
    count = d.int(1, 3)
    types = [d.pick(("f32", "bf16", "s32", "s8", "u16", "f64", "f16", "s64")) for _ in range(count)]
    dims = [d.int(1, 9) for _ in range(d.int(1, 3))]
    dimension, key = d.int(0, len(dims) - 1), d.int(0, count - 1)
    floats = types[key] in FLOATS
    operands = [d.array(dtype, dims, edges=floats and i == key, low=-3, high=3) for i, dtype in enumerate(types)]
    total = ", type=TOTALORDER" if floats else ""
    direction = d.pick(("LT", "GT"))
    lines = [f"  %{side}{i} = {dtype}[] parameter({2 * i + n})" for i, dtype in enumerate(types) for n, side in enumerate("ab")]
    called = "%f {\n" + "\n".join(lines) + f"\n  ROOT %r = pred[] compare(%a{key}, %b{key}), direction={direction}{total}\n}}\n"
    result = ", ".join(f"{dtype}[{text(dims)}]" for dtype in types)
    result = f"({result})" if count > 1 else result
    names = ", ".join(f"%p{i}" for i in range(count))
    return op(operands, f"ROOT %r = {result} sort({names}), dimensions={{{dimension}}}, is_stable=true, to_apply=%f", EXACT, called)


@kind
def bits(d):
    algorithm, words = d.pick((("rng_three_fry", 2), ("rng_philox", 3)))
    # XLA gives signed results under unsigned types.
    dtype = d.pick(UNSIGNED)
    dims = [d.int(1, 9) for _ in range(d.int(1, 3))]
    state = d.rng.integers(0, 2**64, words, dtype=np.uint64)
    return op([state], f"ROOT %r = (u64[{words}], {dtype}[{text(dims)}]) rng-bit-generator(%p0), algorithm={algorithm}")


@kind
def program(d):
    """What jax makes of a random chain of array functions."""
    steps = []
    unary = (jnp.tanh, jnp.sin, jax.nn.softmax, jax.nn.gelu, jax.nn.relu, lambda x: jnp.cumsum(x, 0), lambda x: jnp.sort(x, 1), lambda x: x - x.mean(1, keepdims=True), lambda x: x[::-1], lambda x: jnp.where(x > 0, x, 0.1 * x), lambda x: jnp.flip(x, 1) * 0.5, lambda x: jax.nn.logsumexp(x, 1, keepdims=True) + x, lambda x: jnp.roll(x, 1, 0), lambda x: jnp.clip(x, -1, 1), lambda x: x.at[0].add(1.0), lambda x: jnp.pad(x, ((0, 0), (1, 0)))[:, :-1], lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i, x), lambda x: jax.lax.cumlogsumexp(x, 1), lambda x: jax.lax.cummax(x, 0), lambda x: jax.lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x)[1])
    binary = (lambda x, w: x @ w, lambda x, w: jnp.einsum("ij,kj->ik", x, w), lambda x, w: x @ w.T + w[0], lambda x, w: jax.nn.softmax(x @ w) @ w)
    for _ in range(d.int(2, 6)):
        steps.append((d.pick(binary), True) if d.int(0, 2) == 0 else (d.pick(unary), False))
    dtype = d.pick(("f32", "f32", "bf16"))
    n = d.int(2, 9)
    x, w = d.array(dtype, [d.int(2, 7), n], False, low=-2, high=2), d.array(dtype, [n, n], False, low=-1, high=1)
    gradient = dtype == "f32" and d.int(0, 2) == 0

    def run(x, w):
        for step, both in steps:
            x = step(x, w) if both else step(x)
            x = x.astype(w.dtype)
        return x

    function = jax.grad(lambda x, w: run(x, w).sum(), argnums=(0, 1)) if gradient else run
    within = {"mode": "rtol_atol", "rtol": 0.03, "atol": 0.1} if dtype == "bf16" else CHAIN | {"atol": 2e-4}
    return Case("", [[x, w]], within, function=function)


@kind
def collective(d):
    opcode = d.pick(("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"))
    dtype = d.pick(("f32", "bf16", "s32", "u8"))
    groups = d.pick(([[0, 1, 2, 3]], [[3, 1, 0, 2]], [[0, 1], [2, 3]], [[2, 0], [1, 3]]))
    size, rank = len(groups[0]), d.int(1, 3)
    dimension = d.int(0, rank - 1)
    dims = [d.int(1, 4) for _ in range(rank)]
    if opcode in ("reduce-scatter", "all-to-all"):
        dims[dimension] *= size
    inputs = [[d.array(dtype, dims, False, low=-9, high=9)] for _ in range(4)]
    listed = "{" + ",".join(braces(group) for group in groups) + "}"
    result, attributes, called = list(dims), f"replica_groups={listed}", ""
    if opcode in ("all-reduce", "reduce-scatter"):
        called = binary_computation("f", d.pick(("add", "maximum", "minimum", "multiply")), dtype)
        attributes += ", to_apply=%f"
    if opcode == "reduce-scatter":
        result[dimension] //= size
    if opcode == "all-gather":
        result[dimension] *= size
    if opcode in ("all-gather", "reduce-scatter", "all-to-all"):
        attributes += f", dimensions={{{dimension}}}"
    if opcode == "collective-permute":
        order = [int(i) for i in d.rng.permutation(4)]
        pairs = [(i, order[i]) for i in range(4) if d.int(0, 3)]
        attributes = "source_target_pairs={" + ",".join(braces(pair) for pair in pairs) + "}"
    body = f"ROOT %r = {dtype}[{text(result)}] {opcode}(%p0), {attributes}"
    within = {"mode": "rtol_atol", "rtol": 0.02, "atol": 0.2} if dtype == "bf16" else SUM | {"atol": 1e-3} if dtype == "f32" else EXACT
    if not called:
        within = EXACT
    return Case("", inputs, within, text=module(inputs[0], body, called), replicas=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--filter", default="*", help="kinds")
    arguments = parser.parse_args()
    kinds = [name for name in KINDS if fnmatch.fnmatch(name, arguments.filter)]
    written, refused = 0, []
    for number in range(arguments.count):
        name = kinds[number % len(kinds)]
        case = KINDS[name](Draw(arguments.seed, number))
        if case is None:
            continue
        case.name = f"{name}__random__{arguments.seed}_{number}"
        try:
            files = generate.build(case)
        except Exception as error:  # XLA refuses some combinations
            refused.append(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        generate.write(files, arguments.out / case.name)
        written += 1
    print("\n".join(refused))
    print(f"{written} cases written, {len(refused)} refused by XLA")
    sys.exit(0 if written else 1)


if __name__ == "__main__":
    main()
