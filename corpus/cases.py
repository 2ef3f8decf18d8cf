"""The cases that `generate.py` makes, by family.

`op(name, inputs, body)` declares a case: `inputs` are arrays, `body` is the entry
computation's text after its parameters `%p0`, `%p1`, …; the line of the result
begins with `ROOT`. Computations that it calls go in `called`. A name is
`FAMILY__WHAT__TYPE`. The tolerance is exact unless the family has reason for
another one: see the constants below.
"""

import dataclasses
import json
import pathlib
import zlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

NUMPY = {
    "pred": np.bool_,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "c64": np.complex64,
}
NAMES = {np.dtype(value): key for key, value in NUMPY.items()}

# By class of operation and type, exact unless there is a reason: functions that no two libraries round alike (narrow types
# compute in f32 and round once), sums whose order is free, several of both after one another.
TOLERANCES = json.loads((pathlib.Path(__file__).parent / "tolerances.json").read_text(encoding="utf-8"))


def allowed(operation, dtype="*"):
    types = TOLERANCES[operation]
    return types.get(dtype, types["*"])


EXACT = allowed("exact")
FUNCTION, FUNCTION_NARROW = allowed("function", "f32"), allowed("function")
SUM, SUM_NARROW = allowed("sum", "f32"), allowed("sum", "bf16")
CHAIN = allowed("chain")

CASES = []


@dataclasses.dataclass
class Case:
    name: str
    inputs: list  # of each device
    tolerance: dict
    text: str = ""
    function: object = None
    donated: tuple = ()
    replicas: int = 1


def shape(array):
    return f"{NAMES[array.dtype]}[{','.join(map(str, array.shape))}]"


def op(name, inputs, body, tolerance=EXACT, called="", replicas=1, header=""):
    devices = inputs if replicas > 1 else [inputs]
    lines = [f"  %p{i} = {shape(array)} parameter({i})" for i, array in enumerate(devices[0])]
    lines += ["  " + line.strip() for line in body.strip().splitlines()]
    text = f"HloModule {name.replace('-', '_')}{header}\n\n{called}\nENTRY %main {{\n" + "\n".join(lines) + "\n}\n"
    assert all(case.name != name for case in CASES), name
    CASES.append(Case(name, devices, tolerance, text=text, replicas=replicas))


def traced(name, inputs, function, tolerance=CHAIN, donated=()):
    CASES.append(Case(name, [inputs], tolerance, function=function, donated=donated))


def random(name, salt=0):
    return np.random.default_rng(zlib.crc32(name.encode()) + salt)


def real(name, dtype, *dims, low=-3.0, high=3.0, salt=0):
    return np.asarray(random(name, salt).uniform(low, high, dims)).astype(NUMPY[dtype])


def whole(name, dtype, *dims, low=None, high=None, salt=0):
    info = np.iinfo(NUMPY[dtype])
    low, high = info.min if low is None else low, info.max if high is None else high
    return random(name, salt).integers(low, high, dims, dtype=NUMPY[dtype], endpoint=True)


def special(dtype):
    """Signed zeros, infinities, NaN, halves, and neighbours of one."""
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.49999997, 100.0, -100.0]
    with np.errstate(all="ignore"):
        return np.array(values, np.float64).astype(NUMPY[dtype])


def binary_computation(name, opcode, dtype):
    return f"%{name} {{\n  %a = {dtype}[] parameter(0)\n  %b = {dtype}[] parameter(1)\n  ROOT %r = {dtype}[] {opcode}(%a, %b)\n}}\n"



# Element by element: one operand.
for opcode in ("abs", "negate", "sign", "floor", "ceil", "round-nearest-afz", "round-nearest-even", "sqrt"):
    for dtype in ("f32", "f16", "bf16") if opcode in ("abs", "round-nearest-even", "sqrt") else ("f32",):
        name = f"unary__{opcode}__{dtype}"
        x = np.concatenate([special(dtype), real(name, dtype, 48)])
        op(name, [x], f"ROOT %r = {shape(x)} {opcode}(%p0)")
for opcode, low, high in (
    ("exponential", -80, 80),
    ("exponential-minus-one", -10, 20),
    ("log", 1e-3, 1e3),
    ("log-plus-one", -0.9, 50),
    ("logistic", -20, 20),
    ("tanh", -10, 10),
    ("rsqrt", 1e-3, 1e3),
    ("cbrt", -50, 50),
    ("cosine", -50, 50),
    ("sine", -50, 50),
    ("tan", -1.5, 1.5),
    ("erf", -4, 4),
):
    for dtype in ("f32", "bf16", "f16", "f64") if opcode in ("tanh", "logistic") else ("f32", "bf16"):
        name = f"unary__{opcode}__{dtype}"
        # Below -9.7 the result is a denormal f16, for which XLA on a CPU gives 0 and the specification does not.
        narrow = (opcode, dtype) == ("logistic", "f16")
        x = real(name, dtype, 64, low=-9, high=9) if narrow else real(name, dtype, 64, low=low, high=high)
        op(name, [x], f"ROOT %r = {shape(x)} {opcode}(%p0)", FUNCTION if dtype in ("f32", "f64") else FUNCTION_NARROW)
