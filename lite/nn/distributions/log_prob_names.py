"""Keys of the log-probs of several samples: an entry for each, or one for their sum."""

from __future__ import annotations

from lite import NestedKey, unravel_key
from lite._arrays.public import belong_to
from lite._arrays.settings import Scoped, Setting, from_environment

_aggregate: Setting[bool] = Setting(
    "lite.nn.composite_lp_aggregate", bool(from_environment("COMPOSITE_LP_AGGREGATE"))
)


def composite_lp_aggregate(nowarn: bool = False) -> bool:
    """Tell whether log-probs and entropies of a `CompositeDistribution` are summed to one array.

    Args:
        nowarn: has no effect; nothing warns here.

    Example:
        >>> from lite.nn import composite_lp_aggregate, set_composite_lp_aggregate
        >>> with set_composite_lp_aggregate(True):
        ...     composite_lp_aggregate()
        True
        >>> composite_lp_aggregate()
        False
    """
    return _aggregate.get()


class set_composite_lp_aggregate(Scoped[bool]):
    """Choose between one log-prob (and entropy) per sample, which is the default, and their sum.

    Summed, the log-prob of a probabilistic module is written under "sample_log_prob"; otherwise each sample
    `x` has an entry `x_log_prob`. A module works only under the mode in which it was made. Use it in a `with`
    statement, as a decorator, or for the whole process by `.set()`, which `.unset()` undoes; the environment
    variable COMPOSITE_LP_AGGREGATE sets it at the start.

    Args:
        mode: True for the sum.
        thread_local: accepted for compatibility; a block or decorator is for the running thread in any case.

    Example:
        >>> from lite.nn import ProbabilisticTensorDictModule, set_composite_lp_aggregate
        >>> from lite.nn.distributions import Normal
        >>> with set_composite_lp_aggregate(True):
        ...     ProbabilisticTensorDictModule(
        ...         ["loc", "scale"], ["x"], distribution_class=Normal, return_log_prob=True
        ...     ).out_keys
        ['x', 'sample_log_prob']
    """

    _setting = _aggregate

    def __init__(self, mode: bool = True, *, thread_local: bool = False) -> None:
        super().__init__(bool(mode))


def default_log_prob_key() -> NestedKey:
    """The key of the log-prob of an action, unless one is chosen."""
    return "sample_log_prob" if composite_lp_aggregate() else "action_log_prob"


def add_suffix(key: NestedKey, suffix: str) -> NestedKey:
    """The key with a longer last part."""
    key = unravel_key(key)
    return key + suffix if isinstance(key, str) else (*key[:-1], key[-1] + suffix)


def log_prob_names(
    samples: list[NestedKey], key: NestedKey | None = None, keys: list[NestedKey] | None = None
) -> list[NestedKey]:
    """Where the log-probs of samples go: one key for each, or one where they are summed.

    Args:
        samples: keys of the samples.
        key: the requested key, if there is one log-prob.
        keys: the requested keys, one for each sample.

    Raises:
        RuntimeError: `key` or `keys` is given where only the other has a meaning.
        ValueError: `keys` are not as many as `samples`.
    """
    if composite_lp_aggregate():
        if keys is not None:
            raise RuntimeError(
                "composite_lp_aggregate is set to True but log_prob_keys were passed: there is one sum, "
                "pass log_prob_key."
            )
        return ["sample_log_prob" if key is None else unravel_key(key)]
    if key is not None:
        if len(samples) != 1:
            raise RuntimeError(
                "composite_lp_aggregate is set to False but a log_prob_key was passed for "
                f"{len(samples)} out_keys: pass log_prob_keys."
            )
        keys = [key] if keys is None else keys
    if keys is None:
        keys = [add_suffix(sample, "_log_prob") for sample in samples]
    if len(keys) != len(samples):
        raise ValueError(f"log_prob_keys must be one for each of out_keys={samples}, got {keys}.")
    return [unravel_key(k) for k in keys]


belong_to("lite.nn", set_composite_lp_aggregate)
