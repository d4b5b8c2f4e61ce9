"""Actors and value networks together: with a common body, or side by side."""

from __future__ import annotations

from typing import Any, NoReturn

from lite._arrays.public import belong_to
from lite.nn.policies.safe import SafeProbabilisticTensorDictSequential, SafeSequential
from lite.nn.tensordict_modules.probabilistic_sequential import ProbabilisticTensorDictSequential


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

    def _sequence(self, *modules: Any, **options: Any) -> Any:
        return SafeSequential(*modules, **options)


class ActorCriticOperator(ActorValueOperator):
    """An actor and a network of the values of its actions on a common body.

    Args:
        common_operator: a TensorDictModule from observations to what both read.
        policy_operator: a TensorDictModule that writes actions.
        value_operator: a TensorDictModule that reads actions, too, and writes their values.

    Raises:
        RuntimeError: `value_operator` writes "state_value" first, which is no value of an action.

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

    def _sequence(self, *modules: Any, **options: Any) -> Any:
        return SafeSequential(*modules, **options)


belong_to("lite.nn", ActorCriticOperator, ActorCriticWrapper, ActorValueOperator)
