"""Actor and ProbabilisticActor: modules that act on observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn.distributions import CompositeDistribution
from lite.nn.policies.safe import SafeModule, SafeProbabilisticModule, SafeProbabilisticTensorDictSequential
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class Actor(SafeModule):
    """A network that gives actions.

    Args:
        module: gives the action of an observation, and whatever else is in `out_keys`.
        in_keys: what it reads; "observation" by default.
        out_keys: what it writes; "action" by default.
        spec: spec of the action.
        kwargs: `safe` and `inplace`, as for `SafeModule`.

    Raises:
        RuntimeError, TypeError, ValueError: as `SafeModule`.

    Source:
        torchrl.modules.Actor.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> actor = nn.Actor(nn.Linear(3, 2), spec=Bounded(-1, 1, (2,)))
        >>> actor(TensorDict(observation=np.zeros((5, 3), np.float32), batch_size=[5]))["action"].shape
        (5, 2)
    """

    def __init__(
        self,
        module: Any,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        **kwargs: Any,
    ) -> None:
        reads = ["observation"] if in_keys is None else list(in_keys)
        writes = ["action"] if out_keys is None else list(out_keys)
        super().__init__(module, reads, writes, spec=_of_action(spec, writes), **kwargs)


class ProbabilisticActor(SafeProbabilisticTensorDictSequential):
    """A network that gives the parameters of a distribution of actions, and samples of it.

    Args:
        module: a TensorDictModule that writes the parameters.
        in_keys: keys of the parameters, a list or a dict; see `ProbabilisticTensorDictModule`.
        out_keys: keys of the samples; "action" by default, or the names of a CompositeDistribution's samples.
        spec: spec of the action.
        kwargs: `safe`, `distribution_class`, `default_interaction_type`, `return_log_prob`, `generator` and
            what else `SafeProbabilisticModule` takes.

    Raises:
        TypeError: `module` has no keys.
        RuntimeError, ValueError, KeyError: as `SafeProbabilisticModule`.

    Source:
        torchrl.modules.ProbabilisticActor.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> from lite.nn.distributions import TanhNormal
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.NormalParamExtractor())
        >>> actor = nn.ProbabilisticActor(
        ...     nn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     ["loc", "scale"],
        ...     spec=Bounded(-1, 1, (2,)),
        ...     distribution_class=TanhNormal,
        ... )
        >>> td = actor(TensorDict(observation=np.zeros((5, 3), np.float32), batch_size=[5]))
        >>> td["action"].shape, actor.get_dist(td).log_prob(td["action"]).shape
        ((5, 2), (5,))
    """

    def __init__(
        self,
        module: Any,
        in_keys: NestedKey | Sequence[NestedKey] | Mapping[str, NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        **kwargs: Any,
    ) -> None:
        if not TensorDictModuleBase.is_tdmodule_compatible(module):
            raise TypeError(
                f"module must have in_keys and out_keys, got {type(module).__name__}: "
                "TensorDictModule(module, in_keys, out_keys) has them."
            )
        if out_keys is None and kwargs.get("distribution_class") is not CompositeDistribution:
            out_keys = ["action"]
        writes = (
            None if out_keys is None else [out_keys] if isinstance(out_keys, str | tuple) else list(out_keys)
        )
        reads: Any = (
            list(in_keys)
            if isinstance(in_keys, Sequence) and not isinstance(in_keys, str | tuple)
            else in_keys
        )
        spec = spec if writes is None else _of_action(spec, writes)
        super().__init__(module, SafeProbabilisticModule(reads, writes, spec, **kwargs))

    def _sequence(self, *modules: Any, **options: Any) -> Any:
        return SafeProbabilisticTensorDictSequential(*modules, **options)


def _of_action(spec: TensorSpec | None, keys: Sequence[NestedKey]) -> TensorSpec | None:
    """The spec of an action that is one of several outputs, by key."""
    if isinstance(spec, TensorSpec) and not isinstance(spec, Composite) and "action" in keys:
        return Composite({"action": spec})
    return spec


belong_to("lite.nn", Actor, ProbabilisticActor)
