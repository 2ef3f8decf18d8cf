#!/usr/bin/env python3
"""Runs the public test suites of libnrt's Python clients over the simulated libnrt.so.

nkipy is a front end that traces NumPy programs to HLO; spike is its runtime layer, a C++ extension
over libnrt. Both come in one repository and are taken as they are: this script builds them in a
copy, against the public headers, and calls pytest. What only AWS's package index has is left out or
stood in for:

  libnrt.so.1   the simulator of this workspace
  neuronx-cc    `metaneff neuronx-cc`, which packs HLO into NEFFs
  neuronxcc     a Python package of two modules, written below, that nkipy imports at start
  nki, nkigen   left out; the suites skip what needs them

  tools/client_suites.py --nkipy SOURCE --sdk SOURCE [--no-torch] [PYTEST ARGUMENT…]

A SOURCE is a folder, or a git URL with an optional `@COMMIT` behind it: of
github.com/aws-neuron/nkipy, and of github.com/aws-neuron/aws-neuron-sdk for the public headers.
Everything is written below the build directory. The tests run as they are; what EXPECTATIONS below
says of some of them, with reasons, is compared with what they did. Exit code: 0 if every outcome is
the expected one, 1 otherwise, 2 if the suites could not be run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import textwrap
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = [
    "boto3", "build", "cmake", "grpcio-tools", "ml_dtypes", "nanobind", "ninja", "numpy", "pathspec",
    "protobuf", "pytest", "pytest-order", "pytest-xdist", "ruff", "scikit-build-core",
    "setuptools", "wheel",
]

SUPER_USER = os.geteuid() == 0

# Outcome, pattern of the test's id (class and name), reason. Every other test must pass, and
# an entry that no test answers to is a fault of this list, but for those that say `sometimes`.
EXPECTATIONS = [
    ("skipped", r"^tests\.unit\.test_nki\.", "kernels in NKI need AWS's compiler or its nki package"),
    ("skipped", r"nkigen|NkiGen", "the nkigen back end builds on AWS's LLVM fork"),
    ("skipped", r"test_indexing_slicing_comprehensive.*TestIndexingSlicingCore",
     "the suite skips a case whose meaning differs in HLO mode"),
    ("xfailed", r"^tests\.unit\.test_tensor_api\..*float8", "the suite expects spike to lack 8-bit floats"),
    ("sometimes failed", r"test_tensor_api_native_ops\.test_broadcasting.*(mod|floordiv)",
     "on random inputs nkipy composes it of a quotient that may be rounded up to a whole number; "
     "the same formula in NumPy differs from numpy.mod in 8 of 1,500 draws of this size"),
] + ([
    ("failed", r"test_compile_with_invalid_output_dir$", "the super-user can make any folder"),
] if SUPER_USER else [])

WITHOUT_TORCH = [
    ("skipped", r"^tests\.unit\.test_tensor_api\.", "PyTorch is left out"),
    ("failed", r"^tests\.integration\.test_write_from\.TestWriteFromTorch\.", "PyTorch is left out"),
]

# What nkipy imports of AWS's neuronxcc package. `neuronxcc.nki.compile` is absent on purpose: the
# suites skip kernels in AWS's kernel language where it is.
STAND_IN = {
    "neuronxcc/__init__.py": "",
    "neuronxcc/driver/__init__.py": "",
    "neuronxcc/driver/CommandDriver.py": """
        import subprocess
        import sys

        def main():
            code = subprocess.run(sys.argv).returncode
            if code:
                sys.exit(code)
        """,
    "neuronxcc/nki/__init__.py": "",
    "neuronxcc/nki/language.py": """
        from ml_dtypes import bfloat16, float8_e4m3, float8_e5m2
        """,
    "neuronxcc/nki/typing.py": """
        class tensor: ...
        class mutable_tensor(tensor): ...
        class mutable: ...
        class immutable: ...
        """,
}


def run(command, **options):
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run(list(map(str, command)), check=True, **options)


def fetch(source: str, name: str, work: Path, parts: list[str]) -> Path:
    """A folder as it is, or a shallow clone of a git URL with what is needed of it."""
    if Path(source).is_dir():
        return Path(source).resolve()
    url, _, commit = source.rpartition("@") if "@" in source.rpartition("/")[2] else (source, "", "")
    folder = work / "sources" / name
    if not (folder / ".git").exists():
        run(["git", "init", "-q", folder])
        run(["git", "-C", folder, "remote", "add", "origin", url])
    if parts:
        run(["git", "-C", folder, "sparse-checkout", "set", *parts])
    run(["git", "-C", folder, "fetch", "-q", "--depth", "1", "--filter=blob:none", "origin",
         commit or "HEAD"])
    run(["git", "-C", folder, "checkout", "-q", "--detach", "FETCH_HEAD"])
    return folder


def build_project(target: Path, profile: str) -> tuple[Path, Path]:
    """Builds the library and the stand-in; gives their paths."""
    run(["cargo", "build", "--profile", profile, "-p", "metaneff-libnrt-sim", "-p", "metaneff-cli"],
        cwd=ROOT)
    folder = target / ("debug" if profile == "dev" else profile)
    return folder / "libnrt.so", folder / "neuronx-cc"


def neuron_root(work: Path, library: Path, headers: Path) -> Path:
    """A folder as the Neuron runtime's package installs it."""
    root = work / "neuron"
    shutil.rmtree(root, ignore_errors=True)
    (root / "lib").mkdir(parents=True)
    shutil.copy2(library, root / "lib/libnrt.so.1")
    (root / "lib/libnrt.so").symlink_to("libnrt.so.1")
    shutil.copytree(headers, root / "include")
    return root


