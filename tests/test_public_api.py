"""The public names, and what importing them may not import."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_former_names_of_torchrl_are_the_classes_of_today() -> None:
    """Most public scripts were written for them."""
    from lite import data

    spec = data.CompositeSpec(
        x=data.BoundedTensorSpec(low=-1, high=1, shape=(3,)), a=data.DiscreteTensorSpec(4, shape=())
    )
    assert spec == data.Composite(x=data.Bounded(low=-1, high=1, shape=(3,)), a=data.Categorical(4, shape=()))
    assert data.SyncDataCollector is data.Collector
    for former, name in data._FORMER.items():
        assert getattr(data, former) is getattr(data, name)
    assert "SyncDataCollector" not in data.__all__


def test_type_checkers_see_every_name_that_is_imported_on_first_use() -> None:
    for path, text in runpy.run_path(str(Path(__file__).parents[1] / ".ci/stubs.py"))["stubs"]():
        assert path.read_text(encoding="utf-8") == text, "run python .ci/stubs.py"


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
    "from lite.data import PrioritizedReplayBuffer": ("concurrent.futures",),
    "from lite.models import OnnxWrapper": ("lite.nn.distributions", "lite.nn.layers"),
    "from lite.data import Collector": (
        "lite.nn.values.base",
        "lite.nn.distributions",
        "lite.kernels.prebuild",
    ),
    "from lite.nn.losses import ClipPPOLoss": ("lite.nn.losses.language", "lite.nn.losses.sac"),
    f"import {', '.join(PACKAGES)}": HEAVY,
    "lite.jit(lambda x: x + 1)(numpy.ones(3))": ("lite._files.flat", "html"),
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


NORMAL = "Normal(batch_shape=(2,), event_shape=())"
CARTPOLE = "GymEnv(env=CartPole-v1, batch_size=())"
REPRS = {
    "Composite(a=Binary(2), data_cls=TensorDict)": "Composite(\n    a: Binary(shape=(2,), dtype=int8),\n"
    "    shape=(),\n    data_cls=TensorDict)",
    "GymEnv('CartPole-v1')": CARTPOLE,
    "SerialEnv(2, lambda: GymEnv('CartPole-v1'))": "SerialEnv(num_workers=2, batch_size=(2,))",
    "Collector(GymEnv('CartPole-v1'), abs, frames_per_batch=1, total_frames=1)": f"Collector(env={CARTPOLE}, "
    "policy=<built-in function abs>, frames=0)",
    "Evaluator(GymEnv('CartPole-v1'), abs)": f"Evaluator(env={CARTPOLE}, num_trajectories=10)",
    "RewardClipping(-1, 1)": "RewardClipping(clamp_min=-1.0000, clamp_max=1.0000, keys=['reward'])",
    "RandomPolicy(Binary(2))": "RandomPolicy(action_spec=Binary(shape=(2,), dtype=int8), "
    "action_key='action')",
    "SliceSampler(num_slices=2)": "SliceSampler(num_slices=2, slice_len=None, end_key=None, traj_key=None, "
    "truncated_key=('next', 'truncated'), strict_length=True, pad_output=False, span=(False, False))",
    "TensorStorage(TensorDict(a=[1.0, 2.0], batch_size=[2]))": "TensorStorage(shape=(2,), len=2, max_size=2)",
    "AdaptiveAvgPool2d((1, 2))": "AdaptiveAvgPool2d(output_size=(1, 2))",
    "BatchRenorm1d(3)": "BatchRenorm1d(3, momentum=0.01, eps=1e-05, max_r=3.0, max_d=5.0, "
    "warmup_steps=10000, smooth=False)",
    "ConsistentDropout(0.25)": "ConsistentDropout(p=0.25)",
    "Flatten(1, 2)": "Flatten(start_dim=1, end_dim=2)",
    "Normal([0.0, 0.0], 1.0)": NORMAL,
    "Independent(Normal([0.0, 0.0], 1.0), 1)": f"Independent({NORMAL}, 1)",
    "MixtureSameFamily(Categorical(logits=[0.0, 1.0]), Normal([0.0, 0.0], 1.0))": "MixtureSameFamily("
    f"Categorical(batch_shape=(), event_shape=()), {NORMAL})",
    "TanhNormal([0.0, 1.0], 1.0)": "TanhNormal(loc: (2,), scale: (2,), event_dims=1)",
    "TransformedDistribution(Normal([0.0, 0.0], 1.0), TanhTransform())": f"TransformedDistribution({NORMAL}, "
    "[TanhTransform()])",
}


@each_case(("code", "expected"), REPRS.items())
def test_reprs_say_the_class_and_what_it_was_made_of(code: str, expected: str) -> None:
    names: dict[str, Any] = {}
    for package in (*PACKAGES, "lite.nn.distributions"):
        module = importlib.import_module(package)
        names |= {name: getattr(module, name) for name in module.__all__}
    assert repr(eval(code, names)) == expected
