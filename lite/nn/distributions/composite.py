"""CompositeDistribution: several distributions whose samples make up a TensorDict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from lite import NestedKey, TensorDict, unravel_key
from lite._tree.collection import TensorCollection
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    Distribution,
    as_shape,
    deterministic_sample,
    generator_of,
    sum_rightmost,
)
from lite.nn.distributions.log_prob_names import add_suffix, composite_lp_aggregate


class CompositeDistribution(Distribution, Mapping[NestedKey, Distribution]):
    """Independent distributions by name; samples, log-probs and entropies are TensorDicts.

    It is a mapping from the names of samples to distributions. With `set_composite_lp_aggregate(True)`
    log-probs and entropies are one array, the sum over all.

    Args:
        params: TensorDict with the parameters of each distribution, by keyword, under its name.
        distribution_map: from names to classes (or functions that make a distribution).
        name_map: from these names to those of the samples; without it they are the same.
        extra_kwargs: from names to more keyword arguments.
        log_prob_key: where a summed log-prob goes, "sample_log_prob" by default.
        entropy_key: where a summed entropy goes, "entropy" by default.

    Raises:
        KeyError: `params` has no entry under a name.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.nn import CompositeDistribution
        >>> from lite.nn.distributions import Categorical, Normal
        >>> params = TensorDict(
        ...     {
        ...         "move": {"loc": np.zeros((3, 4)), "scale": np.ones((3, 4))},
        ...         ("hand", "grip"): {"logits": np.zeros((3, 2))},
        ...     },
        ...     batch_size=[3],
        ... )
        >>> dist = CompositeDistribution(params, {"move": Normal, ("hand", "grip"): Categorical})
        >>> sample = dist.sample((5,), rng=0)
        >>> sample["move"].shape, sample["hand", "grip"].shape
        ((5, 3, 4), (5, 3))
        >>> dist.log_prob(sample)["hand", "grip_log_prob"].shape
        (5, 3)

    Source:
        tensordict.nn.CompositeDistribution.
    """

    def __init__(
        self,
        params: Any,
        distribution_map: Mapping[NestedKey, Callable[..., Distribution]],
        *,
        name_map: Mapping[NestedKey, NestedKey] | None = None,
        extra_kwargs: Mapping[NestedKey, Mapping[str, Any]] | None = None,
        log_prob_key: NestedKey | None = None,
        entropy_key: NestedKey | None = None,
    ) -> None:
        extra = _flat_keys(extra_kwargs)
        made = {}
        for name, make in _flat_keys(distribution_map).items():
            own = params.get(name)
            if own is None:
                raise KeyError(f"params has no {name!r}, only {sorted(map(str, params.keys()))}")
            made[name] = make(**{key: own[key] for key in own.keys()}, **extra.get(name, {}))  # noqa: SIM118
        self._hold(params, made, name_map, log_prob_key, entropy_key)

    @classmethod
    def from_distributions(
        cls,
        params: Any,
        distributions: Mapping[NestedKey, Distribution],
        *,
        name_map: Mapping[NestedKey, NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        entropy_key: NestedKey | None = None,
    ) -> Self:
        """Bring distributions together that exist already; of `params` only the batch size is used.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> from lite.nn import CompositeDistribution
            >>> from lite.nn.distributions import Normal, Uniform
            >>> dists = {"a": Normal(np.zeros(2), 1.0), "b": Uniform(0.0, 1.0)}
            >>> sample = CompositeDistribution.from_distributions(TensorDict(), dists).sample()
            >>> sample["a"].shape, sample["b"].shape
            ((2,), ())
        """
        self = cls.__new__(cls)
        self._hold(params, _flat_keys(distributions), name_map, log_prob_key, entropy_key)
        return self

    def _hold(
        self,
        params: Any,
        dists: dict[NestedKey, Distribution],
        name_map: Mapping[NestedKey, NestedKey] | None,
        log_prob_key: NestedKey | None,
        entropy_key: NestedKey | None,
    ) -> None:
        super().__init__(params.batch_size)
        names = {key: unravel_key(name) for key, name in _flat_keys(name_map).items()}
        self.dists: dict[NestedKey, Distribution] = {names.get(key, key): d for key, d in dists.items()}
        self.log_prob_key: NestedKey = "sample_log_prob" if log_prob_key is None else log_prob_key
        self.entropy_key: NestedKey = "entropy" if entropy_key is None else entropy_key

    # -- the mapping -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[NestedKey]:
        return iter(self.dists)

    def __getitem__(self, name: NestedKey) -> Distribution:
        return self.dists[unravel_key(name)]

    def __len__(self) -> int:
        return len(self.dists)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dists})"

    def expand(self, batch_shape: Any) -> Self:
        """The distributions for a larger batch; see `Distribution.expand`."""
        out = super().expand(batch_shape)
        dims = len(self.batch_shape)
        out.dists = {
            name: dist.expand((*out.batch_shape, *dist.batch_shape[dims:])) for name, dist in self.items()
        }
        return out

    # -- values ------------------------------------------------------------------------------------

    def _each(self, value: Callable[[Distribution], Any], sample_shape: tuple[int, ...] = ()) -> TensorDict:
        values: dict[Any, Any] = {name: value(dist) for name, dist in self.dists.items()}
        return TensorDict(values, batch_size=(*sample_shape, *self.batch_shape))

    def sample(self, sample_shape: Any = (), *, rng: Rng = None) -> TensorDict:
        """Draw values, in a TensorDict of batch size (*sample_shape, *batch_shape)."""
        shape, generator = as_shape(sample_shape), generator_of(rng)
        return self._each(lambda dist: dist.sample(shape, rng=generator), shape)

    def rsample(self, sample_shape: Any = (), *, rng: Rng = None) -> TensorDict:
        """As `sample`, with derivatives of those that have them."""
        shape, generator = as_shape(sample_shape), generator_of(rng)
        return self._each(
            lambda dist: (dist.rsample if dist.has_rsample else dist.sample)(shape, rng=generator), shape
        )

    @property
    def mean(self) -> TensorDict:
        """The mean of each."""
        return self._each(lambda dist: dist.mean)

    @property
    def mode(self) -> TensorDict:
        """The mode of each."""
        return self._each(lambda dist: dist.mode)

    @property
    def median(self) -> TensorDict:
        """The median of each."""
        return self._each(lambda dist: dist.median)

    @property
    def deterministic_sample(self) -> TensorDict:
        """The deterministic sample of each distribution."""
        return self._each(deterministic_sample)

    # -- log-probs and entropies -------------------------------------------------------------------

    def log_prob(self, sample: Any) -> Any:
        """Log-probs of a TensorDict of values.

        Returns:
            A TensorDict with `<name>_log_prob` for each name; where log-probs are summed, one array of the
            batch size of `sample`.

        Raises:
            RuntimeError: `sample` is not a TensorDict.
        """
        if not composite_lp_aggregate():
            return self.log_prob_composite(sample)
        return sum(_summed(value, len(sample.batch_size)) for value in self._log_probs(sample).values())

    def log_prob_composite(self, sample: Any, *, include_sum: bool | None = None) -> Any:
        """Log-probs of a TensorDict of values, each under its own name.

        Args:
            sample: the values.
            include_sum: whether to add the sum under `log_prob_key`; by default where log-probs are summed.

        Returns:
            A new TensorDict; where log-probs are summed, `sample` with the log-probs added to it.
        """
        aggregate = composite_lp_aggregate()
        values = self._log_probs(sample)
        if aggregate if include_sum is None else include_sum:
            dims = len(sample.batch_size)
            values[self.log_prob_key] = sum(_summed(value, dims) for value in list(values.values()))
        if aggregate:
            return sample.update(values)
        return sample.empty(recurse=True).update(values).filter_empty_()

    def _log_probs(self, sample: Any) -> dict[NestedKey, Any]:
        if not isinstance(sample, TensorCollection):
            raise RuntimeError(f"Expected a tensordict sample, but got a {type(sample).__name__} instead.")
        return {add_suffix(name, "_log_prob"): dist.log_prob(sample.get(name)) for name, dist in self.items()}  # type: ignore[attr-defined]

    def entropy(self, samples_mc: int = 1, *, include_sum: bool | None = None, rng: Rng = None) -> Any:
        """Entropies, each under `<name>_entropy`; where log-probs are summed, one array with the sum.

        Args:
            samples_mc: how many samples to estimate an entropy from that has no closed form.
            include_sum: whether to add the sum under `entropy_key`; by default where log-probs are summed.
            rng: generator or seed for the estimates.
        """
        if not composite_lp_aggregate():
            return self.entropy_composite(samples_mc, include_sum=include_sum, rng=rng)
        dims = len(self.batch_shape)
        return sum(_summed(value, dims) for value in self._entropies(samples_mc, rng).values())

    def entropy_composite(
        self, samples_mc: int = 1, *, include_sum: bool | None = None, rng: Rng = None
    ) -> TensorDict:
        """Entropies, each under `<name>_entropy`; the arguments are those of `entropy`."""
        values: dict[Any, Any] = self._entropies(samples_mc, rng)
        if composite_lp_aggregate() if include_sum is None else include_sum:
            dims = len(self.batch_shape)
            values[self.entropy_key] = sum(_summed(value, dims) for value in list(values.values()))
        return TensorDict(values, batch_size=self.batch_shape)

    def _entropies(self, samples_mc: int, rng: Rng) -> dict[NestedKey, Any]:
        generator = generator_of(rng)
        out = {}
        for name, dist in self.items():
            try:
                out[add_suffix(name, "_entropy")] = dist.entropy()
            except NotImplementedError:
                drawn = dist.sample((samples_mc,), rng=generator)
                out[add_suffix(name, "_entropy")] = -dist.log_prob(drawn).mean(0)
        return out

    # -- distribution functions --------------------------------------------------------------------

    def cdf(self, value: Any) -> Any:
        """Write `<name>_cdf` for each value into the TensorDict, and return it."""
        found = {add_suffix(name, "_cdf"): dist.cdf(value.get(name)) for name, dist in self.items()}
        return value.update(found)

    def icdf(self, value: Any) -> Any:
        """Write `<name>_icdf` for each `<name>_cdf`, or else for each value, and return the TensorDict.

        Raises:
            KeyError: neither is there for one of the names.
        """
        found = {}
        for name, dist in self.items():
            p, drawn = value.get(add_suffix(name, "_cdf")), value.get(name)
            if p is None and drawn is None:
                raise KeyError(f"neither {name!r} nor {add_suffix(name, '_cdf')!r} is in the sample")
            found[add_suffix(name, "_icdf")] = dist.icdf(dist.cdf(drawn) if p is None else p)
        return value.update(found)


def _summed(values: Any, dims: int) -> Any:
    """The sum over all but the first dimensions."""
    return sum_rightmost(values, max(0, values.ndim - dims))


def _flat_keys(mapping: Mapping[NestedKey, Any] | None) -> dict[NestedKey, Any]:
    return {unravel_key(key): value for key, value in (mapping or {}).items()}
