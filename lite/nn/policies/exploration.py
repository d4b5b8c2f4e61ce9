"""Exploration: epsilon-greedy, Gaussian and Ornstein-Uhlenbeck noise, and random policies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite._transforms.vmap.running import generator_for
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.settings import InteractionType, interaction_type
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.entry_specs import action_specs, projected
from lite.nn.tensordict_modules.q_value import action_space_of
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


def is_exploring() -> bool:
    """Whether actions are explored here: the interaction type is RANDOM, or none is set."""
    return interaction_type() in (InteractionType.RANDOM, None)


class ExplorationModule(TensorDictModuleBase):
    """Base of modules that change an action at random while `is_exploring()`.

    A number, the amount of exploration, goes from `<name>_init` to `<name>_end` in `annealing_num_steps`
    frames, which the training loop counts with `step`. All three are buffers.
    """

    _amount: str  # name of the buffer

    def __init__(
        self, spec: TensorSpec | None, amounts: tuple[float, float], annealing_num_steps: int,
        action_key: NestedKey | None, device: Any, generator: Rng,
    ) -> None:  # fmt: skip
        super().__init__()
        if device not in (None, "cpu"):
            raise ValueError(f"device must be None or 'cpu', got {device!r}.")
        for name, amount in zip((f"{self._amount}_init", f"{self._amount}_end"), amounts, strict=True):
            self.register_buffer(name, np.array(amount, np.float32))
        self.annealing_num_steps = annealing_num_steps
        self.action_key: NestedKey = "action" if action_key is None else action_key
        self._spec = action_specs(spec, self.action_key)
        self._rng = np.random.default_rng(generator)

    @property
    def spec(self) -> Composite | None:
        """The specs of actions by key; it may be set, to a spec of the action alone, too."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec | None) -> None:
        self._spec = action_specs(spec, self.action_key)

    def step(self, frames: int = 1) -> None:
        """Shrink the amount of exploration: a training loop calls it with the frames of each batch.

        Args:
            frames: the number of frames since the last call.
        """
        start, end, now = (getattr(self, self._amount + suffix) for suffix in ("_init", "_end", ""))
        now[...] = max(end, now - frames * (start - end) / self.annealing_num_steps)

    def _start(self, error: type[Exception], amounts: tuple[float, float]) -> None:
        """Register the amount, at its first value."""
        if amounts[1] > amounts[0]:
            raise error(
                f"{self._amount}_init must be at least {self._amount}_end, got {amounts[0]} and {amounts[1]}."
            )
        self.register_buffer(self._amount, np.array(amounts[0], np.float32))

    def _generator(self) -> np.random.Generator:
        return generator_for(self._rng)

    def _action_spec(self) -> TensorSpec:
        """The spec of the action.

        Raises:
            RuntimeError: there are no specs.
            KeyError: there is no spec of the action.
        """
        if self._spec is None:
            raise RuntimeError(f"{type(self).__name__} needs a spec: give one, or set its attribute spec.")
        return self._spec[self.action_key]


class AdditiveGaussianModule(ExplorationModule):
    """Add normal noise, times sigma, to actions, and project the sum to the action's spec.

    It comes after a policy in a `TensorDictSequential`. Nothing changes unless `interaction_type()` is RANDOM
    or None.

    Args:
        spec: spec of the action, such as `lite.data.Bounded`; a `Composite` has it at `action_key`. It may be
            given later, as the attribute `spec`.
        sigma_init: the factor of the noise at first.
        sigma_end: the factor in the end.
        annealing_num_steps: frames from the one to the other; see `step`.
        mean: mean of the noise.
        std: standard deviation of the noise, before it is multiplied with sigma.
        action_key: key of the action; "action" by default.
        safe: kept as an attribute; actions are always projected.
        device: None or "cpu".
        generator: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Attributes:
        sigma, sigma_init, sigma_end, mean, std: buffers, float32 without dimensions.
        spec: by key.

    Raises:
        RuntimeError: `sigma_end` exceeds `sigma_init`; in a call, there is no spec.
        KeyError: in a call, the action or its spec is missing.

    Source:
        torchrl.modules.AdditiveGaussianModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> explore = nn.AdditiveGaussianModule(Bounded(-1, 1, (2,)), sigma_init=0.5, generator=0)
        >>> td = TensorDict(action=np.ones((3, 2), np.float32), batch_size=[3])
        >>> explore(td)["action"].max()
        np.float32(1.0)
    """

    _amount = "sigma"

    def __init__(
        self,
        spec: TensorSpec | None = None,
        sigma_init: float = 1.0,
        sigma_end: float = 0.1,
        annealing_num_steps: int = 1000,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        action_key: NestedKey | None = "action",
        safe: bool = False,
        device: Any = None,
        generator: Rng = None,
    ) -> None:
        super().__init__(spec, (sigma_init, sigma_end), annealing_num_steps, action_key, device, generator)
        self.register_buffer("mean", np.array(mean, np.float32))
        self.register_buffer("std", np.array(std, np.float32))
        self._start(RuntimeError, (sigma_init, sigma_end))
        self.safe = safe
        self.in_keys = self.out_keys = [self.action_key]

    def forward(self, tensordict: Any) -> Any:
        """Write the action, with noise and projected, and return `tensordict`."""
        if not is_exploring():
            return tensordict
        action = self._entry(tensordict, self.action_key)
        spec = self._action_spec()
        noise = self._generator().normal(self.mean, self.std, action.shape).astype(action.dtype)
        return tensordict.set(self.action_key, spec.project(action + noise * self.sigma.astype(action.dtype)))


