"""The public names, and what importing them may not import."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

from helpers.cases import each_case

PACKAGES = [
    *("lite", "lite.nn", "lite.nn.losses", "lite.nn.values", "lite.optim", "lite.envs", "lite.data"),
    *("lite.kernels", "lite.models"),
]
HEAVY = (
    *("torch", "tensordict", "torchrl", "transformers", "numba", "onnxruntime", "tokenizers", "jinja2"),
    *("llguidance", "ray", "h5py", "pyarrow", "gymnasium"),
)


def kind_first(name: str) -> tuple[bool, bool, str]:
    """The order that ruff keeps: names in capitals, classes, then the rest."""
    return not name.isupper(), not name[0].isupper(), name


@each_case("package", PACKAGES)
def test_all_is_sorted_and_holds_every_public_name(package: str) -> None:
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(set(module.__all__), key=kind_first)
    public = {
        name
        for name in dir(module)
        if not name.startswith("_") and getattr(getattr(module, name), "__module__", "").startswith("lite")
    }
    assert public <= set(module.__all__)
    homes = {value.__module__ for name in module.__all__ if isinstance(value := getattr(module, name), type)}
    for home in homes if package not in ("lite.kernels", "lite.models") else ():  # pickles name these
        assert hasattr(importlib.import_module(home), "__all__"), home


def test_every_public_object_is_documented() -> None:
    lite = importlib.import_module("lite")
    undocumented = [name for name in lite.__all__ if not getattr(lite, name).__doc__]
    assert undocumented == []
    methods = [
        name
        for name in dir(lite.TensorDict)
        if not name.startswith("_") and not (getattr(lite.TensorDict, name).__doc__ or "").strip()
    ]
    assert methods == []


def test_draws_differ_unless_a_generator_or_a_seed_is_given() -> None:
    """The default is None, fresh entropy; False would be the seed 0."""
    lite = Path(__file__).parents[1] / "lite"
    defaults = {
        (found[1], file.name)
        for part in (lite, lite / "kernels", lite / "models")
        for file in part.rglob("*.py")
        for found in re.finditer(r"\b(?:rng|generator|seed): [^=,\n]+ = (\w+)[,)]", file.read_text("utf-8"))
        if found[1] != "None"
    }
    assert defaults == {("0", "generate_batches.py")}  # rows are the same on whichever actor


def test_arguments_and_defaults_are_those_of_signatures_txt() -> None:
    """A default that changes breaks calls of users: such a line belongs into CHANGELOG.md, too."""
    script = runpy.run_path(str(Path(__file__).parents[1] / ".ci/signatures.py"))
    stored = script["PATH"].read_text(encoding="utf-8").splitlines()
    assert script["table"]().splitlines() == stored, "run python .ci/signatures.py, see CONTRIBUTING.md"


# Statements of one process, and what is not loaded after each: slow standard modules, and parts
# of lite that most programs never call.
STAGES = {
    "import lite": (
        *("asyncio", "email", "importlib.abc", "importlib.resources", "json", "logging", "multiprocessing"),
        *("numpy.random", "shutil", "socket", "subprocess", "tempfile", "urllib", "uuid"),
        *("lite._tensorclass.typed", "lite._transforms", "lite.nn"),
    ),
    "import lite.data, lite.models": ("lite.data.", "lite.models.", "lite.nn"),
    "from lite.data import TensorDictReplayBuffer, LazyMemmapStorage": ("lite.nn", "lite.data.collectors"),
    "from lite.models import OnnxWrapper": ("lite.nn.distributions", "lite.nn.layers"),
    f"import {', '.join(PACKAGES)}": HEAVY,
}
PROGRAM = """
import sys, numpy
before = set(sys.modules)
for statement in sys.argv[1:]:
    exec(statement)
    print(*(set(sys.modules) - before))
"""


def test_what_is_not_asked_for_is_not_loaded() -> None:
    command = [sys.executable, "-c", PROGRAM, *STAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = [line.split() for line in done.stdout.splitlines()]
    for (statement, not_yet), names in zip(STAGES.items(), loaded, strict=True):
        assert [name for name in names if name.startswith(not_yet)] == [], statement
    assert "lite._tensordict" in loaded[0]
    assert sum(name.split(".")[0] == "lite" for name in loaded[0]) <= 60
