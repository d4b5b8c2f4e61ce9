"""The public names, and what importing them may not import."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = [
    "lite",
    "lite.nn",
    "lite.nn.losses",
    "lite.nn.values",
    "lite.optim",
    "lite.data",
    "lite.kernels",
    "lite.models",
]
HEAVY = [
    "torch",
    "tensordict",
    "torchrl",
    "transformers",
    "numba",
    "onnxruntime",
    "tokenizers",
    "jinja2",
    "llguidance",
    "ray",
    "h5py",
    "pyarrow",
    "gymnasium",
]


def kind_first(name: str) -> tuple[bool, bool, str]:
    """The order that ruff keeps: names in capitals, classes, then the rest."""
    return not name.isupper(), not name[0].isupper(), name


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_sorted_and_holds_every_public_name(package: str) -> None:
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(set(module.__all__), key=kind_first)
    public = {
        name
        for name in dir(module)
        if not name.startswith("_") and getattr(getattr(module, name), "__module__", "").startswith("lite")
    }
    assert public <= set(module.__all__)


@pytest.mark.parametrize("package", ["lite", "lite.nn", "lite.data"])
def test_public_classes_belong_to_a_public_package(package: str) -> None:
    """Also those that are loaded on first use: pickles name the package, wherever the class is written."""
    module = importlib.import_module(package)
    found = [getattr(module, name) for name in module.__all__]
    places = {value.__module__ for value in found if isinstance(value, type)}
    assert places <= {*PACKAGES, "lite.nn.distributions"}


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


def test_imports_stay_light() -> None:
    code = f"import sys, {', '.join(PACKAGES)}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("statement", "not_yet"),
    [
        ("import lite.data, lite.models", ("lite.data.", "lite.models.", "lite.nn")),
        (
            "from lite.data import TensorDictReplayBuffer, LazyMemmapStorage",
            ("lite.nn", "lite.data.collectors"),
        ),
        (
            "from lite import nn; nn.TensorDictSequential(nn.TensorDictModule(nn.MLP(4, 2), ['x'], ['y']))",
            (
                "lite.nn.distributions",
                "lite.nn.values",
                "lite.nn.layers.transformer",
                "lite.kernels",
                "lite._transforms.vmap.transform",
            ),
        ),
        ("from lite.models import OnnxWrapper", ("lite.nn.distributions", "lite.nn.layers")),
    ],
)
def test_what_is_not_asked_for_is_not_loaded(statement: str, not_yet: tuple[str, ...]) -> None:
    code = f"import sys; {statement}; print([name for name in sys.modules if name.startswith({not_yet})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_lite_brings_little_beside_numpy() -> None:
    """Standard modules that take milliseconds, and parts of lite that most programs never call."""
    slow = ("asyncio", "email", "importlib.abc", "importlib.resources", "json", "logging", "multiprocessing",
            "numpy.random", "shutil", "socket", "subprocess", "tempfile", "urllib", "uuid",
            "lite._tensorclass.typed", "lite._transforms")  # fmt: skip
    code = "import sys, numpy; before = set(sys.modules); import lite; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = done.stdout.split()
    assert "lite._tensordict" in found
    assert [name for name in found if name.startswith(slow)] == []
    assert sum(name.split(".")[0] == "lite" for name in found) <= 60