class EGreedyModule(ExplorationModule):
    """Replace actions by random ones with probability epsilon.

    It comes after a policy in a `TensorDictSequential`. Each element of the batch is replaced or kept as a
    whole. Nothing changes unless `interaction_type()` is RANDOM or None.

    Args:
        spec: spec of the action, from which random ones are drawn; a `Composite` has it at `action_key`.
        eps_init: the probability at first.
        eps_end: the probability in the end.
        annealing_num_steps: frames from the one to the other; see `step`.
        action_key: key of the action; "action" by default.
        action_mask_key: entry (*batch, n) that is True where an action is allowed, for specs of one choice
            of n; random actions are drawn among the allowed ones.
        device: None or "cpu".
        generator: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Attributes:
        eps, eps_init, eps_end: buffers, float32 without dimensions.
        spec: by key.

    Raises:
        RuntimeError: `eps_end` exceeds `eps_init`; in a call, there is no spec.
        KeyError: in a call, the action, its mask or its spec is missing.
        ValueError: in a call, shapes do not fit, or a mask allows no action.

    Source:
        torchrl.modules.EGreedyModule; Watkins (1989), Learning from delayed rewards.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Categorical
        >>> actor = nn.QValueActor(nn.MLP(3, 4, num_cells=[8]), spec=Categorical(4))
        >>> explore = nn.EGreedyModule(Categorical(4), annealing_num_steps=100, generator=0)
        >>> policy = nn.TensorDictSequential(actor, explore)
        >>> policy(TensorDict(observation=np.zeros((5, 3), np.float32), batch_size=[5]))["action"]
        array([2, 3, 2, 2, 3])
    """

    _amount = "eps"

    def __init__(
        self,
        spec: TensorSpec | None,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        *,
        action_key: NestedKey | None = "action",
        action_mask_key: NestedKey | None = None,
        device: Any = None,
        generator: Rng = None,
    ) -> None:
        super().__init__(spec, (eps_init, eps_end), annealing_num_steps, action_key, device, generator)
        self._start(RuntimeError, (eps_init, eps_end))
        self.action_mask_key = action_mask_key
        self.in_keys = [self.action_key, *([] if action_mask_key is None else [action_mask_key])]
        self.out_keys = [self.action_key]

    def forward(self, tensordict: Any) -> Any:
        """Write the action, explored, and return `tensordict`."""
        if not is_exploring():
            return tensordict
        action = self._entry(tensordict, self.action_key)
        spec = self._action_spec()
        rng = self._generator()
        batch = tuple(tensordict.batch_size)
        chosen = rng.random(batch) < self.eps
        chosen = chosen.reshape(batch + (1,) * (action.ndim - len(batch)))
        drawn = self._drawn(tensordict, action, spec, rng)
        explored = np.where(chosen, drawn.astype(action.dtype, copy=False), action)
        return tensordict.set(self.action_key, explored)

    def _drawn(self, tensordict: Any, action: Any, spec: TensorSpec, rng: np.random.Generator) -> Any:
        """Random actions of the shape of `action`."""
        if self.action_mask_key is None:
            if action.shape[max(0, action.ndim - spec.ndim) :] != spec.shape:
                raise ValueError(f"the action must be of {spec!r}, got shape {action.shape}.")
            return spec.rand(action.shape[: action.ndim - spec.ndim], rng=rng)
        mask = np.asarray(self._entry(tensordict, self.action_mask_key), np.bool_)
        space = action_space_of(spec, "the spec of a masked action")
        if space == "mult_one_hot":
            raise ValueError(f"a mask needs a spec of one choice of n, got {spec!r}.")
        wanted = action.shape if space == "one_hot" else (*action.shape, *mask.shape[-1:])
        if mask.shape != wanted:
            raise ValueError(
                f"the mask must have shape {wanted}, one flag for each choice, got {mask.shape}."
            )
        if not mask.any(-1).all():
            raise ValueError(f"the mask {self.action_mask_key!r} allows no action in some rows.")
        ids = np.where(mask, rng.random(mask.shape), -1.0).argmax(-1)
        return ids if space == "categorical" else np.arange(mask.shape[-1]) == ids[..., None]


