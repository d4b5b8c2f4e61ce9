"""Losses and activations as functions beside torch's: values, gradients and dtypes."""

import numpy as np
import pytest
import tensordict
import torch
import torch.nn.functional as reference
from helpers.cases import each_case

import lite
from lite.nn import functional

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 4, 5)) * 1.5
X[0, 0] = Y[0, 0]  # equal numbers
P, Q = (1 / (1 + np.exp(-a)) for a in (X, Y))
P[0, :2], Q[0, :2] = (0, 1), (0, 1)
V = np.abs(X)
V[1, 1] = 1e-9
COUNTS = RNG.poisson(2.0, (4, 5)).astype(float)
LOG_P, T = (np.log(a / a.sum(-1, keepdims=True)) for a in np.exp(np.stack([X, Y])))
T = np.exp(T)
T[0, 0] = 0
IDS = np.array([0, 4, -100, 2])
IMAGES, PIXELS = RNG.normal(size=(2, 3, 2, 2)), np.array([[[0, 1], [2, -1]], [[2, 2], [1, 0]]])
WEIGHTS = {"weight": np.abs(Y) + 0.1}
BY_CLASS = {"weight": np.arange(1.0, 6.0)}

CASES = [
    *((name, (X, Y), {}) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")),
    *((name, (X, Y), WEIGHTS) for name in ("mse_loss", "l1_loss", "huber_loss")),
    *(("smooth_l1_loss", (X, Y), {"beta": beta}) for beta in (0.0, 0.3, 2.0)),
    ("huber_loss", (X, Y), {"delta": 0.3}),
    ("cross_entropy", (X, IDS), {}),
    ("cross_entropy", (X, IDS), BY_CLASS),
    ("cross_entropy", (X, IDS), {"label_smoothing": 0.2}),
    ("cross_entropy", (X, IDS), {"label_smoothing": 0.2, **BY_CLASS}),
    ("cross_entropy", (X, np.abs(IDS) % 5), {"ignore_index": 4}),
    ("cross_entropy", (X, T), {}),
    ("cross_entropy", (X, T), {"label_smoothing": 0.2, **BY_CLASS}),
    ("cross_entropy", (X[0], np.array(3)), {}),
    ("cross_entropy", (X[0], T[0]), {}),
    ("cross_entropy", (IMAGES, PIXELS), {"ignore_index": -1}),
    ("cross_entropy", (IMAGES, PIXELS), {"ignore_index": -1, "weight": np.arange(1.0, 4.0)}),
    ("cross_entropy", (X, np.full(4, -100)), {}),
    ("nll_loss", (LOG_P, IDS), {}),
    ("nll_loss", (LOG_P, IDS), BY_CLASS),
    ("nll_loss", (LOG_P[0], np.array(3)), {}),
    ("nll_loss", (IMAGES, PIXELS), {"ignore_index": -1}),
    ("binary_cross_entropy", (P, Q), {}),
    ("binary_cross_entropy", (P, Q), WEIGHTS),
    ("binary_cross_entropy", (P, Q), BY_CLASS),
    ("binary_cross_entropy_with_logits", (X * 50, Q), {}),
    ("binary_cross_entropy_with_logits", (X, Q), {"pos_weight": BY_CLASS["weight"], **WEIGHTS}),
    ("kl_div", (LOG_P, T), {}),
    ("kl_div", (LOG_P, LOG_P[::-1].copy()), {"log_target": True}),
    ("gaussian_nll_loss", (X, Y, V), {}),
    ("gaussian_nll_loss", (X, Y, V), {"full": True, "eps": 0.1}),
    ("gaussian_nll_loss", (X, Y, V[:, 0]), {}),
    ("gaussian_nll_loss", (X, Y, V[:, :1]), {}),
    ("gaussian_nll_loss", (X, Y, 0.5), {}),
    ("poisson_nll_loss", (X, COUNTS), {}),
    ("poisson_nll_loss", (V, COUNTS), {"log_input": False, "full": True}),
    ("poisson_nll_loss", (X, COUNTS), {"full": True}),
]
LAYERS = [
    *(
        (name, (X,), {})
        for name in ("relu", "tanh", "sigmoid", "silu", "mish", "leaky_relu", "elu", "softplus", "gelu")
    ),
    ("leaky_relu", (X, 0.3), {}),
    ("elu", (X, 0.3), {}),
    ("softplus", (X, 2.0, 1.0), {}),
    ("gelu", (X,), {"approximate": "tanh"}),
    *((name, (X, dim), {}) for name in ("softmax", "log_softmax") for dim in (0, -1)),
    ("normalize", (X,), {}),
    ("normalize", (X, 1.0, 0), {}),
    ("normalize", (X, 3.0, -1, 2.0), {}),
    ("normalize", (X,), {"dim": (0, 1)}),
    ("normalize", (IMAGES,), {"dim": (1, 2, 3)}),
]


def theirs(value, grad=False):
    if not isinstance(value, np.ndarray):
        return value
    out = torch.tensor(value)
    return out.requires_grad_() if grad and out.is_floating_point() else out


def title(case):
    name, args, options = case
    return " ".join((name, *(str(a.shape) for a in args if isinstance(a, np.ndarray)), *options))


@pytest.mark.filterwarnings("ignore:reduction. .mean. divides")
@each_case("case", CASES, ids=title)
def test_losses(case):
    name, args, options = case
    for reduction in ("mean", "sum", "none", *(["batchmean"] if name == "kl_div" else [])):
        compare(name, args, {**options, "reduction": reduction})


@each_case("case", LAYERS, ids=title)
def test_activations(case):
    compare(*case)


def test_halves_are_normalized_in_floats():
    x = np.array([[300, 400], [3e-5, 4e-5]], np.float16)
    got, expected = functional.normalize(x), reference.normalize(torch.tensor(x))
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected, rtol=2e-3)


