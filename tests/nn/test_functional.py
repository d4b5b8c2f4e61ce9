"""Losses and activations as functions; tests/parity/test_nn_functional.py compares values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorClass, TensorDict, enable_grad, grad, nn, vmap
from lite.nn import functional
from lite.nn import functional as F

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3, 4, 5))
P, Q = (1 / (1 + np.exp(-a)) for a in (X, Y))
IDS = RNG.integers(5, size=(3, 4))
# arguments of three calls, along the first dimension
CALLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"), (X, Y)),
    **dict.fromkeys(("cross_entropy", "nll_loss"), (X, IDS)),
    "binary_cross_entropy": (P, Q),
    **dict.fromkeys(("binary_cross_entropy_with_logits", "kl_div"), (X, Q)),
    "gaussian_nll_loss": (X, Y, P),
    "poisson_nll_loss": (X, P),
    **dict.fromkeys(
        (
            "relu", "tanh", "sigmoid", "silu", "mish", "leaky_relu", "elu", "softplus", "gelu", "softmax",
            "log_softmax", "normalize",
        ),
        (X,),
    ),
}  # fmt: skip


def test_every_function_is_called_here() -> None:
    assert set(CALLS) == set(functional.__all__) - {"linear_log_probs", "one_hot"}  # of integers


def number(name: str) -> Any:
    """A loss of one call."""
    options = {"dim": -1} if "softmax" in name else {}
    return lambda *args: (getattr(F, name)(*args, **options) * 2).sum()


@each_case("name", CALLS)
def test_in_maps_and_gradients(name: str) -> None:
    fn, args = number(name), CALLS[name]
    rows = list(zip(*args, strict=True))
    np.testing.assert_allclose(vmap(fn)(*args), [fn(*row) for row in rows])
    shared = (0, *(None for _ in args[1:]))
    first = [args[0], *(a[0] for a in args[1:])]
    np.testing.assert_allclose(vmap(fn, shared)(*first), [fn(x, *first[1:]) for x in args[0]])
    expected = [grad(fn)(*row) for row in rows]
    np.testing.assert_allclose(vmap(grad(fn))(*args), expected, atol=1e-15)
    np.testing.assert_allclose(grad(lambda *a: vmap(fn)(*a).sum())(*args), expected, atol=1e-15)
    parameter = nn.Parameter(args[0][0])
    with enable_grad():
        fn(parameter, *rows[0][1:]).backward()
    np.testing.assert_allclose(parameter.grad, expected[0])


class Batch(TensorClass):
    a: np.ndarray
    label: str


@each_case("name", CALLS)
def test_of_tensordicts(name: str) -> None:
    fn = getattr(F, name)
    options = {"dim": -1} if "softmax" in name else {}
    args = [a[0] for a in CALLS[name]]
    trees = [TensorDict({"n": {"x": a}, "s": "text"}, [4]) for a in args]
    out = fn(*trees, **options)
    is_loss = len(args) > 1
    assert (out.batch_size, out["s"]) == (() if is_loss else (4,), "text")
    np.testing.assert_array_equal(out["n", "x"], fn(*args, **options))
    if is_loss:
        each = fn(*trees, reduction="none")
        assert each.batch_size == (4,)
        np.testing.assert_array_equal(each["n", "x"], fn(*args, reduction="none"))
    classes = [Batch(a=a, label="b", batch_size=[4]) for a in args]
    assert type(fn(*classes, **options)) is Batch


def test_options_of_losses() -> None:
    d, counts = X - Y, np.arange(60.0).reshape(3, 4, 5) % 4
    huber = np.where(np.abs(d) <= 1, d * d / 2, np.abs(d) - 0.5)
    stirling = [0, 0, *(n * np.log(n) - n + np.log(2 * np.pi * n) / 2 for n in (2, 3))]
    poisson = np.exp(X) - counts * X
    for found, expected in (
        (F.cross_entropy(X[0, :, 0], np.array(1)), np.log(np.exp(X[0, :, 0]).sum()) - X[0, 1, 0]),
        (F.mse_loss(X, Y, weight=P), (P * d * d).sum() / P.sum()),
        (F.l1_loss(X, Y, weight=P, reduction="sum"), (P * np.abs(d)).sum()),
        (F.huber_loss(X, Y, weight=P), (P * huber).mean()),
        *(
            (f(p, Q, weight=P), (P * f(p, Q, reduction="none")).mean())
            for f, p in ((F.binary_cross_entropy, P / 9), (F.binary_cross_entropy_with_logits, X))
        ),
        (F.smooth_l1_loss(X, Y, beta=0), np.abs(d).mean()),
        (F.kl_div(X, Y, log_target=True), (np.exp(Y) * (Y - X)).mean()),
        (F.kl_div(X, Q, reduction="batchmean"), (Q * (np.log(Q) - X)).sum() / 3),
        (F.kl_div(X[0], 0 * X[0], reduction="sum"), 0),
        (
            F.binary_cross_entropy_with_logits(X, Q, pos_weight=np.array(3.0)),
            (3 * Q * np.log1p(np.exp(-X)) + (1 - Q) * np.log1p(np.exp(X))).mean(),
        ),
        (F.poisson_nll_loss(X, counts), poisson.mean()),
        (F.poisson_nll_loss(X, counts, full=True), (poisson + np.take(stirling, counts.astype(int))).mean()),
        (F.poisson_nll_loss(P, Q, log_input=False, eps=0.5), (P - Q * np.log(P + 0.5)).mean()),
        (F.gaussian_nll_loss(X, Y, P, full=True), F.gaussian_nll_loss(X, Y, P) + np.log(2 * np.pi) / 2),
    ):
        np.testing.assert_allclose(found, expected)


def test_variances_of_rows_and_batches_of_one_number() -> None:
    mean, y, var = np.zeros((2, 3)), np.ones((2, 3)), np.array([1.0, 4.0])
    of_rows = F.gaussian_nll_loss(mean, y, var, reduction="none")
    np.testing.assert_allclose(of_rows, F.gaussian_nll_loss(mean, y, var[:, None], reduction="none"))
    p, q = np.array([0.0, 0.25, 0.75]), np.array([0.5, 0.25, 0.25])
    expected = 0.75 * np.log(3)
    for shape, count in (((3,), 3), ((1, 3), 1)):
        found = F.kl_div(np.log(q).reshape(shape), p.reshape(shape), reduction="batchmean")
        np.testing.assert_allclose(found, expected / count)
    np.testing.assert_allclose(F.kl_div(np.log(q[1]), p[1], reduction="batchmean"), 0, atol=1e-12)


def test_weights_of_classes_and_smooth_labels() -> None:
    log_probs = X - np.log(np.exp(X).sum(1, keepdims=True))
    ids, weight, smooth = RNG.integers(4, size=(3, 5)), np.array([0.5, 1.0, 2.0, 3.0]), 0.2
    one_hot = np.moveaxis(np.eye(4)[ids], -1, 1)
    share = one_hot * (1 - smooth) + smooth / 4
    each = -(log_probs * weight[:, None] * share).sum(1)
    counts = ids != 2
    given = {"weight": weight, "label_smoothing": smooth}
    found = F.cross_entropy(X, ids, **given, ignore_index=2)
    np.testing.assert_allclose(found, (each * counts).sum() / (weight[ids] * counts).sum())
    np.testing.assert_allclose(F.cross_entropy(X, one_hot, **given), each.mean())
    np.testing.assert_allclose(F.cross_entropy(X, ids, **given, reduction="sum"), each.sum())
    picked = -(log_probs * weight[:, None] * one_hot).sum(1)
    np.testing.assert_allclose(F.nll_loss(log_probs, ids, weight), picked.sum() / weight[ids].sum())


def test_gradients_by_tensordicts() -> None:
    params, goal = TensorDict(a=X[0], b=X[1]), TensorDict(a=Y[0], b=Y[1])
    loss = lambda p: F.mse_loss(p, goal).sum(reduce=True)  # noqa: E731
    np.testing.assert_allclose(grad(loss)(params)["b"], 2 * (X[1] - Y[1]) / X[1].size)


def test_arrays_of_jax() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="needs jax")
    for name, args in CALLS.items():
        options = {"dim": -1} if "softmax" in name else {}
        small = [a[0].astype(np.float32) if a.dtype.kind == "f" else a[0] for a in args]
        got = getattr(F, name)(*map(jnp.asarray, small), **options)
        assert type(got) is type(jnp.ones(1))
        np.testing.assert_allclose(got, getattr(F, name)(*small, **options), rtol=2e-5, atol=1e-6)


def test_in_place_and_dtypes() -> None:
    x = np.array([-1.0, 2.0])
    assert F.relu(x, inplace=True) is x
    np.testing.assert_array_equal(x, [0, 2])
    assert F.softmax(np.arange(3), -1, dtype=np.float32).dtype == np.float32
    assert F.log_softmax(np.ones(3, np.float32), -1, dtype="float64").dtype == np.float64


def test_logarithms_of_0_are_cut_off_as_in_torch() -> None:
    p, q = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(F.binary_cross_entropy(p, q, reduction="none"), [100, 100, 0, 0])


def test_what_does_not_count() -> None:
    scores = X[0].copy()
    scores[1] = -np.inf  # of a row that does not count
    ids = np.array([1, -100, 2, 0])
    left = F.cross_entropy(X[0][[0, 2, 3]], ids[[0, 2, 3]])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(F.cross_entropy(scores, ids), left)
    assert np.isnan(F.cross_entropy(X[0], np.full(4, -100)))
    assert np.isnan(F.mse_loss(np.ones(0), np.ones(0)))


@each_case(
    ("call", "error", "message"),
    [
        (lambda: F.mse_loss(X, Y, reduction="max"), ValueError,
            "reduction must be one of .*'none'.*got 'max'"),
        (lambda: F.mse_loss(X, Y, weight=X[0]), ValueError, r"weight must have input's shape \(3, 4, 5\)"),
        (lambda: F.smooth_l1_loss(X, Y, beta=-1), ValueError, "beta must not be negative, got -1"),
        (lambda: F.huber_loss(X, Y, delta=0), ValueError, "delta must be positive, got 0"),
        (lambda: F.cross_entropy(X[0], IDS[0] + 3), IndexError, "target must be from 0 to 4, got "),
        (lambda: F.nll_loss(X[0], -1 - IDS[0]), IndexError, "target must be from 0 to 4, got -"),
        (lambda: F.cross_entropy(X[0], IDS), ValueError,
            r"integers of the shape \(4,\), got int64 of \(3, 4\)"),
        (lambda: F.cross_entropy(X[0], X), ValueError, "probabilities of classes must have the shape"),
        (lambda: F.nll_loss(X[0], X[0]), ValueError, "ids of classes must be integers"),
        (lambda: F.nll_loss(X[0], IDS[0], np.ones(4)), ValueError, r"weight must have the shape \(5,\)"),
        (lambda: F.cross_entropy(np.float64(1), IDS), ValueError,
            "input must have a dimension of classes"),
        (lambda: F.cross_entropy(X[0], IDS[0], label_smoothing=2), ValueError,
            "label_smoothing must be from"),
        (lambda: F.binary_cross_entropy(P, Q[0]), ValueError, "target must have the shape of input"),
        (lambda: F.binary_cross_entropy(P + 1, Q), ValueError, "input must be from 0 to 1, got 1"),
        (lambda: F.binary_cross_entropy_with_logits(X, Q[0]), ValueError, "target must have the shape"),
        (lambda: F.gaussian_nll_loss(X, Y, -P), ValueError, "var must not be negative, got -"),
        (lambda: F.mse_loss(TensorDict(a=X), TensorDict(b=X)), KeyError, "a"),
        (lambda: F.one_hot(np.array([0, 3]), 3), ValueError,
            "tensor must be from 0 on and below num_classes=3, got 0 to 3"),
        (lambda: F.one_hot(np.array([], int)), ValueError, "num_classes must be given for a tensor without"),
        (lambda: F.one_hot(np.array([0, -1])), ValueError, "got -1 to 0"),
        (lambda: F.one_hot(X), TypeError, "tensor must be of integers, got float64"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    raises(error, message, call)


@each_case("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_shapes_that_are_broadcast_warn(name: str) -> None:
    with pytest.warns(UserWarning, match=r"the shapes \(4,\) and \(4, 1\), which are broadcast") as caught:
        out = getattr(F, name)(np.ones(4), np.zeros((4, 1)), reduction="none")
    assert out.shape == (4, 4)
    assert caught[0].filename == __file__


def test_it_is_found_as_in_torch() -> None:
    assert lite.nn.functional is functional


def test_names_that_are_not_there_say_where_others_are() -> None:
    raises(AttributeError, r"no attribute 'pad': .* a formula of NumPy's functions", getattr, F, "pad")


def test_one_hot_in_maps_graphs_and_tensordicts() -> None:
    expected = np.eye(5)[IDS]
    np.testing.assert_array_equal(F.one_hot(np.array([2, 0], np.uint8)), [[0, 0, 1], [1, 0, 0]])
    assert F.one_hot(np.zeros((0, 2), int), 3).shape == (0, 2, 3)
    np.testing.assert_array_equal(vmap(lambda ids: F.one_hot(ids, 5))(IDS), expected)
    np.testing.assert_array_equal(lite.jit(lambda ids: F.one_hot(ids, 5))(IDS), expected)
    td = F.one_hot(TensorDict({"n": {"ids": IDS}}, [3, 4]), 5)
    np.testing.assert_array_equal(td["n", "ids"], expected)
