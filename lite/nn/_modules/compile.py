"""`Module.compile`: compiles the plain numeric functions in a module with Numba.

Functions that Numba does not support stay in Python. Compiled and Python function must return the same, so
the first call for each signature (types, dtypes, numbers of dimensions) runs both and compares. Later calls
run only compiled code, and cast its results to NumPy's dtypes, as Numba promotes Python numbers differently.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lite._arrays.numbers import SCALARS

_OPTIONS = ("fullgraph", "dynamic", "backend", "mode", "options", "disable")
_CONSTANTS = (*SCALARS, str, bytes, type(None))
_lock = threading.RLock()


class CannotCompile(Exception):
    """Raised with the reason why a function stays in Python."""


class CompiledFunction:
    """A Python function that runs as compiled code if that returns the same results.

    Args:
        function: the function; it is compiled again if a global or closure variable that it reads changes.
        fullgraph: raise RuntimeError instead of falling back to Python.
    """

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.fullgraph = fullgraph
        self._signature = inspect.signature(function)
        self._forget()

    def _forget(self) -> None:
        self._compiled: Any = None
        self._given_up = False
        self._forms: dict[Any, Any] = {}  # signature of the arguments -> types of the result
        self._constants: list[tuple[str, Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._given_up or kwargs:
            return self._in_python(args, kwargs)
        kinds = tuple([_kind(value) for value in args])
        if None in kinds:
            return self.function(*args)
        form = self._forms.get(kinds)
        if form is None or self._stale():
            return self._first(kinds, args)
        return _shaped(self._compiled(*args), form)

    def _in_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs and not self._given_up:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                return self.function(*args, **kwargs)  # raises the error of the Python function
            if not bound.kwargs:
                return self(*bound.args)
            self._give_up("it takes arguments by keyword only")
        return self.function(*args, **kwargs)

    def _first(self, kinds: Any, args: tuple[Any, ...]) -> Any:
        """The first call for a signature: run the compiled and the Python function, and compare."""
        with _lock:
            if self._stale():
                self._forget()
            copies = [value.copy() if isinstance(value, np.ndarray) else value for value in args]
            for mine, given in zip(copies, args, strict=True):
                if isinstance(given, np.ndarray):
                    mine.flags.writeable = given.flags.writeable
            reason, compiled = "", None
            try:
                if self._compiled is None:
                    self._compiled, self._constants = _compile(self.function)
                compiled = self._compiled(*copies)
            except CannotCompile as error:
                reason = str(error)
            except Exception as error:  # errors of Numba, and of the function itself
                reason = _short(error)
            # Errors of the function itself are raised here, as without compilation.
            result = self.function(*args)
            if not reason:
                form = _form(result)
                reason = _difference(result, compiled) if form is not None else _unsupported(result)
                for mine, given in zip(copies, args, strict=True):
                    if not reason and isinstance(given, np.ndarray):
                        reason = _difference(given, mine)
                if not reason:
                    self._forms[kinds] = form
                    return result
            self._give_up(reason)
            return result

    def _stale(self) -> bool:
        """Whether a global or closure variable that the function reads is another object now."""
        return any(_outside(self.function, name) is not value for name, value in self._constants)

    def _give_up(self, reason: str) -> None:
        name = getattr(self.function, "__qualname__", repr(self.function))
        if self.fullgraph:
            raise RuntimeError(f"compile(fullgraph=True): {name} does not compile: {reason}")
        self._given_up = True
        warnings.warn(
            f"{name} runs in Python, as Numba does not compile it: {reason}", UserWarning, stacklevel=4
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return self

    def __copy__(self) -> CompiledFunction:
        return self

    def __reduce__(self) -> Any:
        return CompiledFunction, (self.function, self.fullgraph)

    def __repr__(self) -> str:
        return f"compiled {self.function!r}"


def compile_functions(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Implements `Module.compile`; see there."""
    unknown = [name for name in kwargs if name not in _OPTIONS]
    if args or unknown:
        what = f"the keyword {unknown[0]!r}" if unknown else "positional arguments"
        raise TypeError(f"compile() takes {', '.join(_OPTIONS)} by keyword, got {what}.")
    if kwargs.get("disable"):
        return
    found = False
    for owner in list(module.modules()):
        payload = owner.__dict__.get("module")
        if isinstance(payload, CompiledFunction):
            found = True
        elif isinstance(payload, types.FunctionType) and owner.__dict__.get("method", True) is None:
            owner.module = CompiledFunction(payload, bool(kwargs.get("fullgraph")))
            found = True
    if not found:
        warnings.warn(
            f"{type(module).__name__}.compile() changes nothing: it compiles the plain functions in "
            "TensorDictModules, and here is none. Layers compute with NumPy's compiled functions.",
            UserWarning,
            stacklevel=3,
        )


