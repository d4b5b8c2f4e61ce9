"""Modules that act on observations, and with value networks: with a common body, or side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn.distributions import CompositeDistribution
from lite.nn.policies.safe import (
    SafeModule,
    SafeProbabilisticModule,
    SafeProbabilisticTensorDictSequential,
    SafeSequential,
)
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.module import listed
from lite.nn.tensordict_modules.probabilistic_sequential import ProbabilisticTensorDictSequential
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class Actor(SafeModule):
    """A network that gives actions.

    Args:
        module: gives the action of an observation, and whatever else is in `out_keys`.
        in_keys: keys of its inputs; "observation" by default.
        out_keys: keys of its outputs; "action" by default.
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
        in_keys: NestedKey | Sequence[NestedKey] | None = None,
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        *,
        spec: TensorSpec | None = None,
        **kwargs: Any,
    ) -> None:
        reads = ["observation"] if in_keys is None else listed(in_keys)
        writes = ["action"] if out_keys is None else listed(out_keys)
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

    _sequence = SafeProbabilisticTensorDictSequential

    def __init__(
        self,
        module: Any,
        in_keys: NestedKey | Sequence[NestedKey] | Mapping[str, NestedKey],
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
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
        writes = None if out_keys is None else listed(out_keys)
        reads: Any = (
            list(in_keys)
            if isinstance(in_keys, Sequence) and not isinstance(in_keys, str | tuple)
            else in_keys
        )
        spec = spec if writes is None else _of_action(spec, writes)
        super().__init__(module, SafeProbabilisticModule(reads, writes, spec, **kwargs))


def _of_action(spec: TensorSpec | None, keys: Sequence[NestedKey]) -> TensorSpec | None:
    """The spec of an action that is one of several outputs, by key."""
    if isinstance(spec, TensorSpec) and not isinstance(spec, Composite) and "action" in keys:
        return Composite({"action": spec})
    return spec


# -- several networks that share one ------------------------------------------------------------------------


class ActorValueOperator(SafeSequential):
    """An actor and a network of state values on a common body.

    Args:
        common_operator: a TensorDictModule from observations to what both read.
        policy_operator: a TensorDictModule that writes actions.
        value_operator: a TensorDictModule that writes values.

    Source:
        torchrl.modules.ActorValueOperator.

    Example:
        >>> from lite import nn
        >>> body = nn.TensorDictModule(nn.Linear(3, 8), ["observation"], ["hidden"])
        >>> both = nn.ActorValueOperator(
        ...     body,
        ...     nn.Actor(nn.Linear(8, 2), in_keys=["hidden"]),
        ...     nn.ValueOperator(nn.Linear(8, 1), in_keys=["hidden"]),
        ... )
        >>> both.get_policy_operator().out_keys, both.get_value_operator().out_keys
        (['hidden', 'action'], ['hidden', 'state_value'])
    """

    _sequence = SafeSequential

    def __init__(self, common_operator: Any, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(common_operator, policy_operator, value_operator)

    def get_policy_operator(self) -> Any:
        """The body and the actor, which give the distribution of actions if the actor does."""
        actor = self[1]
        if isinstance(actor, ProbabilisticTensorDictSequential):
            return SafeProbabilisticTensorDictSequential(self[0], *actor)
        return SafeSequential(self[0], actor)

    def get_value_operator(self) -> SafeSequential:
        """The body and the value network."""
        return SafeSequential(self[0], self[2])

    def get_policy_head(self) -> Any:
        """The actor alone, which reads what the body writes."""
        return self[1]

    def get_value_head(self) -> Any:
        """The value network alone, which reads what the body writes."""
        return self[2]


class ActorCriticOperator(ActorValueOperator):
    """An actor and a network of the values of its actions on a common body.

    Args:
        common_operator: a TensorDictModule from observations to what both read.
        policy_operator: a TensorDictModule that writes actions.
        value_operator: a TensorDictModule that reads actions, too, and writes their values.

    Raises:
        RuntimeError: `value_operator` writes "state_value" first, which is not a value of an action.

    Source:
        torchrl.modules.ActorCriticOperator.

    Example:
        >>> from lite import nn
        >>> body = nn.TensorDictModule(nn.Linear(3, 8), ["observation"], ["hidden"])
        >>> both = nn.ActorCriticOperator(
        ...     body,
        ...     nn.Actor(nn.Linear(8, 2), in_keys=["hidden"]),
        ...     nn.ValueOperator(nn.MLP(10, 1), in_keys=["hidden", "action"]),
        ... )
        >>> both.get_critic_operator().out_keys
        ['hidden', 'action', 'state_action_value']
    """

    def __init__(self, common_operator: Any, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(common_operator, policy_operator, value_operator)
        if value_operator.out_keys[:1] == ["state_value"]:
            raise RuntimeError(
                "value_operator must write the value of an action, such as 'state_action_value', and read "
                f"'action'; got out_keys={value_operator.out_keys}. ActorValueOperator has values of states."
            )

    def get_critic_operator(self) -> ActorCriticOperator:
        """The body, the actor and the network of values."""
        return self

    def get_value_operator(self) -> NoReturn:
        """Raise RuntimeError: values are of actions, so `get_critic_operator` gives them."""
        raise RuntimeError(
            "an ActorCriticOperator has values of actions, not of states: call get_critic_operator."
        )


class ActorCriticWrapper(SafeSequential):
    """An actor and a value network without a common body.

    Args:
        policy_operator: a TensorDictModule that writes actions.
        value_operator: a TensorDictModule that writes values, of states or of actions.

    Source:
        torchrl.modules.ActorCriticWrapper.

    Example:
        >>> from lite import nn
        >>> both = nn.ActorCriticWrapper(nn.Actor(nn.Linear(3, 2)), nn.ValueOperator(nn.Linear(3, 1)))
        >>> both.out_keys, both.get_value_operator().out_keys
        (['action', 'state_value'], ['state_value'])
    """

    _sequence = SafeSequential

    def __init__(self, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(policy_operator, value_operator)

    def get_policy_operator(self) -> Any:
        """The actor."""
        return self[0]

    def get_value_operator(self) -> Any:
        """The value network."""
        return self[1]

    get_policy_head = get_policy_operator
    get_value_head = get_value_operator


belong_to("lite.nn", Actor, ActorCriticOperator, ActorCriticWrapper, ActorValueOperator, ProbabilisticActor)
