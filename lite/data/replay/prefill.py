"""prefill_replay_buffer: a buffer that begins with recorded data."""

from __future__ import annotations

from lite.data.replay.replay_buffer import ReplayBuffer


def prefill_replay_buffer(
    rb: ReplayBuffer, dataset: ReplayBuffer, n_samples: int | None = None, chunk_size: int = 1000
) -> ReplayBuffer:
    """Write what another buffer draws, such as one over recorded data, into a buffer.

    With a sampler that draws uniformly some elements are drawn twice and others never; with
    `SamplerWithoutReplacement` each is drawn once.

    Args:
        rb: the buffer that is written to.
        dataset: the buffer that draws.
        n_samples: number of elements, at most as many as `dataset` has; None is all.
        chunk_size: how many are drawn at a time.

    Returns:
        `rb`.

    Raises:
        TypeError: `dataset` is not a buffer; `minari_to_memmap` makes a folder that one opens.

    Source:
        torchrl.data.prefill_replay_buffer.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, ReplayBuffer, prefill_replay_buffer
        >>> recorded = ReplayBuffer(storage=LazyTensorStorage(50))
        >>> index = recorded.extend(TensorDict(observation=np.zeros((50, 4)), batch_size=[50]))
        >>> len(prefill_replay_buffer(ReplayBuffer(storage=LazyTensorStorage(100)), recorded, n_samples=20))
        20
    """
    if not isinstance(dataset, ReplayBuffer):
        raise TypeError(
            f"dataset must be a ReplayBuffer, got {type(dataset).__name__}: LazyMemmapStorage opens the "
            "folder that minari_to_memmap makes."
        )
    total = len(dataset) if n_samples is None else min(n_samples, len(dataset))
    for start in range(0, total, chunk_size):
        rb.extend(dataset.sample(min(chunk_size, total - start)))
    return rb
