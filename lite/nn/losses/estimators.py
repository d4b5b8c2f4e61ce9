"""Which estimator of targets and advantages a loss has, by name, and how it makes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn.values.base import ValueEstimatorBase
from lite.nn.values.gae import GAE, MultiAgentGAE
from lite.nn.values.off_policy import VTrace
from lite.nn.values.td import TD0Estimator, TD1Estimator, TDLambdaEstimator


class ValueEstimators(Enum):
    """The estimators that losses make by themselves; see `LossModule.make_value_estimator`.

    Source:
        torchrl.objectives.ValueEstimators.

    Example:
        >>> from lite.nn.losses import ValueEstimators, default_value_kwargs
        >>> default_value_kwargs(ValueEstimators.TDLambda)
        {'gamma': 0.99, 'lmbda': 0.95, 'differentiable': True}
    """

    TD0 = "Bootstrapped TD (1-step return)"
    TD1 = "TD(1) (infinity-step return)"
    TDLambda = "TD(lambda)"
    GAE = "Generalized advantage estimate"
    MAGAE = "Multi-agent generalized advantage estimate"
    VTrace = "V-trace"


OF_RETURNS = (ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda)

_CLASSES: dict[ValueEstimators, type[ValueEstimatorBase]] = {
    ValueEstimators.TD0: TD0Estimator,
    ValueEstimators.TD1: TD1Estimator,
    ValueEstimators.TDLambda: TDLambdaEstimator,
    ValueEstimators.GAE: GAE,
    ValueEstimators.MAGAE: MultiAgentGAE,
    ValueEstimators.VTrace: VTrace,
}
_WITH_LAMBDA = (ValueEstimators.TDLambda, ValueEstimators.GAE, ValueEstimators.MAGAE)
_BY_NAME = {member.name.lower(): member for member in ValueEstimators}


def default_value_kwargs(value_type: ValueEstimators | str) -> dict[str, Any]:
    """The default arguments of an estimator that a loss creates.

    Args:
        value_type: a `ValueEstimators`, or its name in any case.

    Raises:
        KeyError: the name of the estimator is unknown.
        TypeError: neither of the two.
    """
    lmbda = {"lmbda": 0.95} if named(value_type) in _WITH_LAMBDA else {}
    return {"gamma": 0.99, **lmbda, "differentiable": True}


def named(value_type: ValueEstimators | str) -> ValueEstimators:
    """The estimator, which may be given by its name in any case."""
    if isinstance(value_type, ValueEstimators):
        return value_type
    if not isinstance(value_type, str):
        raise TypeError(f"value_type must be a ValueEstimators, a name, or an estimator, got {value_type!r}.")
    if value_type.lower() not in _BY_NAME:
        raise KeyError(f"unknown value estimator {value_type!r}; expected one of {sorted(_BY_NAME)}.")
    return _BY_NAME[value_type.lower()]


def made_for(
    loss: object,
    value_type: ValueEstimators,
    supported: Iterable[ValueEstimators],
    keys: Mapping[str, NestedKey],
    options: Mapping[str, Any],
) -> ValueEstimatorBase:
    """An estimator for a loss, with the loss's keys and, unless others are given, its networks.

    Raises:
        NotImplementedError: the loss has no use for this one.
    """
    if value_type not in supported:
        names = sorted(member.name for member in supported)
        raise NotImplementedError(
            f"{type(loss).__name__} supports {names}, got {value_type.name}; its class lists them in "
            "SUPPORTED_VALUE_ESTIMATORS."
        )
    arguments = {**default_value_kwargs(value_type), **options}
    networks = loss.__dict__
    if "value_network" not in arguments:
        arguments["value_network"] = networks.get("critic_network", networks.get("value_network"))
    if value_type is ValueEstimators.VTrace:
        arguments.setdefault("actor_network", networks["actor_network"])
    estimator = _CLASSES[value_type](**arguments)
    estimator.set_keys(**keys)
    return estimator


belong_to("lite.nn.losses", ValueEstimators)
