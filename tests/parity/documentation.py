"""The examples in the reference's docstrings, run side by side: there on torch, here on lite and NumPy.

The text of an example is read from the installed package. Its `torch` is, on lite's side, torch itself with
arrays for its tensors, so that both sides draw the same numbers and call the same functions.
"""

import contextlib
import doctest
import functools
import inspect
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensordict
import tensordict.nn
import torch
from parity.compare import plain
from parity.outcomes import assert_agree

import lite
import lite.nn

KINDS = (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
DTYPES = {getattr(torch, name): np.dtype(name) for name in KINDS}


# -- torch, with arrays ----------------------------------------------------------------------------


class Leaf(np.ndarray[Any, Any]):
    """An array that knows the tensor methods which arrays lack, for leaves that an example makes."""

    def __getattr__(self, name: str) -> Any:
        return to_arrays(getattr(torch.from_numpy(np.array(self)), name))

    def view(self, *size: Any) -> Any:
        return super().view(*size) if isinstance(size[0], type) else self.reshape(*size)


def to_arrays(value: Any) -> Any:
    """What torch gave, with arrays for tensors."""
    if isinstance(value, torch.Tensor):
        return np.ndarray.view(value.detach().numpy(), Leaf)
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return tuple(map(to_arrays, value)) if isinstance(value, tuple) else list(map(to_arrays, value))
    if callable(value) and not isinstance(value, type):

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = {key: to_tensors(item) for key, item in kwargs.items()}
            return to_arrays(value(*map(to_tensors, args), **given))

        return call
    return value


def to_tensors(value: Any) -> Any:
    """What is given to torch, with tensors for arrays."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value))
    if isinstance(value, np.dtype):
        return next(ours for ours, theirs in DTYPES.items() if theirs == value)
    if isinstance(value, tuple | list):
        return type(value)(map(to_tensors, value))
    return value


def holds_collection(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(holds_collection, value))
    return lite.is_tensor_collection(value)


class Torch:
    """The module torch as an example sees it on lite's side."""

    Size, Tensor, nn, vmap = tuple, np.ndarray, lite.nn, staticmethod(lite.vmap)
    distributions = lite.nn.distributions

    def device(self, *name: Any) -> str:
        return ":".join(map(str, name))

    def __getattr__(self, name: str) -> Any:
        theirs = to_arrays(getattr(torch, name))
        ours = getattr(lite, name, None)
        if not callable(ours):
            return theirs

        def call(*args: Any, **kwargs: Any) -> Any:
            f = ours if holds_collection(args) or holds_collection(list(kwargs.values())) else theirs
            return f(*args, **kwargs)

        return call


def as_lite(source: str) -> str:
    """The statement with lite's imports."""
    source = re.sub(r"(?m)^(\s*)import torch$", r"\1pass", source)
    source = re.sub(r"\bimport tensordict\b", "import lite as tensordict", source)
    source = re.sub(r"\bfrom tensordict\.nn(\.\w+)*\b", "from lite.nn", source)
    source = re.sub(r"\bfrom tensordict(\.\w+)*\b", "from lite", source)
    source = re.sub(r"\bfrom torch import distributions\b", "from lite.nn import distributions", source)
    source = re.sub(r"\bfrom torch\.distributions\b", "from lite.nn.distributions", source)
    # What torch's tensors have and NumPy's arrays have not.
    source = re.sub(r"(torch\.randn\(\d+), requires_grad=True\)", r"nn.Parameter(\1))", source)
    source = re.sub(r"\bx\.pow\(2\)", "(x ** 2)", source)
    source = re.sub(r"(\S+\.grad)\.norm\(\)", r"np.linalg.norm(\1)", source)
    return re.sub(r"\bfrom torch import (nn|vmap)\b", r"from lite import \1", source)


# -- examples --------------------------------------------------------------------------------------


class Runner:
    """One side: what its statements may use, and the state of the random numbers between them."""

    def __init__(self, package: Any, layers: Any, module: Any, translate: Callable[[str], str]) -> None:
        self.names: dict[str, Any] = {
            "__name__": __name__,
            "np": np,
            "Any": Any,
            "torch": module,
            "nn": module.nn,
        }
        for part in (layers, package):
            self.names |= {name: getattr(part, name) for name in dir(part) if not name.startswith("_")}
        self.translate = translate
        self.random = torch.random.manual_seed(0).get_state()

    def run(self, statement: str) -> tuple[Any, Exception | None]:
        source = self.translate(statement)
        torch.random.set_rng_state(self.random)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    code = compile(source, "<example>", "eval")
                except SyntaxError:
                    exec(compile(source, "<example>", "exec"), self.names)
                    return None, None
                return eval(code, self.names), None
        except Exception as error:
            return None, error
        finally:
            self.random = torch.random.get_rng_state()


def _numbers(value: Any, drawn: bool) -> Any:
    """Values without their dtypes, which are a row of the differences; shapes where they were drawn."""
    if isinstance(value, dict):
        return {key: _numbers(item, drawn) for key, item in value.items() if key != "locked"}
    if isinstance(value, list | tuple):
        return [_numbers(item, drawn) for item in value]
    if isinstance(value, lite.nn.Parameter):
        value = value.data
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return np.asarray(value.shape if drawn else value, np.float64)
    return value


def _is_comparable(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_comparable, value))
    if isinstance(value, dict):
        return all(map(_is_comparable, value.values()))
    known = torch.Tensor | tensordict.TensorDictBase | bool | int | float | type(None)
    return isinstance(value, known) and not isinstance(value, torch.nn.Module) and not _is_nested(value)