for opcode, dtype in (("not", "s32"), ("not", "pred"), ("popcnt", "u16"), ("count-leading-zeros", "u32"), ("abs", "s8"), ("negate", "u8"), ("sign", "s64")):
    name = f"unary__{opcode}__{dtype}"
    x = np.array([True, False]) if dtype == "pred" else np.concatenate([whole(name, dtype, 30), np.array([0, 1, np.iinfo(NUMPY[dtype]).min, np.iinfo(NUMPY[dtype]).max], NUMPY[dtype])])
    op(name, [x], f"ROOT %r = {shape(x)} {opcode}(%p0)")
op("unary__is-finite__f32", [special("f32")], "ROOT %r = pred[16] is-finite(%p0)")
for exponent, mantissa in ((5, 10), (8, 7), (4, 3)):
    name = f"unary__reduce-precision_e{exponent}m{mantissa}__f32"
    op(name, [real(name, "f32", 64, low=-500, high=500)], f"ROOT %r = f32[64] reduce-precision(%p0), exponent_bits={exponent}, mantissa_bits={mantissa}")
for opcode in ("real", "imag"):
    name = f"unary__{opcode}__c64"
    z = (real(name, "f32", 9) + 1j * real(name, "f32", 9, salt=1)).astype(np.complex64)
    op(name, [z], f"ROOT %r = f32[9] {opcode}(%p0)")

# Two operands.
for opcode in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"):
    for dtype in ("f32", "bf16", "f16", "f8e5m2") if opcode in ("add", "multiply", "maximum") else ("f32", "bf16"):
        name = f"binary__{opcode}__{dtype}"
        if opcode == "power":
            x, y = real(name, dtype, 64, low=0.1, high=8), real(name, dtype, 64, salt=1)
        else:
            edge = special(dtype)
            x = np.concatenate([np.repeat(edge, len(edge)), real(name, dtype, 64)])
            y = np.concatenate([np.tile(edge, len(edge)), real(name, dtype, 64, salt=1)])
        inexact = opcode in ("power", "atan2")
        tolerance = (FUNCTION if dtype == "f32" else FUNCTION_NARROW) if inexact else EXACT
        op(name, [x, y], f"ROOT %r = {shape(x)} {opcode}(%p0, %p1)", tolerance)
for opcode, types in {
    "add": ("s32", "u8", "s64"),
    "subtract": ("u32", "s8"),
    "multiply": ("s16", "u64"),
    "divide": ("s32", "u8"),
    "remainder": ("s32", "u16"),
    "maximum": ("s8", "u32"),
    "minimum": ("s32",),
    "and": ("s32", "pred"),
    "or": ("u8", "pred"),
    "xor": ("s64", "pred"),
    "shift-left": ("s32", "u8"),
    "shift-right-logical": ("s32", "u16"),
    "shift-right-arithmetic": ("s8", "u32"),
}.items():
    for dtype in types:
        name = f"binary__{opcode}__{dtype}"
        if dtype == "pred":
            x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
        else:
            x, y = whole(name, dtype, 48), whole(name, dtype, 48, salt=1)
            if opcode.startswith("shift"):
                y = whole(name, dtype, 48, low=0, high=np.iinfo(NUMPY[dtype]).bits + 2)
            if opcode in ("divide", "remainder"):
                y[:4], x[4], y[4] = 0, np.iinfo(NUMPY[dtype]).min, np.array(-1).astype(NUMPY[dtype])
        op(name, [x, y], f"ROOT %r = {shape(x)} {opcode}(%p0, %p1)")
name = "binary__complex__f32"
op(name, [real(name, "f32", 7), real(name, "f32", 7, salt=1)], "ROOT %r = c64[7] complex(%p0, %p1)")
name = "binary__multiply__c64"
z = (real(name, "f32", 2, 9) + 1j * real(name, "f32", 2, 9, salt=1)).astype(np.complex64)
op(name, [z[0], z[1]], "ROOT %r = c64[9] multiply(%p0, %p1)", SUM)

# Comparison and choice.
edge = special("f32")
left, right = np.repeat(edge, 16), np.tile(edge, 16)
for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
    op(f"compare__{direction.lower()}__f32", [left, right], f"ROOT %r = pred[256] compare(%p0, %p1), direction={direction}")
