import pickle

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import LazyTensorStorage, ReplayBuffer
from lite.envs import CatFrames


def test_steps_and_sequences_give_the_same():
    done = np.zeros((2, 7, 1), bool)
    done[0, 2], done[1, 4] = True, True
    x = np.random.default_rng(0).normal(size=(2, 7, 3))
    td = TensorDict({"x": x, "next": {"done": done}}, [2, 7], names=[None, "time"])
    for padding in ("same", "constant"):
        whole = CatFrames(3, -1, ["x"], ["y"], padding=padding)(td.copy())["y"]
        frames = CatFrames(3, -1, ["x"], ["y"], padding=padding)
        for t in range(7):
            step = TensorDict({"x": x[:, t]}, [2])
            if t == 0 or done[:, t - 1].any():
                reset = np.ones(2, bool) if t == 0 else done[:, t - 1, 0]
                # What goes on takes a step; what restarts is reset.
                if not reset.all():
                    kept = frames._call(step.copy())["y"]
                    fresh = frames._call(step.copy(), reset)["y"]
                    np.testing.assert_array_equal(fresh[~reset], kept[~reset])
                    found = fresh
                else:
                    found = frames._call(step, reset)["y"]
            else:
                found = frames._call(step)["y"]
            np.testing.assert_array_equal(found, whole[:, t])


def test_agents_who_end_one_by_one():
    done = np.zeros((2, 7, 3, 1), bool)
    done[0, 2, 0], done[1, 4, 2] = True, True
    x = np.random.default_rng(0).normal(size=(2, 7, 3, 4))
    for padding in ("same", "constant"):
        frames = CatFrames(3, -1, ["x"], ["y"], padding=padding)
        td = TensorDict({"x": x, "next": {"done": done}}, [2, 7], names=[None, "time"])
        whole = frames(td)["y"]
        assert whole.shape == (2, 7, 3, 12)
        for agent in range(3):
            alone = {"x": x[:, :, agent], "next": {"done": done[:, :, agent]}}
            alone = frames(TensorDict(alone, [2, 7], names=[None, "time"]))["y"]
            np.testing.assert_array_equal(whole[:, :, agent], alone)
    with pytest.raises(
        ValueError, match=r"'x' must begin with \(2, 7, 3\), as its done entry does, got \(2, 7, 4\)"
    ):
        CatFrames(3, -1, ["x"], ["y"])(td.set("x", x[:, :, 0]))


def test_what_is_given_is_a_copy():
    frames = CatFrames(2, -1, ["x"])
    first = frames._call(TensorDict({"x": np.ones((1, 1))}, [1]), np.ones(1, bool))["x"]
    first[...] = 9
    second = frames._call(TensorDict({"x": np.zeros((1, 1))}, [1]))["x"]
    np.testing.assert_array_equal(second, [[1, 0]])
    assert list(frames.state_dict()) == ["_cat_buffers_x"]


def test_a_clone_has_frames_of_its_own():
    frames = CatFrames(2, -1, ["x"])
    start = np.ones(1, bool)
    frames._call(TensorDict({"x": np.ones((1, 1))}, [1]), start)
    twin = frames.clone()
    twin._call(TensorDict({"x": np.full((1, 1), 9.0)}, [1]), start)  # as an evaluation does between two steps
    out = frames._call(TensorDict({"x": np.zeros((1, 1))}, [1]))["x"]
    np.testing.assert_array_equal(out, [[1, 0]])


def test_next_goes_on_from_the_root():
    for padding in ("same", "constant"):
        done = np.array([[0], [1], [0]], bool)
        x, following = np.array([[1.0], [2.0], [5.0]]), np.array([[2.0], [3.0], [6.0]])
        td = TensorDict({"x": x, "next": {"x": following, "done": done}}, [3], names=["time"])
        out = CatFrames(2, -1, ["x", ("next", "x")], padding=padding)(td)
        np.testing.assert_array_equal(out["next", "x"], [[1, 2], [2, 3], [5, 6]])
        np.testing.assert_array_equal(
            out["x"], [[1, 1], [1, 2], [5, 5]] if padding == "same" else [[0, 1], [1, 2], [0, 5]]
        )


def test_without_a_name_the_last_dimension_is_time():
    td = TensorDict({"x": np.ones((3, 1)), "next": {"done": np.zeros((3, 1), bool)}}, [3])
    with pytest.warns(UserWarning, match="no dimension is called 'time'"):
        CatFrames(2, -1, ["x"])(td)


