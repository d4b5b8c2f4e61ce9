"""Digests of what every kernel computes, printed as JSON: processes that compute the same print the same."""

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

import lite.kernels as k
from lite.kernels import _images, _layers, _optimizers
from lite.kernels.linear_log_probs import LinearLogProbs

Case = tuple[str, Any]


def _returns(rng: np.random.Generator) -> Iterator[Case]:
    shapes = ((1, 128), (5, 33), (64, 200), (3, 40, 9), (2, 3000))
    for dtype, shape in itertools.product((np.float16, np.float32, np.float64, np.int32), shapes):
        r, v, n = ((10 * rng.normal(size=shape)).astype(dtype) for _ in range(3))
        done, ended = rng.random(shape) < 0.1, rng.random(shape) < 0.05
        p, q = (rng.normal(size=shape).astype(np.float64 if dtype == np.int32 else dtype) for _ in range(2))
        name = f"{np.dtype(dtype)} {shape}"
        for gamma in (0.97, rng.random(shape)):
            kind = f"{name} {np.ndim(gamma)}"
            yield f"reward_to_go {kind}", k.reward_to_go(r, done, gamma=gamma)
            yield f"gae {kind}", k.gae(r, v, n, done, ended, gamma=gamma, lmbda=0.9)
            yield f"td_lambda {kind}", k.td_lambda_return(r, n, done, gamma=gamma, lmbda=0.9)
            fixed = k.td_lambda_return(r, n, done, gamma=gamma, lmbda=0.9, rolling=False)
            yield f"td_lambda, fixed {kind}", fixed
            yield f"vtrace {kind}", k.vtrace(p, q, r, v, n, done, ended, gamma=gamma, lmbda=0.8)
            yield f"retrace {kind}", k.retrace(p, q, r, v, n, done, gamma=gamma)
        for steps in (1, 3, 17):
            yield f"multistep {name} {steps}", k.multistep_return(r, done, gamma=0.97, n_steps=steps)


def _logits(rng: np.random.Generator) -> Iterator[Case]:
    for dtype, shape in itertools.product(
        (np.float16, np.float32, np.float64), ((1, 5), (7, 100), (4, 5001), (2, 32_000))
    ):
        x = (4 * rng.normal(size=shape)).astype(dtype)
        x[0, :3] = (-np.inf, 60, 7)
        tokens, mask = rng.integers(0, shape[1], shape[0]), rng.random(shape) < 0.8
        mask[:, 1] = True
        name = f"{np.dtype(dtype)} {shape}"
        for kept in (None, mask, mask[:, 0]):
            kind = f"{name} {np.ndim(kept)}"
            for heat in (1.0, 0.7):
                yield f"log_softmax {kind} {heat}", k.masked_log_softmax(x, kept, temperature=heat)
                scores = k.token_log_probs_and_entropy(x, tokens, kept, temperature=heat)
                yield f"scores {kind} {heat}", scores
            yield f"stats {kind}", k.log_softmax_stats(x, kept)
        yield f"token_scores {name}", k.token_scores(x, tokens, temperature=0.8)
        seeds = np.arange(shape[0])
        for options in (
            {}, {"temperature": 0}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.1}, {"typical_p": 0.7},
            {"mask": mask}, {"repetition_penalty": 1.3, "previous": tokens[:, None]},
            {"top_k": 40, "top_p": 0.9, "scores": x / 2},
        ):  # fmt: skip
            kind = f"{name} {sorted(options)}"
            yield f"sample {kind}", k.sample_tokens(x, seeds, **options)
            drawn = k.sample_tokens(x, seeds, **options, details=True, kept_ids=True, top_n=3)
            yield (
                f"sample, details {kind}",
                [*drawn[:2], *(getattr(drawn[2], name) for name in drawn[2].__match_args__)],
            )


def _others(rng: np.random.Generator) -> Iterator[Case]:
    for dtype in (np.float32, np.float64):
        tree, least = k.sum_tree(1000, dtype), k.min_tree(1000, dtype)
        index, values = rng.integers(0, 1000, 500), rng.random(500)
        k.update_sum_tree(tree, index, values)
        k.update_min_tree(least, index, values)
        yield f"trees {np.dtype(dtype)}", [tree, least]
        yield f"search {np.dtype(dtype)}", k.search_sum_tree(tree, rng.random(300) * tree[1])
        for name, arrays in (("adam", 5), ("sgd", 3), ("rmsprop", 5), ("lerp", 2)):
            leaf = [rng.random(1037).astype(dtype) for _ in range(arrays)]
            _optimizers.advance(name, [leaf], np.linspace(0.1, 0.9, 9).astype(dtype))
            yield f"{name} {np.dtype(dtype)}", leaf
        hidden, weight = rng.normal(size=(9, 4)).astype(dtype), rng.normal(size=(3000, 4)).astype(dtype)
        for directions in (True, False):
            call = LinearLogProbs(hidden, weight, np.arange(9), block_bytes=9 * 8 * 1100)
            scores = call.log_probs(directions)
            shares = call.gradients(scores, True, not directions, not directions)
            yield f"linear_log_probs {np.dtype(dtype)} {directions}", [scores, *shares]
    x = (4 * rng.normal(size=(37, 111))).astype(np.float32)
    for name in ("gelu", "gelu_by_tanh", "silu"):
        yield name, _layers.pointwise(name, x)
    for image in (x, rng.integers(0, 256, (37, 111)).astype(np.uint8)):
        yield f"affine {image.dtype}", [_images.affine(image, 0.3, 0.7, divide) for divide in (True, False)]
        colours = image.reshape(37, 3, 37, 1), image.reshape(37, 37, 1, 3).transpose(0, 3, 1, 2)
        yield f"grey {image.dtype}", [_images.grey(y, (0.3, 0.6, 0.1)) for y in colours]
        yield f"resize {image.dtype}", _images.resize(image, rng.random((9, 37)), rng.random((50, 111)) / 50)
    yield "layer_norm", _layers.layer_norm(x, x[0], x[1], 111, 1e-5)


def _digest(results: Any) -> str:
    found = hashlib.sha256()
    for array in results if isinstance(results, (tuple, list)) else [results]:
        found.update(np.ascontiguousarray(0 if array is None else array).tobytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    k.set_num_threads(1)
    rng = np.random.default_rng(0)
    families = (_returns(rng), _logits(rng), _others(rng))
    print(json.dumps({name: _digest(found) for family in families for name, found in family}))
