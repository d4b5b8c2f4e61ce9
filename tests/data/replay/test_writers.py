import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorClass, TensorDict
from lite.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    RoundRobinWriter,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorDictRoundRobinWriter,
)


class Element(TensorClass):
    o: np.ndarray


def made(storage, kind=RoundRobinWriter):
    writer = kind()
    writer.register_storage(storage)
    return writer


def test_nothing_to_write() -> None:
    for writer in (made(LazyTensorStorage(3)), made(ListStorage(3))):
        raises(RuntimeError, "at least one element", writer.extend, [])


def test_no_rows() -> None:
    for kind in (TensorDictRoundRobinWriter, TensorDictMaxValueWriter):
        storage = LazyTensorStorage(4)
        assert made(storage, kind).extend(TensorDict({"x": np.zeros((0, 2))}, [0])).shape == (0,)
        assert not storage.initialized


def test_one_element_is_added_not_extended_with() -> None:
    for kind, writer, storage, filled in (
        (ReplayBuffer, RoundRobinWriter, LazyTensorStorage, False),
        (ReplayBuffer, RoundRobinWriter, ListStorage, True),
        (ReplayBuffer, TensorDictRoundRobinWriter, LazyMemmapStorage, True),
        (ReplayBuffer, lambda: TensorDictMaxValueWriter("o"), LazyStackStorage, False),
        (TensorDictReplayBuffer, RoundRobinWriter, LazyStackStorage, True),
        (TensorDictReplayBuffer, TensorDictRoundRobinWriter, LazyTensorStorage, True),
        (TensorDictReplayBuffer, lambda: TensorDictMaxValueWriter("o"), LazyTensorStorage, False),
        (TensorDictReplayBuffer, lambda: TensorDictMaxValueWriter("o"), ListStorage, True),
    ):
        buffer = kind(storage=storage(10), writer=writer, batch_size=2)
        if filled:
            buffer.extend(TensorDict({"o": np.ones((2, 4))}, [2]))
        before = len(buffer)
        with pytest.raises(RuntimeError, match=r"Got data of batch size \(\).* add\(data\) stores it"):
            buffer.extend(TensorDict({"o": np.zeros(4)}))
        assert len(buffer) == buffer.write_count == before
        buffer.add(TensorDict({"o": np.zeros(4)}))
        assert len(buffer) == before + 1


def test_elements_lie_along_a_first_dimension() -> None:
    for data in (np.zeros(()), 3, None, Element(o=np.zeros(4))):
        for storage in (LazyTensorStorage(3), ListStorage(3)):
            raises((RuntimeError, TypeError), r"add\(data\) stores", made(storage).extend, data)
            assert len(storage) == 0


def test_an_index_is_not_stored() -> None:
    storage = LazyTensorStorage(4)
    writer = made(storage, TensorDictRoundRobinWriter)
    data = TensorDict({"x": np.arange(2), "index": np.arange(2)}, [2])
    writer.extend(data)
    writer.add(data[0])
    assert set(storage.get(slice(None)).keys()) == {"x"}
    assert "index" in data


def test_state(tmp_path) -> None:
    first, second = made(LazyTensorStorage(4)), made(LazyTensorStorage(4))
    for writer in (first, second):
        writer.extend(np.arange(4))
    first.extend(np.arange(2))
    first.dumps(tmp_path / "w")
    second.loads(tmp_path / "w")
    assert second.state_dict() == {"_cursor": 2, "_write_count": 6}
    for text in ("{}", '{"cursor": 4, "write_count": 1}', '{"cursor": "x", "write_count": 1}'):
        (tmp_path / "w" / "metadata.json").write_text(text)
        raises(ValueError, "damaged", second.loads, tmp_path / "w")
    assert second.state_dict() == {"_cursor": 2, "_write_count": 6}


def test_immutable() -> None:
    writer = made(ListStorage(3), ImmutableDatasetWriter)
    for call in (lambda: writer.add(1), lambda: writer.extend([1]), writer._empty):
        raises(RuntimeError, "doesn't allow writing", call)
    assert writer.state_dict() == {}


def test_reprs_say_where_the_next_row_goes() -> None:
    buffer = ReplayBuffer(storage=ListStorage(5))
    buffer.extend([1, 2, 3])
    assert repr(buffer.writer) == "RoundRobinWriter(cursor=3)"
    assert repr(RoundRobinWriter()) == "RoundRobinWriter()"