def _compile(function: Any) -> tuple[Any, list[tuple[str, Any]]]:
    constants = []
    for name in _read_from_outside(function):
        value = _outside(function, name)
        if isinstance(value, np.ndarray) or (
            not isinstance(value, (*_CONSTANTS, types.ModuleType)) and not callable(value)
        ):
            # Compiled code copies the current content, so later changes in place would be ignored.
            raise CannotCompile(
                f"it reads {name!r}, of type {type(value).__name__}, from outside; give it as an input"
            )
        constants.append((name, value))
    from lite.kernels.backends.compiler import import_numba  # imported here, as it loads all kernels

    try:
        numba = import_numba("compiling")
    except ImportError as error:
        raise CannotCompile(str(error)) from error
    # As in NumPy, indices are checked and division by zero gives infinity.
    return numba.njit(function, error_model="numpy", boundscheck=True, nogil=True), constants


def _read_from_outside(function: Any) -> Iterator[str]:
    code = function.__code__
    yield from code.co_freevars
    for name in code.co_names:
        if name in function.__globals__:
            yield name


def _outside(function: Any, name: str) -> Any:
    if name in function.__code__.co_freevars:
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return None
    return function.__globals__.get(name)


def _kind(value: Any) -> Any:
    """The part of the signature for one argument; None if the call stays in Python.

    It does for arrays under vmap, missing entries, objects, and 0-d arrays, for which Numba has few
    functions.
    """
    if type(value) is np.ndarray:
        if not value.ndim or value.dtype.kind not in "biufc":
            return None
        return value.dtype, value.ndim, value.flags.writeable
    return type(value) if isinstance(value, SCALARS) else None


def _form(result: Any) -> Any:
    """The expected types of results: dtypes of arrays, types of numbers, tuples of these; None for others."""
    if type(result) is np.ndarray:
        return result.dtype if result.dtype.kind in "biufc" else None
    if isinstance(result, SCALARS):
        return type(result)
    if type(result) is tuple:
        forms = tuple([_form(item) for item in result])
        return None if None in forms else forms
    return None


def _shaped(value: Any, form: Any) -> Any:
    if type(form) is tuple:
        return tuple([_shaped(item, part) for item, part in zip(value, form, strict=True)])
    if type(value) is np.ndarray:
        return value if value.dtype == form else value.astype(form)
    return form(value)


def _unsupported(result: Any) -> str:
    return f"it returns {type(result).__name__}, not arrays, numbers or a tuple of those"


def _difference(expected: Any, got: Any) -> str:
    """A description of the difference of two results; empty if they are equal up to rounding."""
    if isinstance(expected, tuple) or isinstance(got, tuple):
        if not (isinstance(expected, tuple) and isinstance(got, tuple) and len(expected) == len(got)):
            return "compiled, it returns another number of results"
        return next((d for e, g in zip(expected, got, strict=True) if (d := _difference(e, g))), "")
    if isinstance(expected, np.ndarray) != isinstance(got, np.ndarray):
        return f"compiled, it returns {type(got).__name__} in place of {type(expected).__name__}"
    one, other = np.asarray(expected), np.asarray(got)
    if one.shape != other.shape:
        return f"compiled, it gives the shape {other.shape} in place of {one.shape}"
    if _class(one) != _class(other):
        return f"compiled, it gives {other.dtype} in place of {one.dtype}"
    tolerance = np.sqrt(np.finfo(one.dtype).eps) if one.dtype.kind in "fc" else 0
    with np.errstate(all="ignore"):
        scale = np.abs(one[np.isfinite(one)]).max(initial=0) if one.dtype.kind in "fc" else 0
        same = np.allclose(other, one, rtol=tolerance, atol=float(scale) * tolerance, equal_nan=True)
    return "" if same else "compiled, it gives other values (does it draw random numbers?)"


def _class(array: Any) -> str:
    """The class of a number: bool, integer, real or complex."""
    kind: str = array.dtype.kind
    return "i" if kind == "u" else kind


def _short(error: Exception) -> str:
    """The line with the cause in a message of Numba."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("Failed in", "- Resolution", "During:"))]
    return f"{type(error).__name__}: {(said or lines or [''])[0]}"