op("compare__lt_totalorder__f32", [left, right], "ROOT %r = pred[256] compare(%p0, %p1), direction=LT, type=TOTALORDER")
name = "compare__gt__u8"
op(name, [whole(name, "u8", 40), whole(name, "u8", 40, salt=1)], "ROOT %r = pred[40] compare(%p0, %p1), direction=GT")
name = "compare__le__s64"
op(name, [whole(name, "s64", 40), whole(name, "s64", 40, salt=1)], "ROOT %r = pred[40] compare(%p0, %p1), direction=LE")
for dtype in ("f32", "bf16", "s32", "pred"):
    name = f"ternary__select__{dtype}"
    make = (lambda salt: whole(name, "u8", 24, low=0, high=1, salt=salt).astype(bool)) if dtype == "pred" else (lambda salt: real(name, dtype, 24, high=90, low=-90, salt=salt))
    op(name, [whole(name, "u8", 24, low=0, high=1).astype(bool), make(1), make(2)], f"ROOT %r = {dtype}[24] select(%p0, %p1, %p2)")
for dtype in ("f32", "f16", "s8"):
    name = f"ternary__clamp__{dtype}"
    x = [real(name, dtype, 24, low=-90, high=90, salt=salt) for salt in range(3)]
    op(name, x, f"ROOT %r = {dtype}[24] clamp(%p0, %p1, %p2)")
name = "ternary__clamp_scalar__f32"
op(name, [np.float32(-1).reshape(()), np.concatenate([edge, real(name, "f32", 16)]), np.float32(1).reshape(())], "ROOT %r = f32[32] clamp(%p0, %p1, %p2)")

# Conversion.
for source, targets in {
    "f32": ("f16", "bf16", "f64", "f8e4m3fn", "f8e5m2", "s8", "u8", "s32", "u32", "s64", "pred"),
    "f16": ("f32", "s16"),
    "bf16": ("f32", "f16", "s32"),
    "f8e4m3fn": ("f32", "bf16"),
    "f8e5m2": ("f32",),
    "s32": ("f32", "bf16", "u8", "s64", "pred"),
    "u32": ("f32", "s8"),
    "s64": ("s32", "f64"),
    "u8": ("f16", "s8"),
    "pred": ("f32", "s32"),
    "f64": ("f32",),
}.items():
    for target in targets:
        name = f"convert__{source}__{target}"
        if source == "pred":
            x = np.array([True, False, True])
        elif source[0] in "su":
            x = whole(name, source, 48)
        else:
            x = np.concatenate([special(source), real(name, source, 48, low=-400, high=400)])
        op(name, [x], f"ROOT %r = {target}[{len(x)}] convert(%p0)")
for source, target in (("f32", "u32"), ("u16", "bf16"), ("s16", "f16"), ("f64", "u64")):
    name = f"bitcast_convert__{source}__{target}"
    x = whole(name, source, 12, low=0x2000, high=0x7000) if source[0] in "us" else real(name, source, 12)
    op(name, [x], f"ROOT %r = {target}[12] bitcast-convert(%p0)")
name = "bitcast_convert__f32__u8"
op(name, [real(name, "f32", 5)], "ROOT %r = u8[5,4] bitcast-convert(%p0)")

# Movement.
for what, dtype, dims, result in (
    ("broadcast_row", "f32", (4,), "f32[3,4] broadcast(%p0), dimensions={1}"),
    ("broadcast_scalar", "bf16", (), "bf16[2,3] broadcast(%p0), dimensions={}"),
    ("broadcast_middle", "s8", (3, 2), "s8[3,4,2] broadcast(%p0), dimensions={0,2}"),
    ("reshape_merge", "f32", (2, 3, 4), "f32[6,4] reshape(%p0)"),
    ("reshape_to_scalar", "s32", (1, 1), "s32[] reshape(%p0)"),
    ("transpose_021", "f32", (2, 3, 4), "f32[2,4,3] transpose(%p0), dimensions={0,2,1}"),
    ("transpose_3120", "bf16", (2, 3, 4, 5), "bf16[5,3,4,2] transpose(%p0), dimensions={3,1,2,0}"),
    ("slice_strided", "f32", (8, 9), "f32[3,4] slice(%p0), slice={[1:7:2],[0:8:2]}"),
    ("slice_empty", "f32", (5,), "f32[0] slice(%p0), slice={[3:3]}"),
    ("reverse_02", "s32", (2, 3, 4), "s32[2,3,4] reverse(%p0), dimensions={0,2}"),
    ("copy", "f16", (3, 3), "f16[3,3] copy(%p0)"),
):
    name = f"shape__{what}__{dtype}"
    op(name, [real(name, dtype, *dims, low=-50, high=50)], f"ROOT %r = {result}")
for dtype in ("f32", "u8"):
    name = f"shape__concatenate__{dtype}"
    op(name, [real(name, dtype, 2, n, low=0, high=99, salt=n) for n in (1, 3, 2)], f"ROOT %r = {dtype}[2,6] concatenate(%p0, %p1, %p2), dimensions={{1}}")
