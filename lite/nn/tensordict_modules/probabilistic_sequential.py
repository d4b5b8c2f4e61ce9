"""ProbabilisticTensorDictSequential: modules that lead to distributions, and the distributions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._tree.collection import TensorCollection
from lite.nn.distributions import CompositeDistribution
from lite.nn.distributions.distribution import Distribution
from lite.nn.layers.containers import ModuleDict
from lite.nn.settings import InteractionType, interaction_type, set_interaction_type
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.probabilistic import ProbabilisticTensorDictModule
from lite.nn.tensordict_modules.sequential import TensorDictSequential


class ProbabilisticTensorDictSequential(TensorDictSequential):
    """A TensorDictSequential with methods for the distributions of its probabilistic modules.

    Usually the last module is probabilistic, and `get_dist` returns its distribution. If several modules are
    probabilistic, or others follow, the distributions form a `CompositeDistribution`, each conditioned on the
    samples before it. If earlier modules write the samples of the last, only their log-prob is computed.

    Args:
        modules: as for `TensorDictSequential`; at least one.
        partial_tolerant: skip modules whose inputs are missing.
        return_composite: whether `get_dist` returns a composite of all distributions; by default, if the last
            module is not probabilistic or several are.
        selected_out_keys: see `select_out_keys`.
        inplace: as for `TensorDictSequential`.

    Raises:
        ValueError: no modules are given.
        TypeError: `return_composite` is False, and the last module is not probabilistic.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn import ProbabilisticTensorDictModule as Prob
        >>> from lite.nn.distributions import IndependentNormal
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(3, 4), ["obs"], ["params"]),
        ...     nn.TensorDictModule(nn.NormalParamExtractor(), ["params"], ["loc", "scale"]),
        ...     Prob(["loc", "scale"], ["action"], distribution_class=IndependentNormal),
        ... )
        >>> td = TensorDict(obs=np.zeros((5, 3), np.float32), batch_size=[5])
        >>> policy(td)["action"].shape, policy.get_dist(td).entropy().shape, policy.log_prob(td).shape
        ((5, 2), (5,), (5,))

    Source:
        tensordict.nn.ProbabilisticTensorDictSequential.
    """

    def __init__(
        self,
        *modules: Any,
        partial_tolerant: bool = False,
        return_composite: bool | None = None,
        selected_out_keys: Iterable[NestedKey] | None = None,
        inplace: bool | str | None = None,
    ) -> None:
        # Passed only if given, as the next base class may not have the argument.
        selected: dict[str, Any] = (
            {} if selected_out_keys is None else {"selected_out_keys": selected_out_keys}
        )
        super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace, **selected)
        if not len(self):
            raise ValueError("ProbabilisticTensorDictSequential must have at least one module.")
        ends_in_one = _is_probabilistic(self._last)
        if return_composite is False and not ends_in_one:
            raise TypeError(
                "The final module passed to ProbabilisticTensorDictSequential must be a "
                "ProbabilisticTensorDictModule or another ProbabilisticTensorDictSequential, unless "
                f"return_composite is True; got {type(self._last).__name__}."
            )
        if return_composite is None:
            own = [module for module in self if isinstance(module, ProbabilisticTensorDictModule)]
            return_composite = not ends_in_one or len(own) > 1
        self.return_composite = return_composite

    @property
    def _last(self) -> Any:
        return self._named()[-1][1]

    @property
    def _requires_sample(self) -> bool:
        """Whether the last module must draw its samples, as no earlier module writes them."""
        samples = getattr(self._last, "dist_sample_keys", None)
        if samples is None:
            return True
        written = [key for _, module in self._named()[:-1] for key in module.out_keys]
        return any(key not in written for key in samples)

    def __getitem__(self, index: int | slice | str) -> Any:
        if not isinstance(index, slice):
            return super().__getitem__(index)
        named = self._named()[index]
        has_one = any(_is_probabilistic(module) for _, module in named)
        if self.return_composite and has_one:
            return self._sequence(*self._form(named), return_composite=True)
        if has_one and _is_probabilistic(named[-1][1]):
            return self._sequence(*self._form(named))
        return TensorDictSequential(*self._form(named))

    def _form(self, named: list[tuple[str, Any]]) -> list[Any]:
        """Modules as arguments of a sequence, with their names if they have any."""
        if isinstance(self._container(), ModuleDict):
            return [dict(named)]
        return [module for _, module in named]

    # -- keys --------------------------------------------------------------------------------------------

    def _collected(self, name: str) -> list[NestedKey]:
        return [key for module in reversed(list(self)) for key in getattr(module, name, ())]

    @property
    def log_prob_keys(self) -> list[NestedKey]:
        """The keys of log-probs, from the last module to the first."""
        return self._collected("log_prob_keys")

    @property
    def log_prob_key(self) -> NestedKey:
        """The key of the log-prob, if there is one.

        Raises:
            RuntimeError: there are none or several.
        """
        keys = list(dict.fromkeys(self.log_prob_keys))
        if len(keys) != 1:
            raise RuntimeError(f"log_prob_key is only there for a single log-prob; log_prob_keys is {keys}.")
        return keys[0]

    @property
    def dist_params_keys(self) -> list[NestedKey]:
        """Keys of the parameters of the distributions, from the last module to the first."""
        return self._collected("dist_params_keys")

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """Keys of the samples, from the last module to the first."""
        return self._collected("dist_sample_keys")

    @property
    def num_samples(self) -> tuple[int, ...]:
        """The shape that samples add to the batch size: that of the last module first."""
        shape: tuple[int, ...] = ()
        for module in self:
            if _is_probabilistic(module):
                shape = (module.num_samples or ()) + shape
        return shape

    @property
    def default_interaction_type(self) -> InteractionType | None:
        """The interaction type of the last module that has one; otherwise the current one."""
        for module in reversed(list(self)):
            found: InteractionType | None = getattr(module, "default_interaction_type", None)
            if found is not None:
                return found
        return interaction_type()

    # -- the call ------------------------------------------------------------------------------------------

    @dispatch(auto_batch_size=False)
    def forward(
        self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool = True, **kwargs: Any
    ) -> Any:
        """Run the modules in order.

        Args:
            tensordict: the input.
            tensordict_out: receives `out_keys` and is returned; wins over `inplace`.

        Raises:
            RuntimeError: for any other keyword argument; with `return_composite`, also around any error.
        """
        run = partial(self._run_with_last, requires_sample=_requires_sample and self._requires_sample)
        return self._forward(tensordict, tensordict_out, kwargs, run)

    def _run_with_last(self, tensordict: Any, requires_sample: bool) -> Any:
        named = self._named()
        name, last = named[-1]
        ending: Any = partial(self._run, last) if self.partial_tolerant else last
        if not requires_sample and _is_probabilistic(last):
            ending = partial(last, _requires_sample=False)
        if self.return_composite:
            try:
                tensordict = self._execute(tensordict, named[:-1])
                return self._chain([(name, ending)], tensordict)
            except Exception as err:
                notes = getattr(err, "__notes__", [])
                raise RuntimeError(
                    f"{notes[-1] if notes else ''} {type(err).__name__}: {err}".strip()
                ) from err
        tensordict = self._run_params(tensordict, named[:-1])
        return self._chain([(name, ending)], tensordict)

    def _run_params(self, tensordict: Any, named: list[tuple[str, Any]]) -> Any:
        """Run the modules before the last; they draw samples by the interaction type of the last."""
        with set_interaction_type(interaction_type() or self.default_interaction_type):
            return self._execute(tensordict, named)

    # -- the distributions ---------------------------------------------------------------------------------

    @property
    def det_part(self) -> TensorDictSequential:
        """A sequence of the modules before the last, which it shares with this one."""
        named = self._named()[:-1]
        return TensorDictSequential(*self._form(named), partial_tolerant=self.partial_tolerant)

    def get_dist_params(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run the modules before the last, and return the TensorDict with the distribution's parameters.

        Args:
            tensordict: the input, and the result.
            tensordict_out: receives what the modules write instead, and is returned.
        """
        if isinstance(tensordict, TensorCollection) and tensordict_out is None and not kwargs:
            # As `det_part`, which is made for each call: a quarter of the time of `get_dist` for one action.
            return self._run_params(tensordict, self._named()[:-1])
        with set_interaction_type(interaction_type() or self.default_interaction_type):
            return self.det_part(tensordict, tensordict_out, **kwargs)

    def build_dist_from_params(self, tensordict: Any) -> Distribution:
        """The distribution of the last probabilistic module, from parameters in the TensorDict.

        Raises:
            RuntimeError: there is no such module.
        """
        for module in reversed(list(self.modules())):
            if isinstance(module, ProbabilisticTensorDictModule):
                return module.get_dist(tensordict)
        raise RuntimeError("Could not find any ProbabilisticTensorDictModule in the sequence.")

    def get_dist(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Distribution:
        """The distribution of the last module for an input, or with `return_composite` that of all modules.

        The first writes the parameters into `tensordict` (or `tensordict_out`); the second draws samples of
        earlier modules, and writes nothing.

        Raises:
            RuntimeError: no module is probabilistic.
        """
        if self.return_composite:
            return self._composite(tensordict)
        params = self.get_dist_params(tensordict, tensordict_out, **kwargs)
        last = self._last
        return last.get_dist(params)

    def _composite(self, tensordict: Any) -> CompositeDistribution:
        current = tensordict.copy()
        dists: dict[NestedKey, Distribution] = {}
        named = self._named()
        for position, (_, module) in enumerate(named):
            if not _is_probabilistic(module):
                current = module(current)
                continue
            dist = module.get_dist(current)
            if position < len(named) - 1:
                current = module(current)
            if isinstance(dist, CompositeDistribution):
                dists.update(dist.dists)
            else:
                dists[module.dist_sample_keys[0]] = dist
        if not dists:
            raise RuntimeError(f"No distribution module found in {self}.")
        return CompositeDistribution.from_distributions(current, dists)

    def log_prob(
        self, tensordict: Any, tensordict_out: Any = None, *, dist: Distribution | None = None, **kwargs: Any
    ) -> Any:
        """Log-prob of the samples in a TensorDict.

        Args:
            tensordict: holds the samples and the input.
            tensordict_out: receives a TensorDict of log-probs, and leaves `tensordict` as it is.
            dist: the distribution; by default it is computed from the input.

        Returns:
            An array, or for a CompositeDistribution a TensorDict (see `CompositeDistribution.log_prob`).
        """
        given = tensordict if tensordict_out is None else tensordict.copy()
        if dist is None:
            dist = self.get_dist(given, **kwargs)
        if self.return_composite and isinstance(dist, CompositeDistribution):
            out = dist.log_prob(tensordict)
        else:
            out = self._last.log_prob(given, dist=dist)
        if tensordict_out is not None and isinstance(out, TensorCollection):
            return tensordict_out.update(out)
        return out


def _is_probabilistic(module: Any) -> bool:
    return isinstance(module, ProbabilisticTensorDictModule | ProbabilisticTensorDictSequential)


belong_to("lite.nn", ProbabilisticTensorDictSequential)