NOISE, STEPS = "_ou_prev_noise", "_ou_steps"


class OrnsteinUhlenbeckProcessModule(ExplorationModule):
    """Add noise to actions that pulls back to `mu` and drifts at random, and project the sum to their spec.

    The noise of a step is n' = n + theta (mu - n) dt + sigma sqrt(dt) w, with w from the standard normal
    distribution; the action gets eps n'. The entries "_ou_prev_noise", n' - x0, and "_ou_steps", int64 of the
    batch's shape, go from step to step in the TensorDict, and restart where `is_init_key` is True. It
    comes after a policy in a `TensorDictSequential`. Nothing changes unless `interaction_type()` is RANDOM
    or None.

    Args:
        spec: spec of the action, such as `lite.data.Bounded`; a `Composite` has it at `action_key`.
        eps_init: the factor of the noise at first.
        eps_end: the factor in the end.
        annealing_num_steps: frames from the one to the other; see `step`.
        theta, mu, sigma, dt: parameters of the noise.
        x0: the noise before the first step, a number or an array that broadcasts to the action; 0 by default.
        sigma_min: the value that sigma shrinks to within an episode; None for a constant sigma.
        n_steps_annealing: steps of an episode from `sigma` to `sigma_min`.
        action_key: key of the action.
        is_init_key: key of flags that an episode begins, (*batch, 1) or (*batch); no episode begins if
            there is no such entry.
        safe: whether a spec is needed. A spec that is given is projected to, in any case.
        device: None or "cpu".
        generator: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Raises:
        RuntimeError: there is no spec.
        KeyError: in a call, the action or its spec is missing.
        ValueError: `eps_end` exceeds `eps_init`; in a call, flags of another shape.

    Source:
        torchrl.modules.OrnsteinUhlenbeckProcessModule; Lillicrap et al. (2015), arXiv:1509.02971.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> explore = nn.OrnsteinUhlenbeckProcessModule(Bounded(-1, 1, (2,)), generator=0)
        >>> td = TensorDict(action=np.zeros((3, 2), np.float32), batch_size=[3])
        >>> explore(explore(td))["_ou_steps"]
        array([2, 2, 2])
    """

    _amount = "eps"

    def __init__(
        self,
        spec: TensorSpec | None,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        theta: float = 0.15,
        mu: float = 0.0,
        sigma: float = 0.2,
        dt: float = 0.01,
        x0: Any = None,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
        *,
        action_key: NestedKey = "action",
        is_init_key: NestedKey = "is_init",
        safe: bool = True,
        device: Any = None,
        generator: Rng = None,
    ) -> None:
        super().__init__(spec, (eps_init, eps_end), annealing_num_steps, action_key, device, generator)
        if spec is None and safe:
            raise RuntimeError("spec must be given for safe=True, got None.")
        self._start(ValueError, (eps_init, eps_end))
        self.ou = _Process(theta, mu, sigma, dt, x0, sigma_min, n_steps_annealing)
        self.is_init_key = is_init_key
        self.safe = safe
        self.in_keys = [self.action_key]
        self.out_keys = [self.action_key, NOISE, STEPS]

    def forward(self, tensordict: Any) -> Any:
        """Write the action, with noise and projected, and the state of the noise; return `tensordict`."""
        action = self._entry(tensordict, self.action_key)
        spec = None if self._spec is None else self._action_spec()
        if not is_exploring():
            return tensordict if spec is None else tensordict.set(self.action_key, projected(spec, action))
        batch = tuple(tensordict.batch_size)
        noise, steps = tensordict.get(NOISE, None), tensordict.get(STEPS, None)
        noise = np.zeros_like(action) if noise is None else noise
        steps = np.zeros(batch, np.int64) if steps is None else steps
        starts = tensordict.get(self.is_init_key, None)
        if starts is not None:
            if starts.shape not in (batch, (*batch, 1)):
                raise ValueError(f"{self.is_init_key!r} must have shape {(*batch, 1)}, got {starts.shape}.")
            starts = starts.reshape(batch)
            steps = np.where(starts, 0, steps)
            noise = np.where(_over(starts, noise), noise.dtype.type(0), noise)
        drawn = self._generator().standard_normal(action.shape).astype(action.dtype)
        shift, after = self.ou(noise, _over(steps, noise), drawn)
        explored = action + self.eps.astype(action.dtype) * shift
        tensordict.set(self.action_key, explored if spec is None else spec.project(explored))
        return tensordict.set(NOISE, after).set(STEPS, steps + 1)