for what, padding, dims in (("edges", "1_2x0_1", "6,4"), ("interior", "0_0_1x1_0_2", "5,8"), ("negative", "-1_2x-1_-1_1", "4,3")):
    name = f"shape__pad_{what}__f32"
    op(name, [real(name, "f32", 3, 3), np.float32(7).reshape(())], f"ROOT %r = f32[{dims}] pad(%p0, %p1), padding={padding}")
for dtype, dims, dimension in (("f32", "3,4", 1), ("s32", "5", 0), ("bf16", "300", 0), ("u8", "2,3", 0)):
    op(f"shape__iota_d{dimension}__{dtype}", [], f"ROOT %r = {dtype}[{dims}] iota(), iota_dimension={dimension}")
name = "shape__column_major_boundary__f32"
op(name, [real(name, "f32", 3, 5)], "ROOT %r = f32[3,5]{1,0} add(%p0, %p0)", header=", entry_computation_layout={(f32[3,5]{0,1})->f32[3,5]{1,0}}")
CASES[-1].text = CASES[-1].text.replace("%p0 = f32[3,5] ", "%p0 = f32[3,5]{0,1} ")
for what, start in (("inside", (1, 2)), ("clamped", (9, -4))):
    starts = [np.array(value, np.int32) for value in start]
    name = f"dynamic_slice__{what}__f32"
    op(name, [real(name, "f32", 4, 6), *starts], "ROOT %r = f32[2,3] dynamic-slice(%p0, %p1, %p2), dynamic_slice_sizes={2,3}")
    name = f"dynamic_update_slice__{what}__bf16"
    op(name, [real(name, "bf16", 4, 6), real(name, "bf16", 2, 3, salt=1), *starts], "ROOT %r = bf16[4,6] dynamic-update-slice(%p0, %p1, %p2, %p3)")

