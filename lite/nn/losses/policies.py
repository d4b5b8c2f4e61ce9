"""Functions of a policy's distribution for losses: log-probs, entropies, samples with log-probs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.types import Array
from lite._transforms.vmap.running import everything
from lite._tree.collection import TensorCollection
from lite.nn._modules.initial import Rng
from lite.nn.distributions.composite import CompositeDistribution
from lite.nn.distributions.distribution import Distribution, sum_rightmost
from lite.nn.distributions.log_prob_names import set_composite_lp_aggregate
from lite.nn.values.entries import detached

Keys = NestedKey | list[Any]


def require_policy(network: object) -> None:
    """Raise TypeError unless an `actor_network` has the method `get_dist`."""
    if not callable(getattr(network, "get_dist", None)):
        raise TypeError(
            "actor_network must be a module with get_dist, such as a ProbabilisticTensorDictSequential, got "
            f"{type(network).__name__}."
        )


def policy_keys(network: object) -> dict[str, Any]:
    """The keys of a loss for actions and log-probs, as far as the policy declares them."""
    found: dict[str, Any] = {}
    for name, attribute in (("sample_log_prob", "log_prob_keys"), ("action", "dist_sample_keys")):
        keys = getattr(network, attribute, None)
        if keys:
            found[name] = list(keys) if len(keys) > 1 else keys[0]
    return found


def entries(tensordict: TensorDictBase, key: Keys, reader: str) -> Any:
    """The entry of a key, or a TensorDict with the entries of several keys.

    Raises:
        KeyError: an entry is missing.
    """
    for one in key if isinstance(key, list) else [key]:
        if tensordict.get(one, None) is None:
            raise KeyError(f"{reader} reads the entry {one!r}, which the TensorDict lacks.")
    return tensordict.select(*key) if isinstance(key, list) else tensordict.get(key)


def log_prob_of(dist: Distribution, tensordict: TensorDictBase, action: Keys, reader: str) -> Any:
    """Log-probs of the actions in a TensorDict: an array, or a TensorDict with one for each part."""
    taken = entries(tensordict, action, reader)
    if isinstance(dist, CompositeDistribution) and not isinstance(taken, TensorCollection):
        taken = tensordict.select(*(action if isinstance(action, list) else [action]))
    return dist.log_prob(taken)


def total(log_probs: Array | TensorCollection, dims: int) -> Array:
    """The sum of the log-probs of all parts, with `dims` dimensions; an array is returned as it is."""
    if not isinstance(log_probs, TensorCollection):
        return log_probs
    parts: Any = log_probs
    leaves = parts.values(include_nested=True, leaves_only=True)
    summed = [sum_rightmost(leaf, max(0, leaf.ndim - dims)) for leaf in leaves]
    return sum(summed[1:], start=summed[0])


def drawn(dist: Distribution, sample_shape: tuple[int, ...], rng: Rng) -> tuple[Any, Any]:
    """Samples and their log-probs, with gradients through the samples if the distribution has `rsample`."""
    both = getattr(dist, "rsample_and_log_prob", None)
    if both is not None:
        values, log_probs = both(sample_shape, rng=rng)
        return values, log_probs
    if isinstance(dist, CompositeDistribution) or dist.has_rsample:
        values = dist.rsample(sample_shape, rng=rng)
    else:
        values = detached(dist.sample(sample_shape, rng=rng))
    return values, dist.log_prob(values)


def entropy_of(dist: Distribution, samples: int, rng: Rng) -> Any:
    """Entropy, from a formula or, if there is none, from samples.

    Returns:
        (*batch), or of a CompositeDistribution a TensorDict with `<name>_entropy` for each part, unless
        log-probs are summed.
    """
    if isinstance(dist, CompositeDistribution):
        return dist.entropy(samples, rng=rng)
    try:
        entropy = dist.entropy()
        if np.isfinite(everything(detached(entropy))).all():
            return entropy
    except NotImplementedError:
        pass
    with set_composite_lp_aggregate(False):
        _, log_probs = drawn(dist, (samples,), rng)
    return -log_probs.mean(0)