class _Process(Module):
    """The noise itself. A child, and with a buffer of nothing, as state dicts of TorchRL have both."""

    def __init__(
        self, theta: float, mu: float, sigma: float, dt: float, x0: Any, sigma_min: float | None,
        n_steps_annealing: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.theta = theta
        self.mu = mu
        self.sigma = sigma
        self.dt = dt
        self.sigma_min = sigma if sigma_min is None else sigma_min
        self.n_steps_annealing = n_steps_annealing
        self.register_buffer("_empty_tensor_device", np.zeros(0, np.float32))
        if isinstance(x0, np.ndarray):
            self.register_buffer("x0", x0.astype(np.float32))
        else:
            self.x0 = 0.0 if x0 is None else x0

    def forward(self, noise: Any, steps: Any, drawn: Any) -> tuple[Any, Any]:
        """The noise that is added to an action, and the new state of the process."""
        shrunk = self.sigma - (self.sigma - self.sigma_min) / self.n_steps_annealing * steps
        sigma = np.maximum(self.sigma_min, shrunk).astype(noise.dtype)
        before = noise + self.x0
        drift = self.theta * (self.mu - before) * self.dt
        shift = (before + drift + sigma * math.sqrt(self.dt) * drawn).astype(noise.dtype, copy=False)
        return shift, (shift - self.x0).astype(noise.dtype, copy=False)


def _over(flags: Any, like: Any) -> Any:
    """With dimensions behind, as many as `like` has."""
    return flags.reshape(flags.shape + (1,) * (like.ndim - flags.ndim))


class RandomPolicy:
    """A policy that draws actions from their spec.

    Args:
        action_spec: the spec of the actions, batch included; a `Composite` has them by key. None: a
            `Collector` fills in that of its environment.
        action_key: key of the action, if the spec is no `Composite`.
        generator: a seed or a `numpy.random.Generator`.

    Source:
        torchrl.modules.RandomPolicy.

    Example:
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> policy = nn.RandomPolicy(Bounded(-1, 1, (3,)), generator=0)
        >>> td = policy(TensorDict())
        >>> td["action"].shape, abs(td["action"]).max() <= 1
        ((3,), np.True_)
    """

    def __init__(
        self,
        action_spec: TensorSpec | None = None,
        action_key: NestedKey = "action",
        *,
        generator: np.random.Generator | int | None = None,
    ) -> None:
        if not isinstance(action_spec, (TensorSpec, type(None))):
            raise TypeError(f"action_spec must be a spec, got {type(action_spec).__name__}.")
        self.action_spec = action_spec
        self.action_key = action_key
        self.generator = np.random.default_rng(generator)

    def __call__(self, td: TensorDictBase) -> Any:
        """Write actions to `td`, and return it.

        Raises:
            RuntimeError: the action spec is missing.
            ValueError: an action has no bounds.
        """
        spec = self.action_spec
        if spec is None:
            raise RuntimeError(
                "RandomPolicy has no action_spec: give one, or give the policy to a Collector, which has one."
            )
        if not isinstance(spec, Composite):
            return td.set(self.action_key, spec.rand(rng=self.generator))
        for key, part in spec.items(True, True):
            td.set(key, part.rand(rng=self.generator))
        return td

    def __repr__(self) -> str:
        return f"RandomPolicy(action_spec={self.action_spec!r}, action_key={self.action_key!r})"


belong_to("lite.nn", AdditiveGaussianModule, EGreedyModule, OrnsteinUhlenbeckProcessModule, RandomPolicy)
