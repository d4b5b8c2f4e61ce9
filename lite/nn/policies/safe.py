"""Modules that know the specs of what they write, and may project it to them."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Any

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.entry_specs import joined_specs, project_entries, specs_by_key
from lite.nn.tensordict_modules.module import TensorDictModule
from lite.nn.tensordict_modules.probabilistic import ProbabilisticTensorDictModule
from lite.nn.tensordict_modules.probabilistic_sequential import ProbabilisticTensorDictSequential
from lite.nn.tensordict_modules.sequential import TensorDictSequential
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class SafeModule(TensorDictModule):
    """A `TensorDictModule` that knows the specs of what it writes.

    Args:
        module, in_keys, out_keys: as for `TensorDictModule`.
        spec: spec of the output; a `Composite` by key for several, which may lack keys.
        safe: whether outputs that are not in their spec are replaced by the nearest values that are.
        inplace: as for `TensorDictModule`.

    Attributes:
        spec: a `Composite` by key; keys of which nothing is known are missing.

    Raises:
        RuntimeError: `safe` without specs, one spec for several keys, or specs of other keys.
        TypeError: `spec` is not a spec.
        ValueError: keys of another type, or a module that is not callable.

    Source:
        torchrl.modules.SafeModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> module = nn.SafeModule(lambda x: 3 * x, ["x"], ["action"], spec=Bounded(-1, 1, (2,)), safe=True)
        >>> module(TensorDict(x=np.array([0.1, 0.9], np.float32)))["action"]
        array([0.3, 1. ], dtype=float32)
    """

    def __init__(
        self,
        module: Any,
        in_keys: NestedKey | MutableSequence[Any] | Mapping[Any, Any],
        out_keys: NestedKey | MutableSequence[Any],
        spec: TensorSpec | None = None,
        safe: bool = False,
        inplace: bool | str = True,
    ) -> None:
        super().__init__(module, in_keys, out_keys, inplace=inplace)
        self._spec = specs_by_key(spec, self.out_keys, self)
        self.safe = _checked(safe, spec, self)

    @property
    def spec(self) -> Composite:
        """The specs of outputs by key."""
        return self._spec

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, *args: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """As of `TensorDictModule`; with `safe`, the outputs are projected."""
        out = super().forward(tensordict, *args, tensordict_out=tensordict_out, **kwargs)
        if self.safe:
            project_entries(self._spec, out)
        return out


class SafeProbabilisticModule(ProbabilisticTensorDictModule):
    """A `ProbabilisticTensorDictModule` that knows the specs of its samples.

    Args:
        in_keys, out_keys: as for `ProbabilisticTensorDictModule`.
        spec: spec of the sample; a `Composite` by key for several, which may lack keys.
        safe: whether samples that are not in their spec are replaced by the nearest values that are, after
            their log-probs were computed.
        kwargs: as for `ProbabilisticTensorDictModule`.

    Attributes:
        spec: a `Composite` by key.

    Raises:
        RuntimeError: `safe` without specs, one spec for several keys, or specs of other keys; and as
            `ProbabilisticTensorDictModule`.
        TypeError: `spec` is not a spec.

    Source:
        torchrl.modules.SafeProbabilisticModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> from lite.nn.distributions import IndependentNormal
        >>> module = nn.SafeProbabilisticModule(
        ...     ["loc", "scale"],
        ...     ["action"],
        ...     Bounded(-1, 1, (2,)),
        ...     safe=True,
        ...     distribution_class=IndependentNormal,
        ... )
        >>> module(TensorDict(loc=np.array([0.5, 3.0]), scale=np.ones(2)))["action"].tolist()
        [0.5, 1.0]
    """

    def __init__(
        self,
        in_keys: NestedKey | MutableSequence[Any] | Mapping[str, NestedKey],
        out_keys: NestedKey | MutableSequence[Any] | None = None,
        spec: TensorSpec | None = None,
        *,
        safe: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_keys, out_keys, **kwargs)
        self._spec = specs_by_key(spec, self.dist_sample_keys, self)
        self.safe = _checked(safe, spec, self)

    @property
    def spec(self) -> Composite:
        """The specs of samples by key."""
        return self._spec

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool = True) -> Any:
        """As of `ProbabilisticTensorDictModule`; with `safe`, the samples are projected."""
        out = super().forward(tensordict, tensordict_out, _requires_sample)
        if self.safe:
            project_entries(self._spec, out)
        return out


class SafeSequential(TensorDictSequential):
    """A `TensorDictSequential` that knows the specs that its modules know.

    Args:
        modules, partial_tolerant, inplace: as for `TensorDictSequential`.

    Attributes:
        spec: a `Composite` by key: the attributes `spec` of the modules together.

    Source:
        torchrl.modules.SafeSequential.

    Example:
        >>> from lite import nn
        >>> from lite.data import Bounded
        >>> body = nn.TensorDictModule(nn.Linear(3, 4), ["observation"], ["hidden"])
        >>> head = nn.SafeModule(nn.Linear(4, 2), ["hidden"], ["action"], spec=Bounded(-1, 1, (2,)))
        >>> nn.SafeSequential(body, head).spec.keys()
        ['action']
    """

    safe = False

    def __init__(
        self, *modules: Any, partial_tolerant: bool = False, inplace: bool | str | None = None
    ) -> None:
        super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace)

    @property
    def spec(self) -> Composite:
        """The specs of outputs by key."""
        return joined_specs(self)


class SafeProbabilisticTensorDictSequential(ProbabilisticTensorDictSequential):
    """A `ProbabilisticTensorDictSequential` that knows the specs that its modules know.

    Args:
        modules, partial_tolerant: as for `ProbabilisticTensorDictSequential`.
        options: its other keyword arguments.

    Attributes:
        spec: a `Composite` by key: the attributes `spec` of the modules together.

    Raises:
        ValueError: no modules are given.

    Source:
        torchrl.modules.SafeProbabilisticTensorDictSequential.

    Example:
        >>> from lite import nn
        >>> from lite.data import Bounded
        >>> from lite.nn.distributions import TanhDelta
        >>> net = nn.TensorDictModule(nn.Linear(3, 2), ["observation"], ["param"])
        >>> sample = nn.SafeProbabilisticModule(
        ...     ["param"], ["action"], Bounded(-1, 1, (2,)), distribution_class=TanhDelta
        ... )
        >>> nn.SafeProbabilisticTensorDictSequential(net, sample).spec.keys()
        ['action']
    """

    safe = False

    def __init__(self, *modules: Any, partial_tolerant: bool = False, **options: Any) -> None:
        super().__init__(*modules, partial_tolerant=partial_tolerant, **options)

    @property
    def spec(self) -> Composite:
        """The specs of outputs by key."""
        return joined_specs(self)


def _checked(safe: bool, spec: Any, owner: object) -> bool:
    if safe and (spec is None or (isinstance(spec, Composite) and spec.is_empty())):
        raise RuntimeError(f"{type(owner).__name__}: safe=True needs specs to project to, got {spec!r}.")
    return safe


belong_to(
    "lite.nn", SafeModule, SafeProbabilisticModule, SafeProbabilisticTensorDictSequential, SafeSequential
)
