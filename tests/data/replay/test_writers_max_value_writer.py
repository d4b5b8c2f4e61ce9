import numpy as np
from helpers.cases import raises
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite.data import LazyTensorStorage, ListStorage, ReplayBuffer, TensorDictMaxValueWriter


def ranked(ranks) -> TensorDict:
    return TensorDict({"rank": np.asarray(ranks, float), "id": np.arange(len(ranks))}, [len(ranks)])


@settings(max_examples=25)
@given(st.integers(1, 8), st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=9), max_size=8))
def test_the_highest_stay(size, calls) -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(size), writer=TensorDictMaxValueWriter("rank"))
    seen: list[int] = []
    for ranks in calls:
        index = buffer.extend(ranked(ranks))
        seen += ranks
        stored = buffer[:]["rank"]
        assert sorted(stored.tolist()) == sorted(seen)[-size:]
        for row, place in enumerate(index.tolist()):
            assert place < 0 or stored[place] == ranks[row]
    assert len(buffer) == min(size, len(seen))


def test_one_at_a_time() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter("rank"))
    assert [buffer.add(ranked([r])[0]) for r in (1, 3, 2, 0)] == [0, 1, 0, None]
    assert buffer.writer.get_insert_index(ranked([9])[0]) == 0
    assert buffer[:]["rank"].tolist() == [2.0, 3.0]


def test_several_numbers_are_ranked_by_their_reduction() -> None:
    ranks = [[9, 0, 0], [4, 4, 0], [1, 3, 2]]
    for reduction, kept in (("sum", 0), ("mean", 0), ("max", 0), ("median", 1), ("min", 2)):
        buffer = ReplayBuffer(storage=ListStorage(1), writer=TensorDictMaxValueWriter("rank", reduction))
        buffer.extend(ranked(ranks))
        assert buffer[0]["id"] == kept, reduction


def test_refused() -> None:
    assert (
        repr(TensorDictMaxValueWriter("r", "max")) == "TensorDictMaxValueWriter(rank_key=r, reduction='max')"
    )
    raises(ValueError, "reduction must be one of", lambda: TensorDictMaxValueWriter(reduction="product"))
    raises(ValueError, "ndim=1", TensorDictMaxValueWriter().register_storage, LazyTensorStorage(4, ndim=2))
    buffer = ReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter("other"))
    raises(KeyError, "Rank key other not found", lambda: buffer.extend(ranked([1])))
    raises(RuntimeError, "needs a TensorDict", lambda: buffer.extend(np.zeros(3)))


def test_state() -> None:
    for storage in (LazyTensorStorage, ListStorage):
        first = ReplayBuffer(storage=storage(3), writer=TensorDictMaxValueWriter("rank"))
        second = ReplayBuffer(storage=storage(3), writer=TensorDictMaxValueWriter("rank"))
        first.extend(ranked([5, 1, 4, 3]))
        second.load_state_dict(first.state_dict())
        for buffer in (first, second):
            assert buffer.extend(ranked([2, 6])).tolist() == [-1, 1]
        assert second.write_count == 5
        first.empty()
        assert (len(first), first.write_count) == (0, 0)
        assert first.extend(ranked([0])).tolist() == [0]
        first.empty(empty_write_count=False)
        assert (len(first), first.write_count) == (0, 1)
