"""The scripts that documents' figures come from, by the names of their results, for `full.py`.

Each takes `--rounds` and `--output` (`side_by_side.arguments`) and writes DIR/<name>.json.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import readme_table
from side_by_side import RESULTS

# tensordict 0.15.3 is the peer for speed, and torchrl 0.14.1 needs 0.14.3: one environment has one of them.
BESIDE_TENSORDICT = 'pip install -e ".[bench]" torch==2.13.0 tensordict==0.15.3'
BESIDE_TORCHRL = 'pip install -e ".[bench,parity]"'
MODELS = "python bench/llm_models.py DIR makes its models: python bench/full.py llm --models DIR --output ..."


@dataclass(frozen=True)
class Script:
    """A script of this folder.

    Attributes:
        file: its name, or a path.
        what: what it times, beside what.
        needs: modules without which it does not run.
        install: the command that brings them.
        beside: packages whose versions its figures depend on.
        models: whether it takes the folder of models.
    """

    file: str
    what: str
    needs: tuple[str, ...]
    install: str
    beside: tuple[str, ...] = ()
    models: bool = False


_TENSORDICT, _TORCHRL = ("torch", "tensordict"), ("torch", "tensordict", "torchrl")
SCRIPTS = {
    "tensordict": Script(
        "test_tensordict.py", "TensorDict beside tensordict", _TENSORDICT, BESIDE_TENSORDICT, _TENSORDICT
    ),
    "files": Script("files.py", "files beside tensordict", _TENSORDICT, BESIDE_TENSORDICT, _TENSORDICT),
    "nn": Script("test_nn.py", "modules beside tensordict.nn", _TENSORDICT, BESIDE_TENSORDICT, _TENSORDICT),
    "layers": Script("layers.py", "layers beside torch", ("torch",), BESIDE_TENSORDICT, ("torch",)),
    "vmap": Script(
        "vmap.py", "vmap beside loops and torch.vmap", _TENSORDICT, BESIDE_TENSORDICT, _TENSORDICT
    ),
    "grad": Script(
        "test_grad.py",
        "gradients and optimisers beside torch and JAX",
        ("torch", "jax"),
        BESIDE_TORCHRL,
        ("torch", "jax"),
    ),
    "jit": Script(
        "test_jit.py",
        "training steps as graphs beside torch, JAX, NumPy by hand and torchrl",
        (*_TORCHRL, "jax", "onnxruntime"),
        BESIDE_TORCHRL,
        (*_TORCHRL, "jax", "onnxruntime"),
    ),
    "learning": Script(
        "test_learning.py",
        "steps of learning on an exported language model beside transformers and peft",
        ("torch", "transformers", "peft"),
        'pip install -e ".[bench,parity]" peft',
        ("torch", "transformers", "peft"),
        models=True,
    ),
    "learning_growth": Script(
        "learning_growth.py",
        "steps of learning by tokens: seconds and memory",
        ("onnxruntime", "matplotlib"),
        'pip install -e ".[bench,llm]" matplotlib',
    ),
    "numpy_runtime": Script(
        "numpy_runtime.py",
        "a language model on NumPy beside onnxruntime",
        ("onnxruntime",),
        'pip install -e ".[bench,llm]"',
        ("onnxruntime",),
    ),
    "from_onnx": Script(
        "from_onnx.py",
        "exported policies as modules beside torch and onnxruntime",
        ("torch", "onnx", "onnxruntime"),
        BESIDE_TORCHRL,
        ("torch", "onnxruntime"),
    ),
    "kernels": Script(
        "test_kernels.py",
        "kernels beside torch, torchrl and transformers",
        (*_TORCHRL, "transformers", "matplotlib"),
        BESIDE_TORCHRL,
        ("torch", "torchrl"),
    ),
    "linear_log_probs": Script(
        "linear_log_probs.py",
        "log-probs of a linear layer, their gradients and memory, beside torch",
        ("torch",),
        'pip install -e ".[bench]" torch==2.13.0',
        ("torch",),
    ),
    "data": Script(
        "test_data.py",
        "collectors, replay buffers, estimators beside torchrl",
        (*_TORCHRL, "gymnasium", "matplotlib"),
        'pip install -e ".[bench,parity,gym]"',
        _TORCHRL,
    ),
    "transforms": Script(
        "test_transforms.py",
        "transforms beside torchrl",
        (*_TORCHRL, "gymnasium"),
        'pip install -e ".[bench,parity,gym]"',
        _TORCHRL,
    ),
    "envs": Script(
        "test_envs.py",
        "rollouts of environments beside torchrl",
        (*_TORCHRL, "gymnasium"),
        'pip install -e ".[bench,parity,gym]"',
        _TORCHRL,
    ),
    "collectors": Script(
        "collectors.py",
        "collectors in two processes beside one",
        ("gymnasium",),
        'pip install -e ".[bench,gym]"',
    ),
    "scripts_learning": Script(
        "scripts_learning.py",
        "TorchRL's scripts over seeds, beside the same text on torchrl",
        (*_TORCHRL, "gymnasium"),
        'pip install -e ".[bench,parity,gym]"',
        _TORCHRL,
    ),
    "llm": Script(
        "test_llm.py",
        "language models beside onnxruntime-genai, optimum, transformers: those that are installed",
        ("onnxruntime", "tokenizers", "jinja2"),
        'pip install -e ".[bench,llm-cpu]" onnxruntime-genai transformers torch',
        ("onnxruntime",),
        models=True,
    ),
    "growth": Script(
        "growth.py",
        "TensorDict by number of leaves and depth, beside tensordict",
        (*_TENSORDICT, "matplotlib"),
        BESIDE_TENSORDICT,
        _TENSORDICT,
    ),
    "small_calls": Script(
        "small_calls.py", "kernels on few values beside torchrl", _TORCHRL, BESIDE_TORCHRL, _TORCHRL[::2]
    ),
    "onnx_export": Script(
        "test_onnx_export.py",
        "exported networks beside torch.onnx",
        ("torch", "onnx", "onnxruntime"),
        'pip install -e ".[bench,parity,llm]"',
        ("torch", "onnxruntime"),
    ),
    "prebuilt": Script(
        "test_prebuilt.py", "kernels compiled beforehand beside Numba", ("numba",), "pip install numba"
    ),
    "backends": Script("backends.py", "kernels by Numba beside NumPy", ("numba",), "pip install numba"),
    "cartpole": Script(
        "test_cartpole.py",
        "CartPole learnt by the two examples: seconds, memory",
        ("gymnasium", "onnx", "onnxruntime"),
        'pip install -e ".[gym,llm]"',
    ),
    "learn_grpo": Script(
        "test_learn_grpo.py",
        "GRPO by `lite learn`: held-out problems solved, seconds",
        ("onnxruntime",),
        'pip install -e ".[llm]"',
    ),
    "bounds": Script("bounds.py", "parts of calls: where the time goes, on one thread", (), ""),
    "ray": Script(
        "data_ray.py",
        "scoring on Ray: two actors beside one, and plain processes",
        ("ray", "onnxruntime"),
        'pip install -e ".[ray,llm]"',
        ("ray",),
    ),
    "footprint": Script(
        "footprint.py",
        "fresh installations, for which it downloads packages",
        ("pip",),
        "python -m ensurepip",
    ),
}
# What runs where no name is given: what README's table is made of.
CLAIMED = tuple(name for name in SCRIPTS if name in readme_table.SOURCES)


def missing(script: Script) -> list[str]:
    """The modules that it needs and that are not installed."""
    return [module for module in script.needs if find_spec(module) is None]


def versions_of(folder: Path, name: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Of these packages, the versions that results name; builds ("+cpu") make no difference."""
    about = readme_table.about(name, folder)
    found = {package: about.get(package) for package in packages}
    return {
        package: text.partition("+")[0]
        for package, text in found.items()
        if isinstance(text, str) and re.fullmatch(r"[\w.+-]{1,40}", text)
    }


def minutes(name: str, folder: Path = RESULTS) -> float | None:
    """How long a script takes, by the run that `scripts.json` is of; None if it has not been timed.

    Processor time, as another program on the machine makes the clock on the wall tell anything.
    """
    rows = readme_table.rows("scripts", folder)
    return next((row["processor_seconds"] / 60 for row in rows if row["script"] == name), None)


def table() -> str:
    """The table of bench/README.md: names, started minutes by results/scripts.json, what each needs."""
    lines = ["| name | minutes | what | needs |", "|---|--:|---|---|"]
    for name, script in SCRIPTS.items():
        taken = minutes(name)
        shown = "" if taken is None else str(math.ceil(taken))
        needs = ", ".join([*script.needs, *(["models"] if script.models else [])])
        lines.append(f"| {name} | {shown} | {script.what} | {needs} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
