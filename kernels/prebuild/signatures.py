"""The signatures that kernels are compiled for beforehand, by `warmup` or into a library: those with which
public functions call each of them.

A signature lists the types of the arguments, separated by spaces: "f" is a number, "f[]" an array of one axis
and "f[,]" one of two, in C order and writable; "-" is None, and parentheses enclose a tuple. The letters are
NumPy's: ? bool, f float32, d float64, i int32, q int64, Q uint64, B uint8, H uint16 (float16 and bfloat16 are
viewed as it). Where a library runs the kernels, any other call runs as plain Python, with a warning.
tests/kernels/prebuild/test_signatures.py calls every function with all types and compares.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Signatures = dict[str, list[str]]
_NUMBERS = {
    "?": "boolean", "f": "float32", "d": "float64", "i": "int32", "q": "int64", "Q": "uint64", "H": "uint16",
    "B": "uint8",
}  # fmt: skip


def _lines(letters: str) -> str:
    """Arrays with their strides."""
    return " ".join(f"({letter}[] q q q)" for letter in letters)


def _returns(x: str) -> Signatures:
    """Kernels that compute in float32 or float64."""
    walk = "q q ? ? q q q q"
    returns = f"{_lines(f'{x}{x}??dd{x}')} d[] d[] d[] {walk}"
    advantages = [
        f"{_lines(f'{x}{x}{x}??')} {weight} {_lines('dd')} d d ? {_lines(f'{x}{x}')} "
        f"d[] d[] d[] d[] d[] d[] {walk}"
        for weight in ("-", f"({_lines(f'{x}{x}')} ({x} {x} {x} {x}))")
    ]
    return {
        "returns.lambda_returns": [returns],
        "returns.fixed_lambda_returns": [returns],
        "returns.short_lambda_returns": [f"{x}[] {x}[] ?[] ?[] d d {x}[] d[] q"],
        "returns.advantages": advantages,
        "returns.short_advantages": [f"{x}[] {x}[] {x}[] ?[] ?[] d d {x}[] {x}[] d[] q"],
        "multistep_return.sequences": [f"{x}[] ?[] q q d[] {x}[] q[] q[] f[] ?[] d[] q q"],
    }


def _updates(x: str) -> Signatures:
    """Kernels that update float32 or float64 arrays in place."""
    return {
        "sum_tree.update": [f"{x}[] q[] {x}[] q[] ?"],
        "sum_tree.search": [f"{x}[] d[] q[]"],
        **{
            f"optimizers.{name}": [" ".join([f"{x}[]"] * arrays)]
            for name, arrays in (("adam", 6), ("sgd", 4), ("rmsprop", 6), ("lerp", 3))
        },
    }


def _blocks(x: str) -> Signatures:
    """Kernels of logits that a product of matrices of float32 or float64 made."""
    block = f"{x}[] q d[] q[] q"
    return {
        "linear_log_probs.merge": [f"{block} d[] d[] d[] d[] d[] ?[] q q"],
        "linear_log_probs.shares": [f"{block} d[] d[] d[] ?[] q q"],
    }


def _logits(x: str) -> Signatures:
    """Kernels that read logits of any floating type; 16-bit ones give float32."""
    y = "d" if x == "d" else "f"
    rows = f"{x}[] ? q[] q ?[] q[] ?[] d[]"
    return {
        "log_softmax.rows": [f"{rows} q[] q[] {y}[] {spread} {y}[] {y}[] q q" for spread in ("-", f"{y}[]")],
        "log_softmax.log_softmax": [f"{rows} ? {y}[] q[] q q"],
        "token_log_probs.scores": [f"{x}[] ? q[] q ?[] ?[] d[] q[] q[] q[] i[] q d[] d[] d[] d[] {x}[] q q"],
    }


def _draws() -> Signatures:
    """Kernels that draw tokens: as the logits are, with changes of the scores, and with details, too."""
    forms = (
        "- - - - - - - - d[] Q[] q[] f[] q[] - - - - - -",
        "f[] ?[] i[] q[] q[] q[] f[] q[] d[] Q[] q[] f[] q[] - - - - - -",
        "f[] ?[] i[] q[] q[] q[] f[] q[] d[] Q[] q[] f[] q[] d[] i[] q[] q q[] d[]",
    )
    return {
        "sample_tokens.rows": [f"f[] q[] q {form} f[] i[] q[] d[] q q" for form in forms],
        "flat_rows.flat_row": [
            f"f[] q[] q d[] Q[] q[] f[] {detail} f[] i[] q[] d[] q" for detail in ("- - -", "d[] i[] q[]")
        ],
    }


_HEADS = "f[] q q f[] q q f[] q q q[] q[] d q[]"  # queries, keys and values with strides, and ranges of keys


def _layers() -> Signatures:
    return {
        **{f"layers.{name}": ["f[] f[]"] for name in ("gelu", "gelu_by_tanh", "silu")},
        "layers.softmax": ["f[,] f f[] f[,]"],
        "layers.log_softmax": ["f[,] f[,]"],
        "layers.softmax_gradients": ["f[,] f[,] f[,]"],
        "layers.layer_norm": ["f[,] f[] f[] f f[,]"],
        "layers.rms_norm": ["f[,] f[] f f[,]"],
        "layers.rms_norm_gradients": ["f[,] f[] f f[,] f[,] f[]"],
        "layers.swiglu": ["f[] q f[] q f[,]"],
        "layers.swiglu_gradients": ["f[] q f[] q f[,] f[,] f[,]"],
        "layers.rotate": ["f[,] f[,] f[,] q q ?"],
        "attention.attention": [f"{_HEADS} f[] f[] f[] f[] q q"],
        "attention.gradients": [f"{_HEADS} {' '.join(['f[]'] * 10)} q q"],
        "recurrent.lstm": ["f[] f[] f[] f[] q q q q"],
        "recurrent.lstm_back": ["f[] f[] f[] f[] f[] f[] f[] q q q q"],
        "recurrent.gru": ["f[] f[] f[] q q q q"],
        "recurrent.gru_back": ["f[] f[] f[] f[] f[] f[] f[] q q q q"],
        "convolution.convolve": ["f[] f[] f[] q[] q[] q[] f[] f[] f[] q q"],
        "convolution.by_weight": ["f[] f[] q[] q[] f[] f[] f[] q q"],
    }


def _images(x: str) -> Signatures:
    """Kernels that read bytes or float32."""
    return {
        "images.affine": [f"{x}[] f f ? f[]"],
        "images.grey": [f"{x}[] q f[] {x}[]"],
        "images.resize": [f"{x}[] q q q[] f[,] q[] f[,] ? f[] f[] {x}[]"],
    }


def _all() -> Signatures:
    families = [
        *map(_returns, "fd"), *map(_updates, "fd"), *map(_logits, "fdH"), *map(_blocks, "fd"),
        *map(_images, "Bf"), _draws(), _layers(),
    ]  # fmt: skip
    found: Signatures = {}
    for family in families:
        for name, signatures in family.items():
            found.setdefault(name, []).extend(signatures)
    return found


SIGNATURES = _all()


def kernel_of(name: str) -> Any:
    """The kernel of a name in `SIGNATURES`."""
    file, _, function = name.partition(".")
    return getattr(importlib.import_module(f"lite.kernels.cpu.{file}"), function)


class Part(NamedTuple):
    """A type of a signature: of a number, an array or None, or of what a tuple holds."""

    letter: str
    axes: int = 0
    inside: "tuple[Part, ...] | None" = None


def parsed(signature: str) -> tuple[Part, ...]:
    """The types of a signature (see `signatures`)."""
    words = re.findall(r"[()]|[^\s()]+", signature)
    words.reverse()

    def parts() -> Iterator[Part]:
        while words and (word := words.pop()) != ")":
            if word == "(":
                yield Part("(", 0, tuple(parts()))
            else:
                yield Part(word[0], word.count(",") + 1 if len(word) > 1 else 0)

    return tuple(parts())


def numba_types(parts: tuple[Part, ...]) -> tuple[Any, ...]:
    import numba

    types: Any = numba.types

    def one(part: Part) -> Any:
        if part.inside is not None:
            return types.Tuple(numba_types(part.inside))
        if part.letter == "-":
            return types.none
        number = getattr(types, _NUMBERS[part.letter])
        return types.Array(number, part.axes, "C") if part.axes else number

    return tuple(map(one, parts))
