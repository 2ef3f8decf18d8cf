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

  tools/client_suites.py --nkipy CHECKOUT --headers CHECKOUT/src/libnrt/include [PYTEST ARGUMENT…]

The checkouts are github.com/aws-neuron/nkipy and github.com/aws-neuron/aws-neuron-sdk. Everything
is written below the build directory. Exit code: 0 if no test failed but those that are expected to
fail for a reason that has nothing to do with the library, 1 otherwise.
"""

import argparse
import os
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

# Test (end of its id), and why it fails without a fault of the library.
EXPECTED_FAILURES = {
    "test_compile_wrappers.TestCompilerWrappers.test_compile_with_invalid_output_dir":
        "the super-user can make any folder" if os.geteuid() == 0 else None,
}

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


def environment(work: Path, nkipy: Path, root: Path, compiler: Path) -> Path:
    """A virtual environment with both clients; gives its interpreter."""
    folder = work / "venv"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        run([python, "-m", "pip", "install", "-q", *PACKAGES])
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
    shutil.copytree(nkipy, source, ignore=shutil.ignore_patterns(".git", "build"))
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
           "--force-reinstall"]
    path = f"{folder}/bin:{os.environ['PATH']}"
    run([*pip, source / "nkipy"], env={**os.environ, "PATH": path})
    run([*pip, source / "spike"],
        env={**os.environ, "PATH": path, "NEURON_ROOT": str(root),
             "CMAKE_ARGS": f"-DNEURON_ROOT={root}"})
    run([python, "-c", "import spike._spike"], cwd=work)
    return python


def suite(work: Path, python: Path, root: Path, arguments: list[str]) -> bool:
    """Runs both suites, prints the counts, and says whether only expected tests failed."""
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
    if not report.exists():
        print("pytest wrote no report")
        return False
    counts: dict[str, int] = {}
    right = True
    for case in ElementTree.parse(report).iter("testcase"):
        found = {child.tag: child for child in case}
        outcome = next((o for o in ("failure", "error", "skipped") if o in found), "passed")
        if outcome == "skipped" and found["skipped"].get("type") == "pytest.xfail":
            outcome = "expected failure (by the suite)"
        if outcome in ("failure", "error"):
            name = f"{case.get('classname')}.{case.get('name')}"
            reason = next((r for end, r in EXPECTED_FAILURES.items() if name.endswith(end)), None)
            if reason:
                outcome = f"expected failure ({reason})"
            else:
                right = False
                print(f"{outcome}: {name}")
        counts[outcome] = counts.get(outcome, 0) + 1
    counts["collected"] = sum(counts.values())
    width = max(map(len, counts))
    for outcome, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{outcome:{width}} {count:5}")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nkipy", type=Path, required=True, help="a checkout of aws-neuron/nkipy")
    parser.add_argument("--headers", type=Path, required=True,
                        help="the folder that has nrt/nrt.h, src/libnrt/include of the SDK")
    parser.add_argument("--lib", type=Path, help="a libnrt.so, instead of building the simulator's")
    parser.add_argument("--compiler", type=Path, help="a neuronx-cc, instead of building the stand-in")
    parser.add_argument("--profile", default="release", help="cargo's profile to build with")
    parser.add_argument("--work", type=Path, help="where to build [default: clients below target]")
    known, arguments = parser.parse_known_args()

    if not (known.headers / "nrt/nrt.h").exists():
        parser.error(f"{known.headers} has no nrt/nrt.h")
    if not (known.nkipy / "spike/CMakeLists.txt").exists():
        parser.error(f"{known.nkipy} is no checkout of nkipy")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    work = (known.work or target / "clients").resolve()
    work.mkdir(parents=True, exist_ok=True)
    library, compiler = known.lib, known.compiler
    if library is None or compiler is None:
        built = build_project(target, known.profile)
        library, compiler = library or built[0], compiler or built[1]
    root = neuron_root(work, library, known.headers.resolve())
    python = environment(work, known.nkipy.resolve(), root, compiler)
    return 0 if suite(work, python, root, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
