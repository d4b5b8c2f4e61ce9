"""`Compose`: transforms one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any, Self

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Transform
from lite.nn.layers.containers import ModuleList
from lite.nn.tensordict_modules.sequential import infer_keys
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class FunctionTransform(Transform):
    """A function from TensorDict to TensorDict as a transform; it changes nothing on the way in.

    Args:
        func: the function.
    """

    _transforms_reset = True
    reads_all = True

    def __init__(self, func: Callable[[Any], Any]) -> None:
        super().__init__()
        self.func = func

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    _call = forward


def as_transform(given: Any, name: str = "transform") -> Transform:
    """A transform, or a function as one.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, Transform):
        return given
    if isinstance(given, type) and issubclass(given, Transform):
        raise ValueError(f"{name} must be a Transform or a function, got the class {given.__name__}.")
    if hasattr(given, "inv"):
        # It may withhold what it gets, and give it later, which only a buffer asks for.
        raise ValueError(f"{type(given).__name__} is a transform of replay buffers alone: append it there.")
    if callable(given):
        return FunctionTransform(given)
    raise ValueError(f"{name} must be a Transform or a function, got {type(given).__name__}.")


def _through_each(name: str, kind: Any) -> Any:
    """A method: the specs that the methods of this name of the transforms make, one after the other."""

    def method(self: Compose, spec: Any) -> Any:
        for transform in self._each():
            spec = getattr(transform, name)(spec)
            if not isinstance(spec, kind):
                raise TypeError(
                    f"{name} of {type(transform).__name__} must give a {kind.__name__}, got "
                    f"{type(spec).__name__}."
                )
        return spec

    return method


