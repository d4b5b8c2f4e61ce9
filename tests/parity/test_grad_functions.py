"""Gradients where torch has a convention of its own: ties, writes in place, structures of Jacobians."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case

import lite


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

    assert_as_torch(fn, reference, [np.random.default_rng(0).standard_normal((3, 4))], 1e-12)


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