def environment(work: Path, nkipy: Path, root: Path, compiler: Path, torch: bool) -> Path:
    """A virtual environment with both clients; gives its interpreter."""
    folder = work / "venv"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    run([python, "-m", "pip", "install", "-q", *PACKAGES, *(["torch"] if torch else [])])
    site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          check=True, capture_output=True, text=True).stdout.strip()
    for name, text in STAND_IN.items():
        path = Path(site) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    link = folder / "bin/neuronx-cc"
    link.unlink(missing_ok=True)
    link.symlink_to(compiler.resolve())

    source = work / "nkipy"
    shutil.rmtree(source, ignore_errors=True)

    def left_out(folder: str, names: list[str]) -> set[str]:
        # A folder that is called as the package would be taken for it.
        top = {"nkigen"} if Path(folder) == nkipy else set()
        return {".git", "build", *top} & set(names)

    shutil.copytree(nkipy, source, ignore=left_out)
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
           "--force-reinstall"]
    path = f"{folder}/bin:{os.environ['PATH']}"
    run([*pip, source / "nkipy"], env={**os.environ, "PATH": path})
    run([*pip, source / "spike"],
        env={**os.environ, "PATH": path, "NEURON_ROOT": str(root),
             "CMAKE_ARGS": f"-DNEURON_ROOT={root}"})
    run([python, "-c", "import spike._spike"], cwd=work)
    return python


def suite(work: Path, python: Path, root: Path, arguments: list[str]) -> Path:
    """Runs both suites; gives their report."""
    report = work / "report.xml"
    report.unlink(missing_ok=True)
    variables = {
        **os.environ,
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(root / "lib"),
        "TMPDIR": str(work / "tmp"),
    }
    (work / "tmp").mkdir(exist_ok=True)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "spike/tests",
               f"--junitxml={report}", *arguments]
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run(list(map(str, command)), cwd=work / "nkipy", env=variables)
    return report


def outcome_of(case: ElementTree.Element) -> str:
    found = {child.tag: child for child in case}
    if "failure" in found or "error" in found:
        return "failed"
    if "skipped" in found:
        return "xfailed" if found["skipped"].get("type") == "pytest.xfail" else "skipped"
    return "passed"


def compare(report: Path, expectations: list[tuple[str, str, str]], whole: bool) -> bool:
    """Prints the counts and what is not as expected; says whether all is."""
    counts: dict[str, int] = {}
    used = [0] * len(expectations)
    right = True
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        outcome = outcome_of(case)
        counts[outcome] = counts.get(outcome, 0) + 1
        entry = next((n for n, (expected, pattern, _) in enumerate(expectations)
                      if expected.split()[-1] == outcome and re.search(pattern, name)), None)
        if entry is not None:
            used[entry] += 1
        elif outcome != "passed":
            right = False
            print(f"not expected: {outcome} {name}")
    for (outcome, pattern, reason), number in zip(expectations, used):
        print(f"{number:5} {outcome}: {reason}")
        if whole and number == 0 and not outcome.startswith("sometimes"):
            right = False
            print(f"not expected: no test that matches {pattern} has {outcome}")
    counts["collected"] = sum(counts.values())
    width = max(map(len, counts))
    for outcome, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{outcome:{width}} {count:5}")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nkipy", required=True, metavar="SOURCE",
                        help="folder or git URL[@COMMIT] of aws-neuron/nkipy")
    parser.add_argument("--sdk", required=True, metavar="SOURCE",
                        help="folder or git URL[@COMMIT] of aws-neuron/aws-neuron-sdk")
    parser.add_argument("--lib", type=Path, help="a libnrt.so, instead of building the simulator's")
    parser.add_argument("--compiler", type=Path, help="a neuronx-cc, instead of building the stand-in")
    parser.add_argument("--profile", default="release", help="cargo's profile to build with")
    parser.add_argument("--work", type=Path, help="where to build [default: clients below target]")
    parser.add_argument("--no-torch", action="store_true",
                        help="without PyTorch, which is large, and the tests that need it")
    known, arguments = parser.parse_known_args()

    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    work = (known.work or target / "clients").resolve()
    work.mkdir(parents=True, exist_ok=True)
    try:
        nkipy = fetch(known.nkipy, "nkipy", work, [])
        headers = fetch(known.sdk, "sdk", work, ["src/libnrt/include"]) / "src/libnrt/include"
        if not (headers / "nrt/nrt.h").exists():
            parser.error(f"{known.sdk} has no src/libnrt/include/nrt/nrt.h")
        if not (nkipy / "spike/CMakeLists.txt").exists():
            parser.error(f"{known.nkipy} has no spike/CMakeLists.txt")
        library, compiler = known.lib, known.compiler
        if library is None or compiler is None:
            built = build_project(target, known.profile)
            library, compiler = library or built[0], compiler or built[1]
        root = neuron_root(work, library, headers)
        python = environment(work, nkipy, root, compiler, not known.no_torch)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the suites cannot be run: {error}", file=sys.stderr)
        return 2
    report = suite(work, python, root, arguments)
    if not report.exists():
        print("pytest wrote no report", file=sys.stderr)
        return 2
    expectations = EXPECTATIONS + (WITHOUT_TORCH if known.no_torch else [])
    # With a choice of tests not every entry has one.
    chosen = any(not argument.startswith("-n") and argument != "-q" for argument in arguments
                 if not argument.isdigit())
    return 0 if compare(report, expectations, not chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
