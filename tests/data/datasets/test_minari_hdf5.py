"""Hostile and damaged files of HDF5; `test_minari.py` has what they hold."""

import h5py
import numpy as np
from helpers.cases import raises
from helpers.data.minari_files import episode, nothing_written, write

from lite.data import minari_to_memmap


def test_hostile_files(tmp_path):
    """Links lead nowhere, and sizes that are only claimed allocate nothing."""
    source = write(tmp_path / "source", {"episode_0": episode(3)})
    path = source / "data" / "main_data.hdf5"
    secret = tmp_path / "source" / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = np.arange(4 * 3.0).reshape(4, 3)

    def changed(change):
        write(tmp_path / "source", {"episode_0": episode(3, observations=None)})
        with h5py.File(path, "a") as file:
            change(file["episode_0"])
        raises(ValueError, r"refusing|claims|deeper", minari_to_memmap, source, tmp_path / "out")
        assert nothing_written(tmp_path)

    def external(group):
        group["observations"] = h5py.ExternalLink(str(secret), "x")

    def soft(group):
        group["observations"] = h5py.SoftLink("/episode_0/rewards")

    def raw(group):
        group.create_dataset("observations", (4, 3), np.uint8, external=[(str(secret), 0, 12)])

    def virtual(group):
        layout = h5py.VirtualLayout((4, 3), np.float64)
        layout[:] = h5py.VirtualSource(str(secret), "x", (4, 3))
        group.create_virtual_dataset("observations", layout)

    def enormous(group):
        group.create_dataset("observations", (4, 2**40), np.uint8, chunks=(1, 2**16))

    def chunks(group):
        group.create_dataset("observations", (4, 3), np.float64, chunks=(4, 2**25), maxshape=(None, None))

    def cycle(group):
        inner = group.create_group("observations")
        inner["again"] = inner

    def deep(group):
        group.create_group("observations" + "/a" * 20)["x"] = np.zeros((4, 3))

    def doubled(group):
        """Two names of a group at each level are a thousand of the last one."""
        inner = group.create_group("observations")
        for _ in range(10):
            inner["b"] = inner.create_group("a")
            inner = inner["a"]
        inner["x"] = np.zeros((4, 3))

    for change in (external, soft, raw, virtual, enormous, chunks, cycle, deep, doubled):
        changed(change)
    path.unlink()
    path.symlink_to(secret)
    raises(FileNotFoundError, "no main_data", minari_to_memmap, source, tmp_path / "out")


def test_a_failure_on_the_way_leaves_nothing(tmp_path):
    source = write(tmp_path / "source", {"episode_0": episode(3)})
    with h5py.File(source / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        data = file["episode_0"].create_dataset(
            "observations", (4, 3), np.float64, chunks=(1, 3), compression=1
        )
        data[...] = 1.0
        place = [data.id.get_chunk_info(i).byte_offset for i in range(4)]
    content = bytearray((source / "data" / "main_data.hdf5").read_bytes())
    for at in place:
        content[at : at + 4] = b"\xff" * 4
    (source / "data" / "main_data.hdf5").write_bytes(content)
    raises(ValueError, "damaged at /episode_0/observations", minari_to_memmap, source, tmp_path / "out")
    assert nothing_written(tmp_path)