def _is_nested(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_nested


def run_example(statements: list[str]) -> int:
    """Run statements on both sides; those that fail in the reference itself are left out.

    Returns:
        How many statements ran, where all did the same; else raises AssertionError.
    """
    theirs = Runner(tensordict, tensordict.nn, torch, str)
    ours = Runner(lite, lite.nn, Torch(), as_lite)
    # Layers draw their first weights from generators of their own.
    drawn = any("nn." in statement for statement in statements)
    count = 0
    # Gradients are on by default there.
    learning: Any = lite.enable_grad if any("backward" in s for s in statements) else contextlib.nullcontext
    for statement in statements:
        expected, error = theirs.run(statement)
        with learning():
            got, problem = ours.run(statement)
        if error is not None:
            continue
        error = problem
        assert error is None, f"{statement}\n{type(error).__name__}: {error}"
        if _is_comparable(expected):
            assert_agree(_numbers(plain(got), drawn), _numbers(plain(expected), drawn), statement)
        count += 1
    return count


def _own_docs() -> Iterator[tuple[str, str]]:
    for module, prefix in ((tensordict, ""), (tensordict.nn, "nn.")):
        names = getattr(module, "__all__", None) or [name for name in dir(module) if name[0] != "_"]
        for name in names:
            thing = getattr(module, name, None)
            if not str(getattr(thing, "__module__", "")).startswith("tensordict"):
                continue
            yield prefix + name, getattr(thing, "__doc__", None) or ""
            for member in vars(thing) if isinstance(thing, type) else ():
                # What is inherited is read where it is written; torch's methods are torch's.
                if not member.startswith("_"):
                    yield f"{prefix}{name}.{member}", getattr(vars(thing)[member], "__doc__", None) or ""


def examples() -> dict[str, list[str]]:
    """The statements of every docstring of the reference that has some, by the name it is found under."""
    found: dict[str, list[str]] = {}
    known: set[str] = set()
    everything = [*_own_docs(), *_base_docs()]
    for name, text in everything:
        text = inspect.cleandoc(text)
        if ">>>" not in text or text in known:
            continue
        known.add(text)
        try:
            parsed = doctest.DocTestParser().get_examples(text)
        except ValueError:  # indented by hand: only the lines of the examples count
            lines = [line.strip() for line in text.splitlines()]
            kept = [line for line in lines if line.startswith((">>> ", "... "))]
            parsed = doctest.DocTestParser().get_examples("\n".join(kept))
        # Nothing is written outside the folder that a test runs in, and nothing is measured for seconds.
        sources = [re.sub(r"([\"'])/(?=\w)", r"\1./", example.source) for example in parsed]
        found[name] = [source.replace("adaptive_autorange()", "timeit(1)") for source in sources]
    return found


def _base_docs() -> Iterator[tuple[str, str]]:
    for member in vars(tensordict.TensorDictBase):
        if not member.startswith("_"):
            doc = getattr(inspect.getattr_static(tensordict.TensorDictBase, member), "__doc__", None)
            yield f"TensorDictBase.{member}", doc or ""
