"""`LLMCollector`: batches of a language model's responses to prompts, with rewards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NonTensorStack, TensorDict, TensorDictBase, lazy_stack
from lite._arrays.public import belong_to
from lite._arrays.types import stored
from lite.data.collectors.background import Background
from lite.data.collectors.progress import EpisodeRewards, require_total, shown
from lite.data.collectors.prompts import Prompt, Prompts
from lite.data.collectors.weights import learnt_weights
from lite.data.tables.row_seeds import row_seeds
from lite.kernels._integer import integer

Policy = Callable[..., Any]
_OWN = ("next", "collector", "policy_version")


class LLMCollector(Background):
    """Generates responses to prompts by a language model, and yields batches of single turns with rewards.

    Names and arguments are those of torchrl's class. Prompts replace the environment: a prompt is a reset, a
    response is a step that ends the episode. A batch of P prompts with `repeats` G has the batch size (P, G)
    (or (P,) without), and

    - the entries that the policy writes, and the other fields of the prompts, such as an expected answer;
    - under "next" "reward", float32, "done", True, and "terminated", or "truncated" for a response at the
      length limit, of shape (\\*batch, 1);
    - ("collector", "traj_ids") and ("collector", "group_ids"), int64: the numbers of response and prompt.

    `GroupAdvantage` compares the responses to a prompt; `TokenTransitions` makes steps of tokens. With
    `start`, a thread fills the replay buffer while the caller learns from it.

    Args:
        prompts: the path of a file of JSON lines, a list, or any iterable: texts, conversations (lists of
            messages), rows of ids, TensorDicts, or mappings with "prompt", "messages" or "prompt_ids" and
            further fields. Files and lists restart after their end; an iterator ends the collection.
        policy: an `OnnxWrapper` that generates, or a callable of TensorDicts. It may have the methods
            `input_of` (list of prompts to TensorDict), `cut_off` and `register_collector`.
        policy_factory: a function that makes the policy; give one of the two.
        dialog_turns_per_batch: responses in a batch, a multiple of the responses per prompt.
        reward: returns one number for each response, of the batch's shape or one dimension; None for no
            reward entry.
        repeats: responses per prompt; the policy's own `num_samples` multiplies them.
        total_dialog_turns: the number of responses in all, -1 for no end.
        progress: draw a bar on stderr; needs `total_dialog_turns`.
        postproc: a function that is applied to each batch.
        replay_buffer: a buffer that is extended by each batch; None is yielded then.
        flatten_data: yield batches of one dimension; by default if there is a replay buffer.
        track_policy_version: write "policy_version", int64, which `increment_version` counts.
        seed: the policy is called with ``seeds`` that depend on it and the prompt's number.

    Raises:
        TypeError, ValueError: no policy or two; a policy that does not generate; a wrong type or number.
        FileNotFoundError: the file does not exist.

    Example:
        >>> from lite.data import LLMCollector
        >>> from lite.models import OnnxWrapper, embedded_model_path
        >>> policy = OnnxWrapper(embedded_model_path(), input_mode="text")
        >>> sizes = {"repeats": 3, "dialog_turns_per_batch": 3, "total_dialog_turns": 3}
        >>> [batch] = LLMCollector(["1 + 1 = "], policy=policy, **sizes)
        >>> batch.batch_size, batch["next", "done"].shape
        ((1, 3), (1, 3, 1))
    """

    def __init__(
        self,
        prompts: str | os.PathLike[str] | Iterable[Any],
        *,
        policy: Policy | None = None,
        policy_factory: Callable[[], Policy] | None = None,
        dialog_turns_per_batch: int,
        reward: Callable[[TensorDictBase], Any] | None = None,
        repeats: int | None = None,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        total_dialog_turns: int = -1,
        replay_buffer: Any = None,
        flatten_data: bool | None = None,
        track_policy_version: bool = False,
        seed: int | None = None,
        progress: bool = False,
    ) -> None:
        if (policy is None) == (policy_factory is None):
            raise TypeError("one of policy and policy_factory must be given, and not both")
        self.repeats = None if repeats is None else integer("repeats", repeats, least=1)
        self.dialog_turns_per_batch = integer("dialog_turns_per_batch", dialog_turns_per_batch)
        self.total_dialog_turns = integer("total_dialog_turns", total_dialog_turns)
        self.reward = reward
        self.postproc = postproc
        self.replay_buffer = replay_buffer
        self.flatten_data = replay_buffer is not None if flatten_data is None else flatten_data
        self.track_policy_version = track_policy_version
        self.seed = None if seed is None else integer("seed", seed)
        self.progress = require_total(progress, self.total_dialog_turns, "total_dialog_turns")
        self._episode_rewards = EpisodeRewards()
        self._version = 0
        self._turns = 0
        self._prompts = Prompts(prompts)
        self.policy: Any = None
        self._take_policy(policy if policy_factory is None else policy_factory())

    def _take_policy(self, policy: Any) -> None:
        if not callable(policy):
            raise TypeError(f"policy must be callable, got {type(policy).__name__}")
        if getattr(policy, "generate", True) is False:
            raise ValueError("policy must generate responses: it was made with generate=False")
        own = getattr(policy, "num_samples", None)
        self._shape = () if own is None and self.repeats is None else ((self.repeats or 1) * (own or 1),)
        each = self._shape[0] if self._shape else 1
        if self.dialog_turns_per_batch < 1 or self.dialog_turns_per_batch % each:
            raise ValueError(
                f"dialog_turns_per_batch must be a multiple of the {each} responses per prompt, got"
                f" {self.dialog_turns_per_batch}"
            )
        self.policy = policy
        if hasattr(policy, "register_collector"):
            policy.register_collector(self)

    # -- batches -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the batches that remain."""
        if not self.progress:
            return self._each()
        total, done = self.total_dialog_turns, lambda: self._turns
        return shown(self._each(), total, done, self._episode_rewards.mean, "responses")

    def _each(self) -> Iterator[TensorDictBase | None]:
        while self._left() > 0 and (batch := self._collect()) is not None:
            yield batch if self.replay_buffer is None else None

    def __len__(self) -> int:
        """The number of batches, if there are enough prompts; TypeError if it is unlimited."""
        if self.total_dialog_turns < 0:
            raise TypeError("a collector with total_dialog_turns=-1 has no end, and so no length.")
        return -(self.total_dialog_turns // -self.dialog_turns_per_batch)

    def next(self) -> TensorDictBase | None:
        """The next batch; None at the end, and with a replay buffer."""
        batch = self._collect() if self._left() > 0 else None
        return batch if self.replay_buffer is None else None

    def shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Nothing is to be closed: the policy is the caller's."""

    def rollout(self) -> TensorDictBase:
        """One batch, independent of `total_dialog_turns`, which is not written to a replay buffer.

        Raises:
            StopIteration: all prompts are used.
        """
        batch = self._collect(bounded=False)
        if batch is None:
            raise StopIteration("there are no prompts any more")
        return batch

    def _left(self) -> int:
        """The number of responses that remain."""
        if self.total_dialog_turns < 0:
            return self.dialog_turns_per_batch
        return self.total_dialog_turns - self._turns

    def _collect(self, *, bounded: bool = True) -> TensorDictBase | None:
        each = self._shape[0] if self._shape else 1
        turns = min(self.dialog_turns_per_batch, self._left()) if bounded else self.dialog_turns_per_batch
        first = self._prompts.position
        prompts = self._prompts.take(-(-turns // each))
        if not prompts:
            return None
        try:
            batch = self._responses(prompts, first)
            turns, responses = batch.numel(), batch
            if self.flatten_data:
                batch = batch.reshape(-1)
            if self.postproc is not None:
                batch = self.postproc(batch)
            if bounded and self.replay_buffer is not None:
                self.replay_buffer.extend(batch)
        except BaseException:
            self._prompts.give_back(prompts)  # the next call after the error gets them
            raise
        self._turns += turns
        if self.progress:
            self._episode_rewards.add(responses)
        return batch

    def _responses(self, prompts: Sequence[Prompt], first: int) -> TensorDictBase:
        repeats, shape = self.repeats or 1, (len(prompts), *self._shape)
        numbers = np.arange(first, first + len(prompts), dtype=np.int64)
        own = getattr(self.policy, "num_samples", None)
        run = (len(prompts) * repeats,) if own is None else (len(prompts) * repeats, own)
        td = self._input([prompt.value for prompt in prompts for _ in range(repeats)])
        fields = _columns([prompt.fields for prompt in prompts for _ in range(repeats)])
        for name, column in fields.items():
            if name in _OWN or name in td:
                raise ValueError(f"a field of a prompt cannot be called {name!r}")
            td.set(name, column)
        options = {}
        if self.seed is not None:
            seeds = row_seeds(self.seed, numbers.tolist(), self._shape[0] if self._shape else 1)
            options["seeds"] = seeds.reshape(run)
        version = self._version  # of the weights that the call begins with
        out = self.policy(td, **options)
        if not isinstance(out, TensorDictBase) or tuple(out.batch_size) != run:
            got = getattr(out, "batch_size", type(out).__name__)
            raise ValueError(f"the policy must give a TensorDict of batch size {run}, got {got}")
        for name in td.keys():  # noqa: SIM118
            column = None if name in out else _column(td, name)
            if column is not None:
                out.set(name, column if own is None else _repeated(column, own, run))
        cut = self.policy.cut_off(out) if hasattr(self.policy, "cut_off") else np.zeros(run, bool)
        out = out.reshape(*shape)
        self._stamp(out, numbers, np.asarray(cut, bool).reshape(*shape, 1), version)
        if self.reward is not None:
            out.set(("next", "reward"), self._rewards(out))
        return out

    def _input(self, values: list[Any]) -> TensorDictBase:
        if all(isinstance(value, TensorDictBase) for value in values):
            return lazy_stack([value.clone(False) for value in values])
        if not hasattr(self.policy, "input_of"):
            raise TypeError(
                f"prompts must be TensorDicts with what the policy reads: {type(self.policy).__name__} has no"
                " input_of, which makes them"
            )
        return self.policy.input_of(values)

    def _stamp(
        self, out: TensorDictBase, numbers: NDArray[np.int64], cut: NDArray[np.bool_], version: int
    ) -> None:
        shape = tuple(out.batch_size)
        each = self._shape[0] if self._shape else 1
        ends = {"done": np.ones((*shape, 1), bool), "terminated": ~cut, "truncated": cut}
        out.set("next", TensorDict(ends, batch_size=shape))
        samples = numbers[:, None] * each + np.arange(each)
        groups = np.repeat(numbers[:, None], each, axis=1)
        out.set(("collector", "traj_ids"), samples.reshape(shape))
        out.set(("collector", "group_ids"), groups.reshape(shape))
        if self.track_policy_version:
            out.set("policy_version", np.full(shape, version, np.int64))

    def _rewards(self, out: TensorDictBase) -> NDArray[np.float32]:
        assert self.reward is not None
        shape = tuple(out.batch_size)
        values = np.asarray(stored(self.reward(out)))
        count = out.numel()
        fits = values.shape in (shape, (*shape, 1), (count,), (count, 1)) or values.size == count == 1
        if not fits or values.dtype.kind not in "biuf":
            raise ValueError(
                f"reward must give {count} numbers, one per response, got {values.dtype} of shape"
                f" {values.shape} for a batch of {shape}"
            )
        return values.reshape(*shape, 1).astype(np.float32)

    # -- the policy --------------------------------------------------------------------------------

    @property
    def policy_version(self) -> int | None:
        """The version of the current policy; None if versions are not tracked."""
        return self._version if self.track_policy_version else None

    def get_policy_version(self) -> int | None:
        """`policy_version` as a method, for remote calls."""
        return self.policy_version

    def increment_version(self) -> None:
        """Count a change of the policy."""
        self._version += 1

    def update_policy_weights_(
        self, policy_or_weights: Any = None, *, weights: Any = None, policy: Policy | None = None
    ) -> None:
        """Update the weights, or replace the policy, and increment the version; without arguments only that.

        Args:
            policy_or_weights: a trainable policy (`OnnxWrapper.trainable`), whose weights this collector's
                policy gets; or such weights, a mapping or TensorDict; or another policy with the same number
                of samples, such as ``wrapper.get_new_version(adapter="step 10")``.
            weights: such weights; give one of the three.
            policy: a policy.

        Raises:
            ValueError: more than one is given; as for the constructor's `policy`, or the policy's
                `update_weights_`. The old policy is kept then.
            TypeError: as for the constructor's `policy`; or weights are given to a policy that takes none.
        """
        given = [value for value in (policy_or_weights, weights, policy) if value is not None]
        if len(given) > 1:
            raise ValueError("give one of policy_or_weights, weights and policy, got several")
        for source in given:
            if hasattr(source, "learnt_weights") or isinstance(source, Mapping | TensorDictBase):
                if not hasattr(self.policy, "update_weights_"):
                    raise TypeError(
                        f"a {type(self.policy).__name__} takes no weights: it has no update_weights_"
                    )
                self.policy.update_weights_(learnt_weights(source))
            else:
                self._take_policy(source)
        self.increment_version()

    # -- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state of the collection between two batches: plain numbers.

        With `seed`, a collector that loads it yields the same batches as this one.
        """
        return {"prompts": self._prompts.position, "turns": self._turns, "policy_version": self._version}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state. The prompts must be those of the other collector, an iterator from its start.

        Raises:
            KeyError: an entry is missing.
            ValueError: an iterator of prompts is past the position of the state, or ends before it.
        """
        prompts, turns, version = (state_dict[name] for name in ("prompts", "turns", "policy_version"))
        self._prompts.seek(integer("prompts", prompts))
        self._turns, self._version = integer("turns", turns), integer("policy_version", version)


belong_to("lite.data", LLMCollector)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of rows as columns: arrays if all values are numbers, else objects."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, Any] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if all(isinstance(value, (bool, int, float)) for value in values):
            columns[name] = np.asarray(values)
        else:
            columns[name] = NonTensorStack(*values)
    return columns


def _column(td: Any, name: str) -> Any:
    """An entry of the prompts; None for rows of different shapes, which no dense batch holds."""
    try:
        return td.get(name)
    except RuntimeError:
        return None


def _repeated(column: Any, count: int, shape: tuple[int, ...]) -> Any:
    """A column with each value repeated `count` times along a new dimension."""
    if isinstance(column, np.ndarray):
        return np.repeat(column, count, 0).reshape(*shape, *column.shape[1:])
    return lazy_stack([column] * count, 1)
