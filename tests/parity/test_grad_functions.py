"""Gradients of NumPy functions against torch.autograd, for the functions that torch has."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case

import lite

Row = tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]
X, Y, V = (3, 4), (4, 5), (6,)
SPD = "spd"  # a symmetric matrix of eigenvalues from 1

ROWS = [
    ("sum", lambda x: np.sum(x, 1), lambda x: x.sum(1), (X,)),
    ("mean", lambda x: np.mean(x, (0, 1)), lambda x: x.mean((0, 1)), (X,)),
    ("prod", lambda x: np.prod(x, 1), lambda x: x.prod(1), (X,)),
    ("amax", lambda x: np.max(x, 0), lambda x: x.amax(0), (X,)),
    ("amin", lambda x: np.min(x, 0, keepdims=True), lambda x: x.amin(0, True), (X,)),
    ("max of all", np.max, torch.max, (X,)),
    ("var", lambda x: np.var(x, 1, ddof=1), lambda x: x.var(1), (X,)),
    ("std", lambda x: np.std(x, ddof=0), lambda x: x.std(correction=0), (X,)),
    ("nansum", lambda x: np.nansum(x, 0), lambda x: x.nansum(0), (X,)),
    ("quantile", lambda x: np.quantile(x, [0.2, 0.7], 1), lambda x: _quantile(x), (X,)),
    ("median of an odd number", lambda x: np.median(x), lambda x: x.median(), ((7,),)),
    ("cumsum", lambda x: np.cumsum(x, 1), lambda x: x.cumsum(1), (X,)),
    ("cumprod", lambda x: np.cumprod(x, 0), lambda x: x.cumprod(0), (X,)),
    ("diff", lambda x: np.diff(x, 2, 1), lambda x: x.diff(2, 1), (X,)),
    ("gradient", lambda x: np.gradient(x, axis=1), lambda x: torch.gradient(x, dim=1)[0], (X,)),
    ("trapezoid", lambda y, x: np.trapezoid(y, x), torch.trapezoid, (V, V)),
    ("reshape", lambda x: x.reshape(2, -1), lambda x: x.reshape(2, -1), (X,)),
    ("transpose", lambda x: np.transpose(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1), ((2, 3, 4),)),
    ("broadcast_to", lambda x: np.broadcast_to(x, (2, 3, 4)), lambda x: x.expand(2, 3, 4), (X,)),
    ("flip", lambda x: np.flip(x, (0, 1)), lambda x: x.flip(0, 1), (X,)),
    ("roll", lambda x: np.roll(x, (1, 2), (0, 1)), lambda x: x.roll((1, 2), (0, 1)), (X,)),
    ("rot90", np.rot90, torch.rot90, (X,)),
    ("tile", lambda x: np.tile(x, (2, 1, 3)), lambda x: x.tile(2, 1, 3), (X,)),
    ("repeat", lambda x: np.repeat(x, 3, 1), lambda x: x.repeat_interleave(3, 1), (X,)),
    ("diagonal", lambda x: np.diagonal(x, 1), lambda x: x.diagonal(1), (X,)),
    ("trace", np.trace, torch.trace, (X,)),
    ("tril", lambda x: np.tril(x, -1), lambda x: x.tril(-1), (X,)),
    ("diag", np.diag, torch.diag, (V,)),
    (
        "sliding windows",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3),
        lambda x: x.unfold(0, 3, 1),
        (V,),
    ),
    *(
        (
            f"pad {mode}",
            lambda x, mode=mode: np.pad(x, ((0, 0), (2, 1)), _PADDING[mode]),
            lambda x, mode=mode: torch.nn.functional.pad(x, (2, 1), mode),
            (X,),
        )
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    ("concatenate", lambda x, y: np.concatenate([x, y, x], 1), lambda x, y: torch.cat([x, y, x], 1), (X, X)),
    ("stack", lambda x, y: np.stack([x, y], 1), lambda x, y: torch.stack([x, y], 1), (X, X)),
    ("split", lambda x: np.array_split(x, 3, 1)[1], lambda x: torch.tensor_split(x, 3, 1)[1], (X,)),
    ("sort", lambda x: np.sort(x, 1), lambda x: x.sort(1).values, (X,)),
    ("take", lambda x: np.take(x, [2, 0, 2], 1), lambda x: x[:, [2, 0, 2]], (X,)),
    (
        "take_along_axis",
        lambda x: np.take_along_axis(x, np.array([[0, 1, 1, 0]]), 0),
        lambda x: torch.take_along_dim(x, torch.tensor([[0, 1, 1, 0]]), 0),
        (X,),
    ),
    ("where", lambda x, y: np.where(x > y, x, y * y), lambda x, y: torch.where(x > y, x, y * y), (X, X)),
    ("clip", lambda x: np.clip(x, -0.5, 0.5), lambda x: x.clip(-0.5, 0.5), (X,)),
    ("matmul", np.matmul, torch.matmul, (X, Y)),
    ("matmul of stacks", np.matmul, torch.matmul, ((2, 1, 3, 4), (5, 4, 2))),
    ("matmul by a vector", np.matmul, torch.matmul, ((2, 3, 4), (4,))),
    ("dot", np.dot, torch.dot, (V, V)),
    ("inner", np.inner, torch.inner, (X, (2, 4))),
    ("outer", np.outer, torch.outer, (V, (3,))),
    ("kron", np.kron, torch.kron, ((2, 3), (3, 2))),
    ("cross", np.cross, lambda x, y: torch.linalg.cross(x, y), ((4, 3), (4, 3))),
    (
        "tensordot",
        lambda x, y: np.tensordot(x, y, ([1, 0], [0, 2])),
        lambda x, y: torch.tensordot(x, y, ([1, 0], [0, 2])),
        (X, (4, 2, 3)),
    ),
    *(
        (
            f"einsum {text}",
            lambda *xs, text=text: np.einsum(text, *xs),
            lambda *xs, text=text: torch.einsum(text, *xs),
            shapes,
        )
        for text, shapes in (
            ("ij,jk->ki", (X, Y)),
            ("ii->i", ((3, 3),)),
            ("bqhd,bkhd->bhqk", ((2, 3, 2, 4), (2, 5, 2, 4))),
            ("...i,ij,...j->...", ((2, 3), (3, 4), (2, 4))),
        )
    ),
    ("inv", np.linalg.inv, torch.linalg.inv, (SPD,)),
    ("solve", np.linalg.solve, torch.linalg.solve, (SPD, (3, 2))),
    ("det", np.linalg.det, torch.linalg.det, (SPD,)),
    ("slogdet", lambda x: np.linalg.slogdet(x)[1], lambda x: torch.linalg.slogdet(x)[1], (SPD,)),
    ("cholesky", np.linalg.cholesky, torch.linalg.cholesky, (SPD,)),
    ("pinv", np.linalg.pinv, torch.linalg.pinv, (X,)),
    ("eigvalsh", np.linalg.eigvalsh, torch.linalg.eigvalsh, (SPD,)),
    ("svdvals", np.linalg.svdvals, torch.linalg.svdvals, (X,)),
    ("qr", lambda x: np.linalg.qr(x)[1] ** 2, lambda x: torch.linalg.qr(x)[1] ** 2, ((4, 3),)),
    (
        "matrix_power",
        lambda x: np.linalg.matrix_power(x, 3),
        lambda x: torch.linalg.matrix_power(x, 3),
        (SPD,),
    ),
    ("norm", lambda x: np.linalg.norm(x, axis=1), lambda x: torch.linalg.norm(x, dim=1), (X,)),
    *(
        (
            f"norm {p}",
            lambda x, p=p: np.linalg.norm(x, p, 0),
            lambda x, p=p: torch.linalg.vector_norm(x, p, 0),
            (X,),
        )
        for p in (1, 3, np.inf)
    ),
    ("norm nuc", lambda x: np.linalg.norm(x, "nuc"), lambda x: torch.linalg.norm(x, "nuc"), (X,)),
    ("logaddexp", np.logaddexp, torch.logaddexp, (X, X)),
    ("arctan2", np.arctan2, torch.atan2, (X, X)),
    ("power", lambda x, y: (x * x + 0.5) ** y, lambda x, y: (x * x + 0.5) ** y, (X, X)),
    ("hypot", np.hypot, torch.hypot, (X, X)),
    ("sinc", np.sinc, torch.sinc, (X,)),
    ("i0", np.i0, torch.special.i0, (X,)),
    ("nan_to_num", np.nan_to_num, torch.nan_to_num, (X,)),
    *(
        (name, getattr(np, name), getattr(torch, name), (X,))
        for name in (
            "exp", "expm1", "tanh", "sin", "cos", "tan", "arctan", "sinh", "cosh", "square", "abs",
            "arcsinh",
        )
    ),
    *(
        (
            name,
            lambda x, name=name: getattr(np, name)(x * x + 0.5),
            lambda x, name=name: getattr(torch, name)(x * x + 0.5),
            (X,),
        )
        for name in ("log", "log1p", "log2", "log10", "sqrt", "reciprocal")
    ),
]  # fmt: skip
_PADDING = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _quantile(x):
    return torch.quantile(x, torch.tensor([0.2, 0.7], dtype=x.dtype), 1)


def arguments(name, shapes):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    out = []
    for shape in shapes:
        if shape == SPD:
            x = rng.standard_normal((3, 3))
            out.append(x @ x.T + np.eye(3))
        else:
            out.append(rng.standard_normal(shape))
    return out


def assert_as_torch(fn, reference, arrays, tolerance):
    """Values and gradients of the results times fixed weights are those of torch."""
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    expected = reference(*tensors)
    weights = np.cos(1 + np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(arrays[0].dtype)
    (expected * torch.from_numpy(weights)).sum().backward()
    value, grads = lite.value_and_grad(lambda *xs: np.sum(fn(*xs) * weights), tuple(range(len(arrays))))(
        *arrays
    )
    wanted = float((expected * torch.from_numpy(weights)).sum().detach())
    np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)
    for got, tensor in zip(grads, tensors, strict=True):
        assert got.dtype == arrays[0].dtype
        scale = max(1.0, float(tensor.grad.abs().max()))
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-5)])
@each_case("row", ROWS)
def test_gradients_are_those_of_torch(row, dtype, tolerance):
    name, fn, reference, shapes = row
    assert_as_torch(fn, reference, [x.astype(dtype) for x in arguments(name, shapes)], tolerance)


TIES = np.array([[1.0, 2.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0]])


@each_case(
    ("fn", "reference"),
    [
        (lambda x: np.max(x, 1), lambda x: x.amax(1)),
        (lambda x: np.min(x, 0), lambda x: x.amin(0)),
        (np.max, torch.max),
        (lambda x: np.sort(x, 1), lambda x: x.sort(dim=1, stable=True).values),
        (lambda x: np.maximum(x, 2.0), lambda x: torch.maximum(x, torch.full_like(x, 2.0))),
        (lambda x: np.clip(x, 1.0, 3.0), lambda x: x.clip(1.0, 3.0)),
        (lambda x: np.abs(x - 2), lambda x: (x - 2).abs()),
        (lambda x: np.std(x, 1), lambda x: x.std(1, correction=0)),
        (lambda x: np.linalg.norm(x - 3, axis=1), lambda x: torch.linalg.norm(x - 3, dim=1)),
        (lambda x: np.prod(x - 2, 1), lambda x: (x - 2).prod(1)),
        (lambda x: np.cumprod(x - 2, 1), lambda x: (x - 2).cumprod(1)),
    ],
)
def test_equal_elements_share_as_in_torch(fn, reference):
    assert_as_torch(fn, reference, [TIES], 1e-12)


def test_writes_in_place_are_those_of_torch():
    def fn(x):
        x = x * 2
        x[0] += x[1]
        x[:, 1:3] *= 3
        x.T[0] = x[1, 1]
        return x

    def reference(x):
        x = x * 2
        x[0] += x[1]
        x[:, 1:3] *= 3
        x.T[0] = x[1, 1].clone()
        return x

    assert_as_torch(fn, reference, arguments("writes", (X,)), 1e-12)


class Shapes(NamedTuple):
    """A TensorDict to be filled."""

    shapes: dict[str, Any]
    batch_size: tuple[int, ...]


JACOBIANS = [
    (lambda x: x * x, 0, [(3,)]),
    (lambda x, y: (x * y.sum(), {"s": [(x * y).sum()]}), (1, 0), [(3,), (3,)]),
    (lambda d, y: d["a"] * y, 0, [{"a": (2, 3)}, (3,)]),
    (lambda x, y: x * y, (0,), [(2,), (2,)]),
    (lambda t: t["a"].T @ t["b"], 0, [Shapes({"a": (3, 2), "b": (3,)}, (3,))]),
    (lambda x: {"out": x.reshape(3, 2).T}, 0, [(6,)]),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch
@each_case("name", ["jacrev", "jacfwd"])
@each_case(("fn", "argnums", "shapes"), JACOBIANS)
def test_jacobians_are_those_of_torch(fn, argnums, shapes, name):
    ours, theirs = (
        getattr(module, name)(fn, argnums, has_aux=False)(*[filled(item, like) for item in shapes])
        for module, like in ((lite, lite), (torch.func, tensordict))
    )
    assert outline(ours) == outline(theirs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch
@each_case(("fn", "argnums", "shapes"), JACOBIANS)
def test_second_derivatives_are_those_of_torch(fn, argnums, shapes):
    ours, theirs = (
        module.hessian(fn, argnums)(*[filled(item, like) for item in shapes])
        for module, like in ((lite, lite), (torch.func, tensordict))
    )
    if isinstance(ours, lite.TensorDict):  # batch sizes grow as jacrev's do, not those of forward mode
        ours, theirs = ours.to_dict(), theirs.to_dict()
    assert outline(ours) == outline(theirs)


def filled(item, library):
    """Numbers of some shapes, in the structure of `item`; the same for both libraries."""
    if isinstance(item, dict):
        return {key: filled(value, library) for key, value in item.items()}
    if isinstance(item, Shapes):
        return library.TensorDict(filled(item.shapes, library), batch_size=item.batch_size)
    array = np.random.default_rng(0).normal(size=item)
    return array if library is lite else torch.from_numpy(array)


def outline(found):
    """Structure, batch sizes and rounded numbers."""
    if isinstance(found, (lite.TensorDict, tensordict.TensorDict)):
        return tuple(found.batch_size), {key: outline(value) for key, value in sorted(found.items())}
    if isinstance(found, dict):
        return {key: outline(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return type(found)(map(outline, found))
    return np.round(np.asarray(found), 8).tolist()