# Products.
for what, types, a, b, result, dims, tolerance in (
    ("matrix", ("f32", "f32", "f32"), (5, 7), (7, 6), "5,6", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", SUM),
    ("matrix", ("bf16", "bf16", "f32"), (5, 17), (17, 6), "5,6", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", SUM),
    ("matrix", ("bf16", "bf16", "bf16"), (5, 17), (17, 6), "5,6", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", SUM_NARROW),
    ("matrix", ("f16", "f16", "f16"), (4, 9), (9, 3), "4,3", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", SUM_NARROW),
    ("transposed", ("f32", "f32", "f32"), (7, 5), (6, 7), "5,6", "lhs_contracting_dims={0}, rhs_contracting_dims={1}", SUM),
    ("batch", ("f32", "f32", "f32"), (2, 3, 5, 7), (2, 3, 7, 4), "2,3,5,4", "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}", SUM),
    ("batch_inner", ("f32", "f32", "f32"), (5, 2, 7), (4, 2, 7), "2,5,4", "lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}", SUM),
    ("two_contracted", ("f32", "f32", "f32"), (3, 4, 5), (5, 4, 2), "3,2", "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}", SUM),
    ("vector", ("f32", "f32", "f32"), (9,), (9,), "", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", SUM),
    ("outer", ("f32", "f32", "f32"), (4,), (3,), "4,3", "", EXACT),
    ("wrapping", ("s8", "s8", "s32"), (3, 20), (20, 4), "3,4", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", EXACT),
    ("empty", ("f32", "f32", "f32"), (3, 0), (0, 4), "3,4", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", EXACT),
):
    name = f"dot__{what}__{types[0]}" + (f"_{types[2]}" if types[0] != types[2] else "")
    make = whole if types[0] == "s8" else real
    body = f"ROOT %r = {types[2]}[{result}] dot(%p0, %p1)" + (f", {dims}" if dims else "")
    op(name, [make(name, types[0], *a), make(name, types[1], *b, salt=1)], body, tolerance)
for what, dtype, x, w, result, attributes in (
    ("plain", "f32", (1, 2, 6, 6), (3, 2, 3, 3), "1,3,4,4", "window={size=3x3}, dim_labels=bf01_oi01->bf01"),
    ("stride_same", "f32", (2, 3, 7, 7), (4, 3, 3, 3), "2,4,4,4", "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"),
    ("nhwc_groups", "f32", (1, 5, 5, 4), (3, 3, 2, 6), "1,5,5,6", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2"),
    ("depthwise", "f32", (1, 3, 8), (3, 1, 4), "1,3,8", "window={size=4 pad=3_0}, dim_labels=bf0_oi0->bf0, feature_group_count=3"),
    ("transposed", "f32", (1, 2, 4, 4), (2, 3, 3, 3), "1,3,9,9", "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"),
    ("dilated", "f32", (1, 1, 9, 9), (2, 1, 3, 3), "1,2,5,5", "window={size=3x3 rhs_dilate=2x2}, dim_labels=bf01_oi01->bf01"),
    ("batch_groups", "f32", (2, 3, 6), (4, 3, 3), "1,4,4", "window={size=3}, dim_labels=bf0_oi0->bf0, batch_group_count=2"),
    ("plain", "bf16", (1, 2, 6, 6), (3, 2, 3, 3), "1,3,4,4", "window={size=3x3}, dim_labels=bf01_oi01->bf01"),
    ("volume", "f32", (1, 2, 4, 4, 4), (2, 2, 2, 2, 2), "1,2,3,3,3", "window={size=2x2x2}, dim_labels=bf012_oi012->bf012"),
):
    name = f"conv__{what}__{dtype}"
    op(name, [real(name, dtype, *x), real(name, dtype, *w, salt=1)], f"ROOT %r = {dtype}[{result}] convolution(%p0, %p1), {attributes}", SUM if dtype == "f32" else SUM_NARROW)

# Reductions.
for what, opcode, dtype, dims, result, over, init, tolerance in (
    ("sum", "add", "f32", (4, 9), "4", "1", "0", SUM),
    ("sum_all", "add", "f32", (3, 4, 5), "", "0,1,2", "0", SUM),
    ("sum_outer", "add", "s32", (4, 9), "9", "0", "5", EXACT),
    ("product", "multiply", "f32", (3, 6), "3", "1", "1", SUM),
    ("max", "maximum", "bf16", (4, 9), "4", "1", "-inf", EXACT),
    ("min", "minimum", "s8", (4, 9), "4", "1", "127", EXACT),
    ("max_nan", "maximum", "f32", (2, 16), "2", "1", "-inf", EXACT),
    ("empty", "add", "f32", (3, 0), "3", "1", "2.5", EXACT),
    ("or", "or", "pred", (3, 8), "3", "1", "false", EXACT),
):
    name = f"reduce__{what}__{dtype}"
    x = whole(name, dtype, *dims, low=-100, high=100) if dtype[0] == "s" else real(name, dtype, *dims)
    if dtype == "pred":
        x = real(name, "f32", *dims) > 2
    if what == "max_nan":
        x[0] = special("f32")
    op(name, [x], f"%i = {dtype}[] constant({init})\nROOT %r = {dtype}[{result}] reduce(%p0, %i), dimensions={{{over}}}, to_apply=%f", tolerance, binary_computation("f", opcode, dtype))
name = "reduce__argmax_variadic__f32"
op(
    name,
    [np.concatenate([real(name, "f32", 3, 6), np.full((3, 2), 9, np.float32)], 1)],
    """%n = s32[3,8] iota(), iota_dimension=1
    %i = f32[] constant(-inf)
    %j = s32[] constant(0)
    ROOT %r = (f32[3], s32[3]) reduce(%p0, %n, %i, %j), dimensions={1}, to_apply=%f""",
    called="""%f {
  %a = f32[] parameter(0)
  %i = s32[] parameter(1)
  %b = f32[] parameter(2)
  %j = s32[] parameter(3)
  %keep = pred[] compare(%a, %b), direction=GE
  %v = f32[] select(%keep, %a, %b)
  %n = s32[] select(%keep, %i, %j)
  ROOT %r = (f32[], s32[]) tuple(%v, %n)
}
""",
)
for what, opcode, dtype, dims, result, window, init, tolerance in (
    ("max_pool", "maximum", "f32", (1, 2, 6, 6), "1,2,3,3", "size=1x1x2x2 stride=1x1x2x2", "-inf", EXACT),
    ("sum_pad", "add", "f32", (5, 5), "5,5", "size=3x3 pad=1_1x1_1", "0", SUM),
    ("cumulative_sum", "add", "s32", (9,), "9", "size=9 pad=8_0", "0", EXACT),
    ("dilated", "minimum", "f32", (8,), "6", "size=2 rhs_dilate=2", "inf", EXACT),
    ("base_dilated", "add", "f32", (4,), "6", "size=2 lhs_dilate=2", "0", SUM),
):
    name = f"reduce_window__{what}__{dtype}"
    x = whole(name, dtype, *dims, low=-100, high=100) if dtype[0] == "s" else real(name, dtype, *dims)
    op(name, [x], f"%i = {dtype}[] constant({init})\nROOT %r = {dtype}[{result}] reduce-window(%p0, %i), window={{{window}}}, to_apply=%f", tolerance, binary_computation("f", opcode, dtype))
SELECT = "%s {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %r = pred[] compare(%a, %b), direction=GE\n}\n"
for what, dims, source, window in (("plain", (6, 6), (3, 3), "size=2x2 stride=2x2"), ("overlapping", (5, 5), (2, 2), "size=3x3 stride=2x2")):
    name = f"select_and_scatter__{what}__f32"
    op(
        name,
        [real(name, "f32", *dims), real(name, "f32", *source, salt=1)],
        f"%i = f32[] constant(0)\nROOT %r = f32[{dims[0]},{dims[1]}] select-and-scatter(%p0, %p1, %i), window={{{window}}}, select=%s, scatter=%f",
        SUM,
        SELECT + binary_computation("f", "add", "f32"),
    )

# Indexing.
for what, dims, index, result, attributes in (
    ("rows", (5, 3), [[0], [4], [2]], "3,3", "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"),
    ("rows_clamped", (5, 3), [[-7], [4], [99]], "3,3", "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"),
    ("windows", (6, 6), [[0, 1], [3, 5]], "2,2,3", "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}"),
    ("points", (4, 5), [[1, 3, 0], [2, 4, 0]], "3", "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1}"),
):
    name = f"gather__{what}__f32"
    op(name, [real(name, "f32", *dims), np.array(index, np.int32)], f"ROOT %r = f32[{result}] gather(%p0, %p1), {attributes}")
for what, opcode, dtype, index in (
    ("add_duplicates", "add", "f32", [[1], [3], [1]]),
    ("maximum", "maximum", "s32", [[0], [4], [0]]),
    ("dropped", "add", "f32", [[-1], [2], [7]]),
    ("multiply", "multiply", "f32", [[2], [2], [2]]),
):
    name = f"scatter__{what}__{dtype}"
    make = (lambda *d, salt=0: whole(name, "s32", *d, low=-99, high=99, salt=salt)) if dtype == "s32" else (lambda *d, salt=0: real(name, "f32", *d, salt=salt))
    op(
        name,
        [make(5, 3), np.array(index, np.int32), make(3, 3, salt=1)],
        f"ROOT %r = {dtype}[5,3] scatter(%p0, %p1, %p2), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%f",
        EXACT if dtype == "s32" else SUM,
        binary_computation("f", opcode, dtype),
    )
name = "scatter__set_last_wins__bf16"
op(
    name,
    [real(name, "bf16", 6), np.array([4, 0, 4], np.int32), real(name, "bf16", 3, salt=1)],
    "ROOT %r = bf16[6] scatter(%p0, %p1, %p2), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%f",
    called="%f {\n  %a = bf16[] parameter(0)\n  ROOT %b = bf16[] parameter(1)\n}\n",
)


# Order.
def comparator(types, direction="LT", kind=""):
    lines = [f"  %{side}{i} = {dtype}[] parameter({2 * i + n})" for i, dtype in enumerate(types) for n, side in enumerate("ab")]
    return "%f {\n" + "\n".join(lines) + f"\n  ROOT %r = pred[] compare(%a0, %b0), direction={direction}{kind}\n}}\n"


for dtype in ("f32", "s8", "bf16"):
    name = f"sort__ascending__{dtype}"
    x = whole(name, dtype, 31) if dtype == "s8" else real(name, dtype, 31)
    op(name, [x], f"ROOT %r = {dtype}[31] sort(%p0), dimensions={{0}}, to_apply=%f", called=comparator([dtype]))
name = "sort__stable_pairs__s32_f32"
op(name, [whole(name, "s32", 3, 12, low=0, high=3), real(name, "f32", 3, 12, salt=1)], "ROOT %r = (s32[3,12], f32[3,12]) sort(%p0, %p1), dimensions={1}, is_stable=true, to_apply=%f", called=comparator(["s32", "f32"]))
name = "sort__outer_descending__f32"
op(name, [real(name, "f32", 9, 2)], "ROOT %r = f32[9,2] sort(%p0), dimensions={0}, to_apply=%f", called=comparator(["f32"], "GT"))
op("sort__total_order__f32", [special("f32")], "ROOT %r = f32[16] sort(%p0), dimensions={0}, to_apply=%f", called=comparator(["f32"], kind=", type=TOTALORDER"))
for what, x in (("plain", real("topk__plain__f32", "f32", 2, 9)), ("ties", np.array([[1, 3, 3, 2, 3, 0]], np.float32))):
    op(f"topk__{what}__f32", [x], f"ROOT %r = (f32[{len(x)},3], s32[{len(x)},3]) topk(%p0), k=3, largest=true")

# Control.
op(
    "control__while_tuple__f32",
    [np.array(6, np.int32), real("control__while_tuple__f32", "f32", 4)],
    """%z = s32[] constant(0)
    %t = (s32[], s32[], f32[4]) tuple(%z, %p0, %p1)
    %w = (s32[], s32[], f32[4]) while(%t), condition=%c, body=%b
    ROOT %r = f32[4] get-tuple-element(%w), index=2""",
    called="""%c {
  %t = (s32[], s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] get-tuple-element(%t), index=1
  ROOT %r = pred[] compare(%i, %n), direction=LT
}
%b {
  %t = (s32[], s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] get-tuple-element(%t), index=1
  %x = f32[4] get-tuple-element(%t), index=2
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %y = f32[4] add(%x, %x)
  ROOT %r = (s32[], s32[], f32[4]) tuple(%j, %n, %y)
}
""",
)
UNARY = "%{name} {{\n  %x = f32[3] parameter(0)\n  ROOT %r = f32[3] {opcode}(%x)\n}}\n"
branches = "".join(UNARY.format(name=f"f{i}", opcode=opcode) for i, opcode in enumerate(("negate", "abs", "floor")))
for index in (1, -1, 7):
    name = f"control__conditional_{'last' if index == -1 else 'beyond' if index == 7 else 'inside'}__f32"
    op(name, [np.array(index, np.int32), real(name, "f32", 3)], "ROOT %r = f32[3] conditional(%p0, %p1, %p1, %p1), branch_computations={%f0, %f1, %f2}", called=branches)
name = "control__conditional_pred__f32"
op(name, [np.array(False), real(name, "f32", 3)], "ROOT %r = f32[3] conditional(%p0, %p1, %p1), true_computation=%f0, false_computation=%f1", called=branches)
name = "control__call__f32"
op(name, [real(name, "f32", 3)], "%c = f32[3] call(%p0), to_apply=%f0\nROOT %r = f32[3] add(%c, %p0)", called=branches)
name = "control__map__f32"
op(name, [real(name, "f32", 2, 3), real(name, "f32", 2, 3, salt=1)], "ROOT %r = f32[2,3] map(%p0, %p1), dimensions={0,1}, to_apply=%f", called=binary_computation("f", "subtract", "f32"))
name = "control__nested_tuple__f32"
op(name, [real(name, "f32", 2), whole(name, "s32", 3)], "%a = (f32[2], s32[3]) tuple(%p0, %p1)\nROOT %r = ((f32[2], s32[3]), s32[3]) tuple(%a, %p1)")
name = "control__optimization_barrier__f32"
op(name, [real(name, "f32", 4)], "%b = f32[4] opt-barrier(%p0)\nROOT %r = f32[4] negate(%b)")
name = "control__root_not_last__f32"
op(name, [real(name, "f32", 4)], "ROOT %r = f32[4] negate(%p0)\n%unused = f32[4] abs(%p0)")
name = "control__donated__f32"
traced(name, [real(name, "f32", 4), real(name, "f32", 3, 3, salt=1)], lambda x, cache: (x * 2, cache.at[1].set(x[:3])), EXACT, donated=(1,))

# Whole functions of the instruction set.
x = real("batch_norm__x", "f32", 4, 3, 5)
scale, offset, mean, variance = (real("batch_norm__p", "f32", 3, low=0.5, high=1.5, salt=salt) for salt in range(4))
op("batch_norm__inference__f32", [x, scale, offset, mean, variance], "ROOT %r = f32[4,3,5] batch-norm-inference(%p0, %p1, %p2, %p3, %p4), epsilon=0.001, feature_index=1", CHAIN)
op("batch_norm__training__f32", [x, scale, offset], "ROOT %r = (f32[4,3,5], f32[3], f32[3]) batch-norm-training(%p0, %p1, %p2), epsilon=0.001, feature_index=1", CHAIN)
op("batch_norm__grad__f32", [x, scale, mean, variance, real("batch_norm__g", "f32", 4, 3, 5)], "ROOT %r = (f32[4,3,5], f32[3], f32[3]) batch-norm-grad(%p0, %p1, %p2, %p3, %p4), epsilon=0.001, feature_index=1", CHAIN)
name = "linear_algebra__triangular_solve__f32"
lower = np.tril(real(name, "f32", 4, 4)) + 4 * np.eye(4, dtype=np.float32)
op(name, [lower, real(name, "f32", 4, 2, salt=1)], "ROOT %r = f32[4,2] triangular-solve(%p0, %p1), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE", CHAIN)
name = "linear_algebra__cholesky__f32"
op(name, [(lower @ lower.T).astype(np.float32)], "ROOT %r = f32[4,4] cholesky(%p0), lower=true", CHAIN)
for kind, length, source, result in (("FFT", 8, "c64", "c64[2,8]"), ("IFFT", 6, "c64", "c64[2,6]"), ("RFFT", 8, "f32", "c64[2,5]"), ("IRFFT", 8, "c64", "f32[2,8]")):
    name = f"fft__{kind.lower()}__{source}"
    n = 5 if kind == "IRFFT" else length
    x = real(name, "f32", 2, n)
    if source == "c64":
        x = (x + 1j * real(name, "f32", 2, n, salt=1)).astype(np.complex64)
    op(name, [x], f"ROOT %r = {result} fft(%p0), fft_type={kind}, fft_length={{{length}}}", CHAIN)
for algorithm, words, dtype, dims in (("rng_three_fry", 2, "u32", "2,5"), ("rng_philox", 3, "u32", "9"), ("rng_three_fry", 2, "u64", "4"), ("rng_default", 3, "u32", "6")):
    name = f"rng__{algorithm.removeprefix('rng_')}__{dtype}"
    op(name, [whole(name, "u64", words)], f"ROOT %r = (u64[{words}], {dtype}[{dims}]) rng-bit-generator(%p0), algorithm={algorithm}")

# What front ends make of common layers.
name = "layer__softmax__f32"
traced(name, [real(name, "f32", 4, 16)], lambda x: jax.nn.softmax(x, axis=-1))
name = "layer__layer_norm__f32"
traced(name, [real(name, "f32", 4, 16), real(name, "f32", 16, salt=1)], lambda x, w: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w)
name = "layer__gelu__f32"
traced(name, [real(name, "f32", 4, 16)], jax.nn.gelu)
name = "layer__attention__f32"
traced(name, [real(name, "f32", 2, 6, 8, low=-1, high=1, salt=salt) for salt in range(3)], lambda q, k, v: jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 8**0.5) @ v)
name = "layer__embedding__bf16"
traced(name, [real(name, "bf16", 10, 8), np.array([[1, 9, 0]], np.int32)], lambda table, ids: table[ids], EXACT)
name = "layer__cumulative_sum__f32"
traced(name, [real(name, "f32", 3, 17)], lambda x: jnp.cumsum(x, axis=1), SUM)
name = "layer__threefry_uniform__f32"
traced(name, [np.array([1, 2], np.uint32)], lambda key: jax.random.uniform(key, (3, 5), jnp.float32), EXACT)

# Between four replicas.
ADD = binary_computation("f", "add", "f32")
for what, dims, body, tolerance in (
    ("all_reduce", (3,), "ROOT %r = f32[3] all-reduce(%p0), replica_groups={}, to_apply=%f", SUM),
    ("all_reduce_groups", (3,), "ROOT %r = f32[3] all-reduce(%p0), replica_groups={{0,2},{1,3}}, to_apply=%f", SUM),
    ("all_gather", (2, 3), "ROOT %r = f32[8,3] all-gather(%p0), replica_groups={}, dimensions={0}", EXACT),
    ("all_gather_order", (2, 3), "ROOT %r = f32[2,6] all-gather(%p0), replica_groups={{1,3},{2,0}}, dimensions={1}", EXACT),
    ("reduce_scatter", (8, 2), "ROOT %r = f32[2,2] reduce-scatter(%p0), replica_groups={}, dimensions={0}, to_apply=%f", SUM),
    ("all_to_all", (4, 2), "ROOT %r = f32[4,2] all-to-all(%p0), replica_groups={{0,1,2,3}}, dimensions={0}", EXACT),
    ("collective_permute", (3,), "ROOT %r = f32[3] collective-permute(%p0), source_target_pairs={{0,1},{1,2},{2,0}}", EXACT),
    ("replica_id", (1,), "%i = u32[] replica-id()\n%j = f32[] convert(%i)\n%b = f32[1] broadcast(%j), dimensions={}\nROOT %r = f32[1] add(%b, %p0)", EXACT),
):
    name = f"collective__{what}__f32"
    op(name, [[real(name, "f32", *dims, salt=device)] for device in range(4)], body, tolerance, ADD if "%f" in body else "", replicas=4)

# What random cases have found: see `random_cases.py`.
# Of an exponent XLA takes six bits, and the sign bit of unsigned types for a sign.
name = "binary__power__u64"
op(name, [whole(name, "u64", 40, low=0, high=12), np.concatenate([whole(name, "u64", 20, low=0, high=90, salt=1), whole(name, "u64", 20, salt=2)])], "ROOT %r = u64[40] power(%p0, %p1)")
# The only NaN of a type is a negative one.
name = "compare__gt_totalorder__f8e4m3fnuz"
codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fnuz)
op(name, [codes, np.concatenate([codes[128:], codes[:128]])], "ROOT %r = pred[256] compare(%p0, %p1), direction=GT, type=TOTALORDER")
# XLA leaves the initial value out.
name = "reduce__nothing__s32"
op(name, [whole(name, "s32", 3, 4)], "%i = s32[] constant(5)\nROOT %r = s32[3,4] reduce(%p0, %i), dimensions={}, to_apply=%f", called=binary_computation("f", "or", "s32"))
name = "ternary__clamp__pred"
op(name, [whole(name, "u8", 16, low=0, high=1, salt=salt).astype(bool) for salt in range(3)], "ROOT %r = pred[16] clamp(%p0, %p1, %p2)")
