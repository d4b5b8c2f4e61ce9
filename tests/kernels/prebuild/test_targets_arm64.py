"""ARM64: kernels of all files compile for it, into its vectors; where QEMU is at hand, all also run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lite.kernels.prebuild import library
from lite.kernels.prebuild.signatures import SIGNATURES
from lite.kernels.prebuild.targets import TARGETS

pytestmark = pytest.mark.simulator

CHECKOUT = Path(__file__).parents[3]
SCRIPT = CHECKOUT / "bench" / "arm64.py"
ROOT = os.environ.get("LITE_ARM64_ROOT")
EMULATED = ("returns", "log_softmax", "sample_tokens", "sum_tree", "optimizers", "layers")

# With their helpers all code that is written for vectors; the kernels beside them take half of the time.
KERNELS = (
    "returns.lambda_returns", "returns.fixed_lambda_returns", "returns.advantages",
    "multistep_return.sequences", "sum_tree.update", "optimizers.adam", "optimizers.lerp",
    "log_softmax.rows", "log_softmax.log_softmax", "token_log_probs.scores", "linear_log_probs.merge",
    "flat_rows.flat_row", "layers.gelu", "layers.softmax",
    "layers.layer_norm", "images.affine", "attention.attention", "recurrent.gru", "convolution.convolve",
)  # fmt: skip

ASSEMBLY = """
import sys
import llvmlite.binding as llvm
from lite.kernels.prebuild import kernel_object
from lite.kernels.prebuild.targets import TARGETS

target = TARGETS["armv8"]
if not target.native:
    kernel_object._pretend(target)
for name, signatures in [*kernel_object.SIGNATURES.items()]:
    if name in sys.argv:
        del signatures[1:]  # others differ in the numbers' size
    else:
        del kernel_object.SIGNATURES[name]
program = kernel_object.program("", list(kernel_object.SIGNATURES))
machine = llvm.Target.from_triple(program.triple).create_target_machine(
    cpu=target.processor, features=target.features, opt=3, reloc="pic", codemodel="default"
)
machine.set_asm_verbosity(False)
print(*kernel_object.SIGNATURES)
print(machine.emit_assembly(program))
"""

FORMULAS = (
    "maximum_float_5", "odd_float_5", "sum_of_exp_float_7", "sums_of_exp_float_7", "sums_apart_float_7",
    "weights_apart_float_9", "_shifted_float_10",
)  # fmt: skip
# Loops that LLVM makes vectors of, in what Numba calls them or the number of the kernel, and what is in them.
LOOPS = {
    "returns5_step": "fmla", "returns11_gain_terms": "fmul", "returns13_lambda_terms": "fmul",
    "multistep_return7_double": "fadd", "thresholds5reach": "fcmge", "thresholds11count_equal": "fcmeq",
    "optimizers.adam": "fsqrt", "optimizers.lerp": "fmla", "layers.gelu": "fmla", "layers.layer_norm": "fmla",
    "images.affine": "fdiv",
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Instructions of kernels by the name of the function."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        pytest.skip("nothing is compiled with NUMBA_DISABLE_JIT")
    environment = {
        **TARGETS["armv8"].environment,
        "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
        "LITE_KERNELS": "numba",
        "NUMBA_OPT": "3",
    }
    run = subprocess.run(
        [sys.executable, "-c", ASSEMBLY, *KERNELS],
        env=os.environ | environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    names, *lines = run.stdout.splitlines()
    found: dict[str, list[str]] = {}
    function = ""
    for line in lines:
        if label := re.match(r"([A-Za-z_][\w.]*):", line):
            function = label[1]
        elif re.match(r"\t[a-z]", line):
            found.setdefault(function, []).append(" ".join(line.split()))
    for number, name in enumerate(names.split()):
        found[name] = found.pop(f"kernel_{number}_0")
    return found


def vectors(lines: list[str], instruction: str) -> int:
    """How often it is there, on vectors."""
    return sum(bool(re.match(rf"{instruction} v\d+\.", line)) for line in lines)


def test_kernels_of_every_file_compile_into_vectors(compiled: dict[str, list[str]]) -> None:
    """Where a processor loads no parts of vectors, LLVM would put a branch around each number at the ends of
    rows."""
    files, compiled_of = ({name.partition(".")[0] for name in names} for names in (SIGNATURES, KERNELS))
    assert files - compiled_of == {"sample_tokens"}  # made of what flat_rows is made of, and the longest
    assert min(len(compiled[name]) for name in KERNELS) > 10

    for name in FORMULAS:
        lines = compiled[name]
        assert vectors(lines, r"f\w+") >= 10
        single = sum(bool(re.match(r"f(n?madd|n?msub|add|sub|mul|div|cmp) [sd]\d", line)) for line in lines)
        assert 4 * single < vectors(lines, r"\w+")  # parameters, and sums of all lanes
        assert sum(bool(re.match(r"(b\.|cbn?z|tbn?z)", line)) for line in lines) <= 24

    for name in LOOPS:
        (lines, *_) = [lines for function, lines in compiled.items() if name in function]
        assert vectors(lines, LOOPS[name]) >= 1


def arm64(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LITE_KERNELS")}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    run = arm64("--qemu", "no-such-emulator", "--root", str(tmp_path), "--output", str(tmp_path / "x.md"))
    assert run.returncode == 2
    assert "no-such-emulator is not on PATH" in run.stdout
    assert "usr/bin/python3.11 does not exist" in run.stdout
    assert not (tmp_path / "x.md").exists()


@pytest.mark.skipif(not ROOT, reason="needs LITE_ARM64_ROOT, a folder made by bench/arm64.py --make-root")
def test_prebuilt_kernels_and_the_demo_run_emulated(tmp_path: Path) -> None:
    try:
        library.build_all([TARGETS["armv8"]], tmp_path / "library")
    except library.BuildError as error:
        pytest.skip(f"needs a C compiler for ARM64: {error}")
    run = arm64(
        "--library", str(tmp_path / "library"), "--cpu", "cortex-a72", "--output", str(tmp_path / "arm64.md"),
        "--tests", *(f"tests/kernels/test_{name}.py" for name in EMULATED),
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "the same" in (tmp_path / "arm64.md").read_text()
