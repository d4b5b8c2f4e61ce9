"""`MinariExperienceReplay`: a Minari data set as a replay buffer."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from lite import TensorDict
from lite._arrays.public import belong_to
from lite.data.datasets.minari import minari_to_memmap
from lite.data.replay.tensor_storage import TensorStorage
from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer
from lite.data.replay.writers import ImmutableDatasetWriter
from lite.data.trajectories.split_trajectories import split_trajectories
from lite.kernels._install import needed


class MinariExperienceReplay(TensorDictReplayBuffer):
    """A buffer of the steps of a Minari data set, which stays in files and is not written to.

    The data set is converted by `minari_to_memmap`, which says what a step has, into a folder below `root`,
    where it is found again. The source is Minari's own folder, `$MINARI_DATASETS_PATH` or
    `~/.minari/datasets`; a data set that is not there is downloaded by Minari.

    Args:
        dataset_id: such as "D4RL/door/human-v2".
        batch_size: steps that are sampled at a time.
        root: the folder of data sets that were converted; `~/.cache/lite/minari` if None.
        download: whether a data set that is neither in `root` nor in Minari's folder may be downloaded.
        split_trajs: one row for each trajectory, [trajectories, steps of the longest], with a mask, as
            `split_trajectories` makes them. All of it is in memory then.
        load_from_local_minari: never download; what is in `root` is converted again.
        **options: sampler, prefetch, transform and others, as of `TensorDictReplayBuffer`.

    Raises:
        ValueError: `dataset_id` is not a name below `root`.
        FileNotFoundError: the data set is not on this machine, and is not to be downloaded.
        ImportError: it is to be downloaded, and Minari is missing.
        FileExistsError, ValueError: as of `minari_to_memmap`.

    Source:
        torchrl.data.datasets.MinariExperienceReplay.
    """

    def __init__(
        self,
        dataset_id: str,
        batch_size: int,
        *,
        root: str | os.PathLike[str] | None = None,
        download: bool = True,
        split_trajs: bool = False,
        load_from_local_minari: bool = False,
        **options: Any,
    ) -> None:
        parts = dataset_id.split("/") if isinstance(dataset_id, str) else []
        if not parts or not {"", ".", ".."}.isdisjoint(parts) or "\\" in dataset_id or ":" in dataset_id:
            raise ValueError(
                f"dataset_id must be a name such as 'D4RL/door/human-v2', which stays below root, "
                f"got {dataset_id!r}."
            )
        self.dataset_id = dataset_id
        folder = Path(root or Path.home() / ".cache" / "lite" / "minari") / dataset_id
        if load_from_local_minari or not folder.exists():
            source = _source(dataset_id, download and not load_from_local_minari)
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Windows removes no mapped file: what is left there then is not an error.
            with tempfile.TemporaryDirectory(
                prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True
            ) as stage:
                minari_to_memmap(source, f"{stage}/new")
                if folder.exists():  # removed with the stage, once there is another one
                    folder.rename(f"{stage}/old")
                os.rename(f"{stage}/new", folder)
        data: Any = TensorDict.load_memmap(folder)
        if split_trajs:
            data = split_trajectories(data)
        options.setdefault("writer", ImmutableDatasetWriter())
        super().__init__(storage=TensorStorage(data), batch_size=batch_size, **options)


belong_to("lite.data", MinariExperienceReplay)


def _source(dataset_id: str, download: bool) -> Path:
    """Minari's folder of a data set."""
    found = os.environ.get("MINARI_DATASETS_PATH")
    folder = (Path(found) if found else Path.home() / ".minari" / "datasets") / dataset_id
    if not folder.exists():
        if not download:
            raise FileNotFoundError(f"{dataset_id!r} is neither converted nor in {folder}.")
        minari = needed("minari", "downloads need Minari", "pip install 'minari[hdf5,hf]'")
        minari.download_dataset(dataset_id)
    return folder
