"""Data sets in the HDF5 files of Minari."""

import json
import os

import numpy as np


def episode(steps, seed=0, **entries):
    """The arrays of an episode; keys with slashes are nested."""
    rng = np.random.default_rng(seed)
    done = np.zeros(steps, bool)
    done[-1] = True
    return {
        "observations": rng.normal(size=(steps + 1, 3)),
        "actions": rng.integers(0, 4, steps),
        "rewards": rng.normal(size=steps),
        "terminations": done if seed % 2 else np.zeros(steps, bool),
        "truncations": np.zeros(steps, bool) if seed % 2 else done,
        **entries,
    }


def write(folder, episodes, **metadata):
    import h5py

    os.makedirs(folder / "data", exist_ok=True)
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for name, entries in episodes.items():
            for key, array in entries.items():
                if array is not None:
                    file[f"{name}/{key}"] = array
    (folder / "data" / "metadata.json").write_text(json.dumps({"data_format": "hdf5", **metadata}))
    return folder


def nothing_written(tmp_path):
    return sorted(os.listdir(tmp_path)) == ["source"]