def test_what_environments_cannot_have():
    td = TensorDict({"x": np.ones((3, 1))}, [3])
    for keywords in ({"future": True}, {"mask_key": "m"}):
        raises(RuntimeError, "needs whole episodes", CatFrames(2, -1, ["x"], **keywords)._call, td)
    raises(KeyError, "which says where episodes end", CatFrames(2, -1, ["x"]), td.refine_names("time"))
    raises(ValueError, "padding must be one of", CatFrames, 2, -1, padding="wrap")


def test_a_buffer_of_single_frames() -> None:
    for padding in ("same", "constant"):
        frames = CatFrames(3, -1, ["x"], ["y"], padding=padding)
        transform, sampler = frames.make_rb_transform_and_sampler(4, end_key=("next", "done"), generator=0)
        buffer = ReplayBuffer(
            storage=LazyTensorStorage(50),
            sampler=sampler,
            transform=pickle.loads(pickle.dumps(transform)),
            batch_size=4,
        )
        x = np.arange(13, dtype=np.float32)[:, None]
        done = np.isin(np.arange(12), [1, 6, 11])[:, None]
        td = TensorDict({"x": x[:-1], "y": x[:-1], "next": {"x": x[1:], "y": x[1:], "done": done}}, [12])
        buffer.extend(td)
        assert "y" not in buffer.storage[:]
        seen: set[float] = set()
        for _ in range(20):
            batch = buffer.sample()
            np.testing.assert_array_equal(batch["y"], batch["x"] + [-2, -1, 0])
            np.testing.assert_array_equal(batch["next", "y"], batch["x"] + [-1, 0, 1])
            np.testing.assert_array_equal(batch["next", "done"], np.isin(batch["x"], [6, 11]))
            seen |= set(batch["x"].ravel().tolist())
        assert seen == {4, 5, 6, 9, 10, 11}  # of an episode of two steps there are no three frames


def test_a_buffer_draws_the_first_steps_where_windows_may_begin_before_them():
    x, done = np.arange(13.0)[:, None], np.isin(np.arange(12), [1, 6, 11])[:, None]
    td = TensorDict({"x": x[:-1], "next": {"x": x[1:], "done": done}}, [12])
    frames = CatFrames(3, -1, ["x"], ["y"])
    whole = CatFrames(3, -1, ["x", ("next", "x")], ["y", ("next", "y")])(td.clone().refine_names("time"))
    # Of the smaller rings, the first rows are 3 and 8.
    for size, expected in ((12, range(2, 12)), (9, range(5, 12)), (4, range(10, 12))):
        kwargs = {"end_key": ("next", "done"), "span": (True, False), "generator": 0}
        transform, sampler = frames.make_rb_transform_and_sampler(4, **kwargs)
        storage = LazyTensorStorage(size)
        buffer = ReplayBuffer(storage=storage, sampler=sampler, transform=transform, batch_size=200)
        for row in td.unbind(0):
            buffer.add(row)
        batch = buffer.sample()
        rows = batch["x"].ravel().astype(int)
        assert sorted(set(rows.tolist())) == list(expected)
        for key in ("y", ("next", "y")):
            np.testing.assert_array_equal(batch[key], whole[key][rows])
    make = frames.make_rb_transform_and_sampler
    raises(ValueError, "windows need strict_length=True", make, 4, span=True)
    raises(ValueError, "windows need strict_length=True", make, 4, strict_length=False)
    for options in ({"padding": "constant"}, {"mask_key": "m"}, {"future": True}):
        make = CatFrames(3, -1, ["x"], ["y"], **options).make_rb_transform_and_sampler
        raises(ValueError, "need padding='same'", make, 4, span=(1, 0))


def test_frames_to_come():
    done = np.array([0, 1, 0, 0], bool)[:, None]
    td = TensorDict({"x": np.arange(4.0)[:, None], "next": {"done": done}}, [4], names=["time"])
    transform = CatFrames(3, -1, ["x"], ["y"], future=True, mask_key="padded")
    out = transform(td)
    np.testing.assert_array_equal(out["y"], [[0, 1, 1], [1, 1, 1], [2, 3, 3], [3, 3, 3]])
    np.testing.assert_array_equal(out["padded"], [[0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 1, 1]])
    assert repr(transform) == "CatFrames(N=3, dim=-1, keys=['x'])"
