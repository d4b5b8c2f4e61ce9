"""ProbabilisticTensorDictModule: from entries to a distribution, and from the distribution to samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import Any

import numpy as np

from lite import NestedKey, NonTensorData, unravel_key
from lite._arrays.public import belong_to
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase, unwrap
from lite.nn._modules.module import indented
from lite.nn.distributions import CompositeDistribution, Delta, distributions_maps
from lite.nn.distributions.distribution import Distribution, as_shape, deterministic_sample
from lite.nn.distributions.log_prob_names import add_suffix, composite_lp_aggregate, log_prob_names
from lite.nn.settings import SKIP_EXISTING, InteractionType, all_present, interaction_type
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.module import _key_list, read, store


def distribution_of(given: Callable[..., Any] | str) -> Callable[..., Any]:
    """The class or function itself, or the class with this case-insensitive name.

    Raises:
        ValueError: the name is unknown, or the value is of another type.
    """
    if not isinstance(given, str):
        if not callable(given):
            raise ValueError(f"distribution_class must be a class, a function or a name, got {given!r}.")
        return given
    found = distributions_maps.get(given.lower())
    if found is None:
        raise ValueError(f"distribution_class {given!r} is unknown; there are {sorted(distributions_maps)}.")
    return found


def explained(err: Exception, module: Any, params: dict[str, Any]) -> Exception:
    """The error for a module whose distribution cannot be constructed; it lists the entries of the arguments.

    Args:
        err: the error of the constructor.
        module: a `ProbabilisticTensorDictModule`.
        params: keyword arguments from entries; None for those that are missing.
    """
    missing = [key for key, value in zip(module.in_keys, params.values(), strict=False) if value is None]
    name = getattr(module.distribution_class, "__name__", repr(module.distribution_class))
    if _is_about_keywords(err):
        return TypeError(
            f"in_keys must name the keywords of {name}: {err}, with dist_keys={module.dist_keys} and "
            f"distribution_kwargs={list(module.distribution_kwargs)}."
        )
    if missing:
        return KeyError(f"{name} needs entries that are not in the tensordict: {missing}; {err}")
    err.add_note(f"while making {name} from the entries {module.in_keys}")
    return err


def _is_about_keywords(err: Exception) -> bool:
    text = str(err)
    return isinstance(err, TypeError) and (
        "unexpected keyword argument" in text or "required positional argument" in text
    )


_IN_KEYS_ERROR = "in_keys must be of type list, str or tuples of str, or dict."
_OUT_KEYS_ERROR = "out_keys must be of type list, str or tuples of str."


class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Read the parameters of a distribution from a TensorDict and write a sample of it there.

    `set_interaction_type`, otherwise `default_interaction_type`, decides how a sample is taken.

    Args:
        in_keys: entries whose names (the last parts of their keys) are keywords of the distribution; or a
            dict from keywords to entries. A missing entry is passed as None.
        out_keys: keys of the samples; "_" drops one. By default the names of a CompositeDistribution's
            samples, otherwise ["_"].
        default_interaction_type: an `InteractionType` or its name.
        distribution_class: a class, a function, or a name in `distributions_maps`.
        distribution_kwargs: more keyword arguments of `distribution_class`.
        return_log_prob: write the log-probs of the samples, too.
        log_prob_keys, log_prob_key: where they go, by default `<out_key>_log_prob`; one for their sum
            ("sample_log_prob"; see `set_composite_lp_aggregate`).
        cache_dist: keep one distribution, whose `update` method gets new parameters.
        n_empirical_estimate: number of samples to estimate a mean that has no closed form.
        num_samples: how many to draw; the result is the TensorDict expanded by this shape.
        generator: a `numpy.random.Generator`, a seed, or the key of an entry that holds either; a seed in an
            entry is replaced by the next one. None for the generator that the process shares.

    Raises:
        TypeError, ValueError: keys or a generator of another type, or unknown names.
        RuntimeError: `log_prob_key` or `log_prob_keys` is given where only the other has a meaning.
        KeyError: out_keys are missing, and a CompositeDistribution has no `distribution_map`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.nn import ProbabilisticTensorDictModule
        >>> from lite.nn.distributions import Normal
        >>> options = {"distribution_class": Normal, "return_log_prob": True}
        >>> module = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], **options)
        >>> td = module(TensorDict(loc=np.zeros(2), scale=np.ones(2)))
        >>> td["action"], td["action_log_prob"].round(4)
        (array([0., 0.]), array([-0.9189, -0.9189]))

    Source:
        tensordict.nn.ProbabilisticTensorDictModule.
    """

    def __init__(
        self,
        in_keys: NestedKey | MutableSequence[Any] | Mapping[str, NestedKey],
        out_keys: NestedKey | MutableSequence[Any] | None = None,
        *,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: Callable[..., Any] | str = Delta,
        distribution_kwargs: Mapping[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: list[NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: int | Iterable[int] | None = None,
        generator: np.random.Generator | int | NestedKey | None = None,
    ) -> None:
        super().__init__()
        self.distribution_class = distribution_of(distribution_class)
        given: Any = {} if distribution_kwargs is None else distribution_kwargs
        self.distribution_kwargs: dict[str, Any] = {key: given[key] for key in given.keys()}  # noqa: SIM118
        if isinstance(in_keys, Mapping):
            if not all(isinstance(key, str) for key in in_keys):
                raise ValueError(
                    "If in_keys is a dict, its keys must be strings, the keywords of the distribution, "
                    f"got {list(in_keys)}."
                )
            self.in_keys = _key_list(list(in_keys.values()), _IN_KEYS_ERROR)
            self.dist_keys: list[NestedKey] = list(in_keys)
        else:
            self.in_keys = _key_list(in_keys, _IN_KEYS_ERROR)
            self.dist_keys = list(self.in_keys)
        samples = self._default_out_keys() if out_keys is None else _key_list(out_keys, _OUT_KEYS_ERROR)
        self.__dict__["_out_keys"] = samples
        self.return_log_prob = return_log_prob
        self._aggregate = composite_lp_aggregate()
        self._log_prob_keys = log_prob_names(samples, log_prob_key, log_prob_keys)
        self.default_interaction_type = InteractionType(default_interaction_type)
        self.cache_dist = cache_dist and hasattr(self.distribution_class, "update")
        self._dist: Any = None
        self.n_empirical_estimate = n_empirical_estimate
        self.num_samples = None if num_samples is None else as_shape(num_samples)
        self._source = DrawSource(unravel_key(generator) if isinstance(generator, tuple) else generator)

    def _default_out_keys(self) -> list[NestedKey]:
        if self.distribution_class is not CompositeDistribution:
            return ["_"]
        names = self.distribution_kwargs.get("distribution_map")
        if names is None:
            raise KeyError(
                "'distribution_map' must be in distribution_kwargs if the distribution is a "
                "CompositeDistribution and out_keys are not given."
            )
        renamed = self.distribution_kwargs.get("name_map")
        return _key_list(list(names) if renamed is None else list(renamed.values()), _OUT_KEYS_ERROR)

    # -- keys ----------------------------------------------------------------------------------------

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys of the samples and, with `return_log_prob`, of the log-probs; or the selected ones."""
        apparent: list[NestedKey] | None = self.__dict__.get("_out_keys_apparent")
        return self.out_keys_source if apparent is None else apparent

    @out_keys.setter
    def out_keys(self, keys: list[NestedKey]) -> None:
        self.__dict__["_out_keys"] = _key_list(keys, _OUT_KEYS_ERROR)
        self.__dict__.pop("_out_keys_apparent", None)
        self._aggregate = composite_lp_aggregate()
        self._log_prob_keys = log_prob_names(self.__dict__["_out_keys"])

    @property
    def out_keys_source(self) -> list[NestedKey]:
        """All keys that the module writes, independent of `select_out_keys`."""
        samples: list[NestedKey] = self.__dict__["_out_keys"]
        if not self.return_log_prob:
            return list(samples)
        return [*samples, *(key for key in self.log_prob_keys if key not in samples)]

    @property
    def log_prob_keys(self) -> list[NestedKey]:
        """The keys of log-probs.

        Raises:
            RuntimeError: the mode of `set_composite_lp_aggregate` is not that in which the module was made.
        """
        self._check_mode()
        return list(self._log_prob_keys)

    @property
    def log_prob_key(self) -> NestedKey:
        """The key of the log-prob, if there is one.

        Raises:
            RuntimeError: there are several, or the mode is not that in which the module was made.
        """
        keys = self.log_prob_keys
        if len(keys) != 1:
            raise RuntimeError(
                f"{type(self).__name__}.log_prob_key is only there for a single log-prob, and "
                f"composite_lp_aggregate is set to False; use log_prob_keys, which is {keys}."
            )
        return keys[0]

    @property
    def dist_params_keys(self) -> list[NestedKey]:
        """Keys of the parameters of the distribution."""
        return list(self.in_keys)

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """Keys of the samples."""
        return list(self.__dict__["_out_keys"])

    def _check_mode(self) -> None:
        mode = composite_lp_aggregate()
        if mode != self._aggregate:
            raise RuntimeError(
                f"composite_lp_aggregate is set to {mode}, but this {type(self).__name__} was made when it "
                f"was {self._aggregate}. Make sure that the modes match."
            )

    # -- the distribution ------------------------------------------------------------------------------

    def get_dist(self, tensordict: Any) -> Distribution:
        """Make the distribution of the parameters in a TensorDict.

        Raises:
            TypeError: the distribution does not take these keywords.
            KeyError: it could not be made, and parameters are missing.
        """
        state = self.__dict__
        values = read(tensordict, state["_in_keys"])
        params: dict[str, Any] = {
            name if type(name) is str else name[-1]: value
            for name, value in zip(state["dist_keys"], values, strict=True)
        }
        try:
            if state["_dist"] is not None:
                state["_dist"].update(**params)
                return state["_dist"]
            dist = state["distribution_class"](**params, **state["distribution_kwargs"])
        except Exception as err:
            raise explained(err, self, params) from err
        if self.cache_dist:
            self._dist = dist
        return dist

    build_dist_from_params = get_dist

    def log_prob(self, tensordict: Any, *, dist: Distribution | None = None) -> Any:
        """Log-prob of the samples in a TensorDict.

        Args:
            tensordict: holds samples and parameters.
            dist: the distribution, to be made from the parameters by default.

        Returns:
            An array; for a CompositeDistribution a TensorDict with the log-prob of each sample, or, where
            log-probs are summed, the sum, and `tensordict` gets those of each sample.

        Raises:
            KeyError: a sample is missing.
        """
        dist = self.get_dist(tensordict) if dist is None else dist
        if not isinstance(dist, CompositeDistribution):
            return dist.log_prob(*self._samples_in(tensordict))
        values = self._composite_log_probs(dist, tensordict)
        if not self._aggregate:
            return values
        total = values.pop(self._log_prob_keys[0])
        tensordict.update(values)
        return total

    def _samples_in(self, tensordict: Any) -> list[Any]:
        samples = [(key, tensordict.get(key, None)) for key in self.__dict__["_out_keys"]]
        missing = [key for key, value in samples if value is None]
        if missing:
            raise KeyError(f"the samples {missing} are not in the tensordict.")
        return [value for _, value in samples]

    def _composite_log_probs(self, dist: CompositeDistribution, sample: Any) -> Any:
        """A new TensorDict with the log-prob of each sample and, where they are summed, the sum."""
        self._check_mode()
        values = dist._log_probs(sample)
        out = sample.empty(recurse=True)
        if self._aggregate:
            values[self._log_prob_keys[0]] = dist.log_prob(sample)
        else:
            renamed = zip(self.__dict__["_out_keys"], self._log_prob_keys, strict=True)
            names = {add_suffix(key, "_log_prob"): name for key, name in renamed}
            values = {names.get(key, key): value for key, value in values.items()}
        return out.update(values).filter_empty_()

    # -- the call ----------------------------------------------------------------------------------------

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool = True) -> Any:
        """Take a sample and write it.

        Args:
            tensordict: holds the parameters, and receives the sample.
            tensordict_out: receives the sample instead.

        Returns:
            The TensorDict that was written; with `num_samples`, an expanded one.
        """
        if SKIP_EXISTING.get() and all_present(tensordict, self.in_keys, self.out_keys):
            return tensordict
        out = tensordict if tensordict_out is None else tensordict_out
        dist = self.get_dist(tensordict)
        keys: list[NestedKey] = []
        if _requires_sample:
            sample = self._sample(dist, tensordict)
            if self.num_samples is not None:
                out = out.expand(*self.num_samples, *out.batch_size)
            if isinstance(sample, TensorCollection):
                return self._write_composite(out, dist, sample)
            values: Any = sample if isinstance(sample, tuple) else (sample,)
            keys = self.__dict__["_out_keys"]
            if len(values) != len(keys):
                raise RuntimeError(f"{dist} gave {len(values)} samples for out_keys={keys}.")
            results = values
        elif isinstance(dist, CompositeDistribution):
            return self._write_composite(out, dist, tensordict)
        else:
            values, results = self._samples_in(tensordict), ()
        if self.return_log_prob:
            keys, results = [*keys, self.log_prob_key], (*results, dist.log_prob(*values))
        store(out, keys, results)
        return out

    def _sample(self, dist: Any, tensordict: Any) -> Any:
        how = interaction_type() or self.default_interaction_type
        rng, advance = self._source.resolve(tensordict)
        sample = take(dist, how, self.num_samples or (), self.n_empirical_estimate, rng)
        if advance is not None:
            advance()
        if self.num_samples is None or how is InteractionType.RANDOM:
            return sample
        if isinstance(sample, TensorCollection):
            return sample.expand(*self.num_samples, *sample.batch_size)  # type: ignore[attr-defined]
        values = sample if isinstance(sample, tuple) else (sample,)
        return tuple(np.broadcast_to(value, (*self.num_samples, *value.shape)).copy() for value in values)

    def _write_composite(self, out: Any, dist: Any, sample: Any) -> Any:
        scores = self._composite_log_probs(dist, sample) if self.return_log_prob else None
        if sample is not out:
            out.update(sample)
        return out if scores is None else out.update(scores)

    def __repr__(self) -> str:
        lines = (
            f"in_keys={self.in_keys}",
            f"out_keys={self.out_keys}",
            f"distribution_class={self.distribution_class}",
            f"distribution_kwargs={self.distribution_kwargs}",
            f"default_interaction_type={self.default_interaction_type}",
            f"num_samples={self.num_samples}",
        )
        body = indented(",\n".join(lines), 4)
        return f"{type(self).__name__}(\n    {body})"


def take(
    dist: Any,
    how: InteractionType,
    sample_shape: tuple[int, ...] = (),
    estimate: int = 1000,
    rng: np.random.Generator | None = None,
) -> Any:
    """A value, or a tuple of values, of a distribution.

    Args:
        dist: the distribution.
        how: which value.
        sample_shape: how many to draw, where values are drawn.
        estimate: how many to draw where a mean has to be estimated.
        rng: what draws; by default the generator that the process shares.

    Raises:
        TypeError: `dist` is not a `Distribution`.
        NotImplementedError: it has no such value.
    """
    if not isinstance(dist, Distribution):
        raise TypeError(f"Expected Distribution, but got {type(dist)}")
    if how is InteractionType.DETERMINISTIC:
        return deterministic_sample(dist)
    if how is InteractionType.RANDOM:
        return _draw(dist, sample_shape, rng)
    if how is InteractionType.MEAN:
        try:
            return dist.mean
        except (AttributeError, NotImplementedError):
            return _draw(dist, (estimate,), rng).mean(0)
    try:
        return dist.mode if how is InteractionType.MODE else dist.median
    except AttributeError as err:
        raise NotImplementedError(f"method {type(dist)}.{how.value} is not implemented") from err


def _draw(dist: Distribution, shape: tuple[int, ...], rng: np.random.Generator | None) -> Any:
    draw = dist.rsample if dist.has_rsample else dist.sample
    # A distribution from elsewhere may not know `rng`.
    return draw(shape) if rng is None else draw(shape, rng=rng)


class DrawSource:
    """Gives the generator of a call.

    Args:
        generator: None for the generator that the process shares; a Generator, or the seed of one, for one
            that goes on from call to call; a key for an entry that holds either, looked up at each call. A
            seed in an entry is replaced by the next one when it has been used.

    Raises:
        TypeError: none of these.
    """

    def __init__(self, generator: np.random.Generator | int | NestedKey | None) -> None:
        self.generator: np.random.Generator | None = None
        self.key: NestedKey | None = None
        if isinstance(generator, str | tuple):
            self.key = generator
        elif isinstance(generator, np.random.Generator):
            self.generator = generator
        elif isinstance(generator, int | np.integer) and not isinstance(generator, bool):
            self.generator = np.random.default_rng(generator)
        elif generator is not None:
            raise TypeError(
                "generator must be a numpy.random.Generator, an int, a key or None, "
                f"got {type(generator).__name__}."
            )

    def resolve(self, tensordict: Any) -> tuple[np.random.Generator | None, Callable[[], None] | None]:
        """The generator to draw with, and what to call after the draws.

        Raises:
            TypeError: the entry is neither a generator nor a seed.
            ValueError: the entry holds several numbers.
        """
        if self.key is None:
            return self.generator, None
        entry = tensordict.get(self.key, None)
        value = unwrap(entry) if isinstance(entry, NonTensorBase) else entry
        if value is None or isinstance(value, np.random.Generator):
            return value, None
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            if value.size != 1:
                raise ValueError(f"the entry {self.key!r} must hold one seed, got shape {value.shape}.")
        elif not isinstance(value, int) or isinstance(value, bool):
            kind = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
            raise TypeError(f"the entry {self.key!r} must hold a Generator or a seed, got {kind}.")
        rng = np.random.default_rng(int(value.item() if isinstance(value, np.ndarray) else value))
        before = rng.bit_generator.state

        def advance() -> None:
            if rng.bit_generator.state == before:  # nothing was drawn
                return
            seed = int(rng.integers(2**62))
            is_array = isinstance(value, np.ndarray)
            following = np.full(value.shape, seed, np.int64) if is_array else NonTensorData(seed)
            tensordict.set(self.key, following)

        return rng, advance


belong_to("lite.nn", ProbabilisticTensorDictModule)