class Compose(Transform):
    """Transforms one after the other; on the way into an environment or a buffer, the last one first.

    `in_keys` are the entries that must be there before the first one runs, `out_keys` all that are written.

    Args:
        transforms: transforms, or functions from TensorDict to TensorDict; or one list of them.

    Raises:
        ValueError: something is neither; another keyword argument.

    Source:
        torchrl.envs.Compose.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import Compose, DoubleToFloat, RewardClipping
        >>> both = Compose(RewardClipping(-1, 1), DoubleToFloat(["reward"]))
        >>> both(TensorDict(reward=np.array([3.0, -0.5])))["reward"]
        array([ 1. , -0.5], dtype=float32)
    """

    def __init__(self, *trsfs: Any, **kwargs: Any) -> None:
        if not trsfs and "transforms" in kwargs:
            trsfs = tuple(kwargs.pop("transforms"))
        elif len(trsfs) == 1 and isinstance(trsfs[0], list):
            trsfs = tuple(trsfs[0])
        if kwargs:
            raise ValueError(f"Compose takes transforms alone, got {sorted(kwargs)}.")
        super().__init__()
        self.transforms = ModuleList([as_transform(one, "transforms") for one in trsfs])
        for transform in self.transforms:
            transform.set_container(self)

    # -- keys -----------------------------------------------------------------------------------

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries that must be there."""
        return infer_keys(self._each())[0]

    @in_keys.setter
    def in_keys(self, keys: Any) -> None:
        raise AttributeError("in_keys of a Compose are those of its transforms.")

    @property
    def out_keys(self) -> list[NestedKey]:
        """Entries that are written."""
        return self.__dict__.get("_out_keys_apparent") or infer_keys(self._each())[1]

    @out_keys.setter
    def out_keys(self, keys: Any) -> None:
        raise AttributeError("out_keys of a Compose are those of its transforms.")

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Set `missing_tolerance` of all."""
        for transform in self._each():
            transform.set_missing_tolerance(mode)
        super().set_missing_tolerance(mode)

    # -- calls ----------------------------------------------------------------------------------

    def _each(self) -> list[Transform]:
        # By dictionaries: attributes are slow on a class that has __getattr__.
        return [*self.__dict__["_modules"]["transforms"].__dict__["_modules"].values()]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Call each of them."""
        for transform in self._each():
            tensordict = transform(tensordict)
        return tensordict

    _call = _through_each("_call", TensorDictBase)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for transform in self._each():
            next_tensordict = transform._step(tensordict, next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for transform in self._each():
            tensordict_reset = transform._reset(tensordict, tensordict_reset)
        return tensordict_reset

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        for transform in reversed(self._each()):
            tensordict = transform._reset_env_preprocess(tensordict)
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for transform in reversed(self._each()):
            tensordict = transform._inv_call(tensordict)
        return tensordict

    def init(self, tensordict: TensorDictBase) -> None:
        """Run `init` of each."""
        for transform in self._each():
            transform.init(tensordict)

    def close(self) -> None:
        """Close each."""
        for transform in self._each():
            transform.close()

    def dump(self, **kwargs: Any) -> None:
        """Run `dump` of each."""
        for transform in self._each():
            transform.dump(**kwargs)

    # -- specs ----------------------------------------------------------------------------------

    transform_env_batch_size = _through_each("transform_env_batch_size", tuple)
    transform_output_spec = _through_each("transform_output_spec", Composite)
    transform_input_spec = _through_each("transform_input_spec", Composite)
    transform_observation_spec = _through_each("transform_observation_spec", TensorSpec)
    transform_reward_spec = _through_each("transform_reward_spec", TensorSpec)
    transform_done_spec = _through_each("transform_done_spec", TensorSpec)
    transform_action_spec = _through_each("transform_action_spec", TensorSpec)
    transform_state_spec = _through_each("transform_state_spec", Composite)

    # -- the transforms as a list ---------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.transforms)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self._each())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            part = Compose(*(transform.clone() for transform in self._each()[index]))
            part.set_container(self.parent)
            return part
        return self.transforms[index]

    def __setitem__(self, index: int, value: Any) -> None:
        transform = as_transform(value)
        transform.set_container(self)
        self.transforms[index].reset_parent()
        self.transforms[index] = transform
        self._changed_list()

    def __delitem__(self, index: int | slice) -> None:
        del self.transforms[index]
        self._changed_list()

    def pop(self, index: int | None = None) -> Transform:
        """Remove a transform, the last one by default."""
        taken: Transform = self.transforms[-1 if index is None else index]
        del self.transforms[-1 if index is None else index]
        taken.reset_parent()
        self._changed_list()
        return taken

    def append(self, transform: Any) -> None:
        """Add a transform, or those of a `Compose`, at the end."""
        given = as_transform(transform)
        if type(self) is type(given) is Compose:
            parts = given._each()
            given.reset_parent()
        else:
            parts = [given]
        for part in parts:
            part.set_container(self)
            self.transforms.append(part.eval())
        self._changed_list()

    def insert(self, index: int, transform: Any) -> None:
        """Add a transform before `index`.

        Raises:
            ValueError: there are fewer.
        """
        given, count = as_transform(transform), len(self)
        if abs(index) > count:
            raise ValueError(f"index must be from {-count} to {count}, got {index}.")
        given.set_container(self)
        self.transforms.insert(index + count if index < 0 else index, given.eval())
        self._changed_list()

    def _changed_list(self) -> None:
        """Specs and parents that were computed before are no longer right."""
        self.empty_cache()
        holder = self.container
        if holder is not None:
            holder.empty_cache()

    # -- where it is ----------------------------------------------------------------------------

    def set_container(self, container: Any) -> None:
        self.reset_parent()
        super().set_container(container)
        for transform in self._each():
            transform.set_container(self)

    def reset_parent(self) -> None:
        for transform in self._each():
            transform.reset_parent()
        super().reset_parent()

    def empty_cache(self) -> None:
        for transform in self._each():
            transform.empty_cache()
        super().empty_cache()

    def _environment_before(self, last: Transform) -> Any:
        """The environment that this is in, with the transforms before `last`."""
        holder = None if self._container is None else self._container()
        before = None if holder is None else holder._environment_before(self)
        if before is not None:
            # Themselves, not clones: they have statistics and kept frames, also those that are yet to come.
            before._composed().transforms.extend(takewhile(lambda part: part is not last, self._each()))
            before.empty_cache()
        return before

    def clone(self) -> Self:
        return type(self)(*(transform.clone() for transform in self._each()))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for transform in self._each():
            transform.set_container(self)

    def __repr__(self) -> str:
        inner = ",\n".join(f"    {transform!r}".replace("\n", "\n    ") for transform in self._each())
        return f"Compose(\n{inner})" if inner else "Compose()"


belong_to("lite.envs", Compose)