@each_case("options", [{}, {"num_classes": 7}])
@each_case("ids", [np.array([[0, 4], [2, 2]]), np.array(3)])
def test_one_hot(ids, options):
    got, expected = functional.one_hot(ids, **options), reference.one_hot(torch.tensor(ids), **options)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)


def single(value):
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def compare(name, args, options):
    """Values and the gradients by all arguments of floats."""
    tensors = [theirs(a, True) for a in args]
    expected = getattr(reference, name)(*tensors, **{k: theirs(v) for k, v in options.items()})
    fn = getattr(functional, name)
    np.testing.assert_allclose(fn(*args, **options), expected.detach(), rtol=1e-10, atol=1e-12)
    got = fn(*map(single, args), **{key: single(value) for key, value in options.items()})
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected.detach(), rtol=1e-5, atol=1e-5)
    weight = np.random.default_rng(1).normal(size=expected.shape)
    (expected * torch.tensor(weight)).sum().backward()
    places = tuple(i for i, tensor in enumerate(tensors) if getattr(tensor, "grad", None) is not None)
    with np.errstate(all="ignore"):
        grads = lite.grad(lambda *a: (fn(*a, **options) * weight).sum(), places)(*args)
    for place, got in zip(places, grads, strict=True):
        wanted = tensors[place].grad.numpy()
        got = np.where(np.isnan(wanted), wanted, got)  # of 0 log(0), by the 0
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11, err_msg=str(place))


@each_case("reduction", ["mean", "sum", "none"])
@each_case("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
def test_tensordicts(name, reduction):
    trees = [{"a": a, "n": {"b": a[:, 0]}} for a in (X, Y)]
    ours = [lite.TensorDict(tree, [4], names=["t"]) for tree in trees]
    there = [
        tensordict.TensorDict({"a": theirs(tree["a"]), "n": {"b": theirs(tree["n"]["b"])}}, [4])
        for tree in trees
    ]
    got = getattr(functional, name)(*ours, reduction=reduction)
    expected = getattr(reference, name)(*there, reduction=reduction)
    assert got.batch_size == tuple(expected.batch_size)
    for key in ("a", ("n", "b")):
        np.testing.assert_allclose(got[key], expected[key], rtol=1e-12)
