"""ReplayBufferEnsemble: batches from several replay buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite import TensorDict, load, save
from lite._arrays.public import belong_to
from lite._files.commit import Listing, finish, replace_tree
from lite.data.replay.columns import is_container
from lite.data.replay.replay_buffer import ReplayBuffer
from lite.data.replay.samplers import Seed
from lite.data.replay.storages import PathLike, require_inside, stacked
from lite.data.replay.transforms import Transforms

_OWN = "ensemble.npz"


class ReplayBufferEnsemble:
    """Draw batches from several replay buffers, such as recorded frames and those of the running policy.

    `ensemble[i]` is a buffer; write its data to it. If each batch draws from all buffers, row `i` is of that
    buffer, and `ensemble[i].update_tensordict_priority(batch[i])` writes priorities. `len` counts buffers.

    Args:
        *rbs: the buffers.
        transform: called with each batch, after the transforms of the buffers.
        batch_size: the default batch size of `sample`, a multiple of the number of buffers that are drawn.
        collate_fn: makes one batch from the list of the buffers' batches; None stacks them.
        p: (buffers,), weights of the buffers; None for equal ones.
        sample_from_all: draw from each buffer once, in their order, without `p`.
        num_buffer_sampled: the number of buffers drawn for a batch, with replacement; by default all.
        generator: a seed or generator, which draws the buffers.

    Raises:
        ValueError: there is no buffer; `p` is not one weight for each buffer, some of them above 0.
        TypeError: an argument is not a buffer.
        RuntimeError: both `p` and `sample_from_all`.

    Source:
        torchrl.data.ReplayBufferEnsemble.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, ReplayBuffer, ReplayBufferEnsemble
        >>> recorded, online = (ReplayBuffer(storage=LazyTensorStorage(50)) for _ in range(2))
        >>> for buffer in (recorded, online):
        ...     index = buffer.extend(TensorDict(observation=np.zeros((50, 4)), batch_size=[50]))
        >>> batch = ReplayBufferEnsemble(recorded, online, sample_from_all=True).sample(32)
        >>> batch.shape, batch["index", "buffer_ids"][:, 0]
        ((2, 16), array([0, 1]))
    """

    _joined = staticmethod(stacked)  # the batches of the buffers as one, unless collate_fn says how

    def __init__(
        self,
        *rbs: ReplayBuffer,
        transform: Any = None,
        batch_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        p: ArrayLike | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
        generator: Seed = None,
    ) -> None:
        if not rbs:
            raise ValueError("an ensemble needs at least one ReplayBuffer.")
        for buffer in rbs:
            if not isinstance(buffer, ReplayBuffer):
                raise TypeError(f"rbs must be ReplayBuffers, got {type(buffer).__name__}.")
        weights = None
        if p is not None:
            if sample_from_all:
                raise RuntimeError(
                    "both p and sample_from_all=True are given: all buffers are drawn, or some."
                )
            weights = np.array(p, np.float64)
            if weights.shape != (len(rbs),) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
                raise ValueError(f"p must have {len(rbs)} weights, of which one is above 0, got {p!r}.")
            weights /= weights.sum()
        if num_buffer_sampled is not None and num_buffer_sampled < 1:
            raise ValueError(f"num_buffer_sampled must be at least 1, got {num_buffer_sampled}.")
        self._rbs = rbs
        self._p = weights
        self._transforms = Transforms(transform)
        self._number = num_buffer_sampled or len(rbs)
        self.batch_size = batch_size
        self.sample_from_all = sample_from_all
        self._collate_fn = self._joined if collate_fn is None else collate_fn
        self.set_rng(generator)

    def set_rng(self, generator: Seed) -> None:
        """Draw buffers with a seed or a generator from now on."""
        self._rng = np.random.default_rng(generator)

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Draw a batch.

        Args:
            batch_size: the number of elements; by default that of the ensemble.
            return_info: return the information of the samplers, too.

        Returns:
            The elements; of TensorDicts one of shape (buffers, batch_size / buffers, ...), lazy where
            their entries differ. `"index"` has `"buffer_ids"`, and `"index"` of each element in its buffer.
            With `return_info`, the pair of it and a TensorDict of that shape.

        Raises:
            RuntimeError: no batch size, or nothing to draw from.
            ValueError: the batch size is not a multiple of the buffers that are drawn.
        """
        size = self.batch_size if batch_size is None else batch_size
        if size is None:
            raise RuntimeError("batch_size not specified, neither of the ensemble nor of sample.")
        drawn = [self._draw(i, count) for i, count in self._shares(size)]
        data = self._transforms.out(self._collate_fn([data for data, _ in drawn]))
        return (data, self._joined([info for _, info in drawn])) if return_info else data

    def _shares(self, size: int) -> list[tuple[int, int]]:
        """(buffer, number of elements) pairs of a batch."""
        count = len(self._rbs)
        ids = range(count) if self.sample_from_all else self._rng.choice(count, self._number, p=self._p)
        if size % len(ids):
            raise ValueError(f"batch_size must be a multiple of the {len(ids)} buffers drawn, got {size}.")
        return [(int(i), size // len(ids)) for i in ids]

    def _draw(self, i: int, size: int) -> tuple[Any, TensorDict]:
        data, info = self._rbs[i]._draw(size)
        told = {
            key: np.stack(value, -1) if isinstance(value, tuple) else value for key, value in info.items()
        }
        rows = len(told["index"])
        told["index"] = TensorDict({"index": told["index"], "buffer_ids": np.full(rows, i)}, [rows])
        if is_container(data):
            data.set("index", told["index"])
        return data, TensorDict(told, [rows])

    def __iter__(self) -> Iterator[Any]:
        """Batches without end."""
        while True:
            yield self.sample()

    def __len__(self) -> int:
        return len(self._rbs)

    def __getitem__(self, index: int) -> ReplayBuffer:
        return self._rbs[index]

    @property
    def write_count(self) -> int:
        """The number of elements written to the buffers; see `ReplayBuffer.write_count`."""
        return sum(buffer.write_count for buffer in self._rbs)

    def append_transform(self, transform: Any) -> ReplayBufferEnsemble:
        """Add a transform after those of the ensemble; returns the ensemble."""
        self._transforms.insert(len(self._transforms), transform)
        return self

    def dumps(self, path: PathLike) -> None:
        """Write each buffer into the folder in `path` that has its number: all of them, or none.

        The generator that draws the buffers, and the state of the transforms, are in a file beside them.

        Raises:
            as `ReplayBuffer.dumps`; the message names the buffer.
        """
        root = Path(path).absolute()

        def fill(stage: str, _: Listing) -> None:
            save(self._own_state(), Path(stage, _OWN))
            for i, buffer in enumerate(self._rbs):
                try:
                    folder = Path(stage, str(i))
                    folder.mkdir()
                    buffer._write(folder, root / str(i))
                except (RuntimeError, NotImplementedError) as error:
                    raise type(error)(f"buffer {i} of the ensemble: {error}") from error

        with ExitStack() as locks:
            for buffer in self._rbs:
                locks.enter_context(buffer.storage.lock)
            replace_tree(str(root), fill)

    def loads(self, path: PathLike) -> None:
        """Read a folder of `dumps`, also TorchRL's, of an ensemble with the same parts: all, or nothing.

        TorchRL's folder has the state of the buffers alone.

        Raises:
            ValueError: the folder has more buffers.
            as `ReplayBuffer.loads`.
        """
        root = Path(path).absolute()
        finish(str(root))
        of_torchrl = (root / "storage").exists()
        folders = [root / "storage" / str(i) if of_torchrl else root / str(i) for i in range(len(self._rbs))]
        require_inside(*folders, root / "storage", root / _OWN)
        if (folders[0].parent / str(len(folders))).exists():
            raise ValueError(f"{root} must be of {len(folders)} buffers, got more.")
        own = load(root / _OWN) if (root / _OWN).exists() else None
        places = [(root, folder.name) if of_torchrl else (folder, "") for folder in folders]
        self._load_all(
            [partial(buffer._load_from, *at) for buffer, at in zip(self._rbs, places, strict=True)], own
        )

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as copies: an ensemble with the same parts continues from it like this one."""
        return {
            "_rbs": {str(i): buffer.state_dict() for i, buffer in enumerate(self._rbs)},
            **self._own_state(),
        }

    def _own_state(self) -> dict[str, Any]:
        """The state of the ensemble, without its buffers."""
        return {"_transforms": self._transforms.state_dict(), "_rng": self._rng.bit_generator.state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`, for all buffers or for none.

        Raises:
            ValueError: the state has another number of buffers.
            as `ReplayBuffer.load_state_dict`.
        """
        states = state_dict["_rbs"]
        if len(states) != len(self._rbs):
            raise ValueError(f"state_dict must be of {len(self._rbs)} buffers, got {len(states)}.")
        loads = [partial(buffer._load_state, states[str(i)]) for i, buffer in enumerate(self._rbs)]
        self._load_all(loads, state_dict)

    def _load_all(self, loads: Sequence[Callable[..., None]], own: Mapping[str, Any] | None) -> None:
        """Load all buffers and the ensemble's state; nothing is changed if a buffer would raise."""
        if own is not None and (missing := self._own_state().keys() - own.keys()):
            raise ValueError(f"the state is of an ensemble of another kind: it has no {sorted(missing)}.")
        for each in loads:
            each(check=True)  # changes nothing
        if own is not None:
            held = self._own_state()
            states = held["_transforms"]["states"]
            held["_transforms"]["states"] = {key: state for key, state in states.items() if state}
            try:
                self._load_own(own)
            except BaseException:
                self._load_own(held)
                raise
        for each in loads:
            each(check=False)

    def _load_own(self, state: Mapping[str, Any]) -> None:
        self._transforms.load_state_dict(state["_transforms"])
        self._rng.bit_generator.state = state["_rng"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._rbs))}, batch_size={self.batch_size})"


belong_to("lite.data", ReplayBufferEnsemble)
