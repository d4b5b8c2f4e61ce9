"""A policy with its transforms as one graph, which acts on raw observations."""

import json

import numpy as np
import onnxruntime as ort
import pytest
from helpers.cases import each_case, raises
from helpers.transformed import Steps

from lite import TensorDict, jit, nn
from lite import envs as e
from lite.data import Bounded, Composite, Unbounded
from lite.envs import (
    TimeMaxPool,
    TransformedEnv,
)
from lite.nn import TensorDictModule, TensorDictSequential

RNG = np.random.default_rng(0)
OBS = RNG.normal(size=(3, 4)).astype(np.float32)
IMAGE = RNG.integers(0, 256, (2, 12, 10, 3)).astype(np.uint8)


def with_statistics(transform):
    for scale in (1, 2, 3):
        transform(TensorDict({"x": OBS * scale}, [3]))
    return transform.eval()


CASES = {
    "statistics": (
        lambda: [
            with_statistics(e.VecNorm(["x"], decay=0.9)),
            e.ObservationNorm(1, 2, ["x"], standard_normal=True),
            e.ClipTransform(["x"], low=-1, high=1),
        ],
        {"x": OBS},
        4,
    ),
    "averages in double": (
        lambda: [
            e.DoubleToFloat(["x"]),
            with_statistics(e.VecNormV2(["x"], decay=0.9, reduce_batch_dims=True)),
            e.SignTransform(["x"]),
        ],
        {"x": OBS.astype(np.float64)},
        4,
    ),
    "shapes and keys": (
        lambda: [
            e.SqueezeTransform(-2, in_keys=["b"]),
            e.CatTensors(["a", "b"], "c"),
            e.RenameTransform(["c"], ["x"]),
        ],
        {"a": OBS[:, :2], "b": OBS[:, None, 2:]},
        4,
    ),
    "pixels": (
        lambda: [
            e.PermuteTransform((-1, -3, -2), in_keys=["x"]),
            e.UnsqueezeTransform(-1, in_keys=["x"]),
            e.DTypeCastTransform(np.uint8, np.float32, ["x"]),
            e.FlattenObservation(-4, -1, ["x"]),
        ],
        {"x": IMAGE},
        360,
    ),
    **{
        f"images, {mode}": (
            lambda mode=mode: [
                e.ToTensorImage(in_keys=["x"]), e.GrayScale(["x"]), e.CenterCrop(10, 8, ["x"]),
                e.Resize(5, 4, mode, ["x"]), e.Crop(6, 4, in_keys=["x"]), e.FlattenObservation(-3, -1, ["x"]),
            ],
            {"x": IMAGE},
            24,
        )
        for mode in ("nearest", "bilinear", "bicubic")
    },
}  # fmt: skip


def runner(path):
    session = ort.InferenceSession(str(path))
    names = [one.name for one in session.get_outputs()]
    return session, lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_graph_acts_on_raw_observations(name, tmp_path):
    make, entries, size = CASES[name]
    policy = TensorDictModule(nn.Linear(size, 2), ["x"], ["action"])
    alone = e.Compose(*make())
    # What only learning needs is left out of a graph, whose inputs are observations.
    learning = e.StepCounter(5), e.RewardScaling(0, 2), e.RewardSum(), e.InitTracker(), e.TargetReturn(1.0)
    others = (
        e.FrameSkipTransform(2),
        e.NoopResetEnv(),
        e.TrajCounter(),
        e.EndOfLifeTransform(),
        e.ActionMask(),
    )
    whole = e.Compose(*make(), *learning, *others, e.RandomTruncationTransform(1, 3))
    batch = [len(next(iter(entries.values())))]
    td = TensorDict(entries, batch)
    frame = td.copy().update({"reward": np.zeros((*batch, 1)), "done": np.zeros((*batch, 1), bool)})
    frame["action"], frame["action_mask"] = np.zeros((*batch, 2)), np.ones((*batch, 2), bool)
    acting = TensorDictSequential(whole.eval(), policy).select_out_keys("action")
    path = acting.to_onnx(tmp_path / "policy.onnx", frame)
    before = {key: value.copy() for key, value in td.items()}
    for transform in alone:
        if hasattr(transform, "freeze"):
            transform.freeze()
    wanted = policy(alone(td))["action"]
    session, run = runner(path)
    assert {one.name for one in session.get_inputs()} == set(before)
    np.testing.assert_allclose(run(before)["action"], wanted, rtol=1e-4, atol=1e-5)


class Camera(e.EnvBase):
    """Frames that differ; episodes of four steps."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(pixels=Bounded(0, 255, (6, 5, 3), dtype=np.uint8))
        self.action_spec = Bounded(-1, 1, (2,))
        self.reward_spec = Unbounded((1,))
        self.frame = 0
        self.raw = []

    def seen(self):
        self.raw.append(np.random.default_rng(self.frame).integers(0, 256, (6, 5, 3)).astype(np.uint8))
        return TensorDict(pixels=self.raw[-1])

    def _reset(self, tensordict, **kwargs):
        self.frame += 100 - self.frame % 100
        return self.seen()

    def _step(self, tensordict):
        self.frame += 1
        done = np.array([self.frame % 100 >= 4])
        return self.seen().update({"reward": np.zeros(1, np.float32), "done": done})

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("padding", ["same", "constant"])
def test_a_graph_keeps_frames_as_a_state(padding, tmp_path):
    env = e.TransformedEnv(
        Camera(), e.Compose(e.ToTensorImage(), e.GrayScale(), e.CatFrames(3, -3, padding=padding))
    )
    net = nn.Sequential(nn.Flatten(-3, -1), nn.Linear(90, 2))
    policy = TensorDictModule(net, ["pixels"], ["action"])
    td = env.rollout(6, policy, break_when_any_done=False)
    example = TensorDict({"pixels": np.zeros((1, 6, 5, 3), np.uint8)}, [1])
    whole = TensorDictSequential(env.transform.eval(), policy).select_out_keys("action")
    path = whole.to_onnx(tmp_path / "policy.onnx", example)
    states = json.loads((tmp_path / "policy.onnx.json").read_text())["states"]
    assert states == {"cat_frames.pixels": "next.cat_frames.pixels"}
    session, run = runner(path)
    assert [one.name for one in session.get_outputs()] == ["action", "next.cat_frames.pixels"]
    state = np.zeros((1, 3, 6, 5), np.float32)
    # the last one of an episode has no action
    raw = [frame for i, frame in enumerate(env.base_env.raw) if i != 4]
    starts = [0, 4]
    for step, action in enumerate(td["action"]):
        feeds = {
            "pixels": raw[step][None],
            "is_init": np.array([[step in starts]]),
            "cat_frames.pixels": state,
        }
        out = run(feeds)
        np.testing.assert_allclose(out["action"][0], action, rtol=1e-4, atol=1e-5)
        state = out["next.cat_frames.pixels"]


@each_case("count", [1, 3])
def test_a_graph_keeps_what_it_pools_as_a_state(count, tmp_path):
    base = Steps(4)
    base.sign = np.array([1, -1, 1, -1, 1], np.float32)
    env = TransformedEnv(base, TimeMaxPool(["x"], ["y"], T=count))
    td = env.rollout(9, break_when_any_done=False)
    whole = TensorDictSequential(
        env.transform, TensorDictModule(nn.Identity(), ["y"], ["z"])
    ).select_out_keys("z")
    _, run = runner(whole.to_onnx(tmp_path / "pool.onnx", TensorDict({"x": td["x"][:1]}, [1])))
    state = np.full((1, count, *td["x"].shape[1:]), 7, np.float32)  # what is left of another episode
    for step in range(9):
        start = np.array([[step == 0 or bool(td["next", "done"][step - 1])]])
        out = run({"x": td["x"][step][None], "is_init": start, "time_max_pool.x": state})
        np.testing.assert_array_equal(out["z"][0], td["y"][step])
        state = out["next.time_max_pool.x"]
    with pytest.raises(ValueError, match=r"the state \('time_max_pool', 'x'\) is not known"):
        TimeMaxPool(["x"], T=2).to_onnx(tmp_path / "pool.onnx", TensorDict({"x": td["x"][:1]}, [1]))
    with pytest.raises(NotImplementedError, match=r"TimeMaxPool needs an environment, .* or to_onnx"):
        jit(whole)(TensorDict({"x": td["x"][:1]}, [1]))


@each_case("given", [["a", "b", "reward"], ["a", "b"]])
def test_what_a_policy_does_not_read_is_no_input(given, tmp_path):
    """Entries that the chain reads for others alone, and rewards, whether the example has them or not."""
    entries = {"a": OBS[:, :2], "b": OBS[:, 2:], "reward": OBS[:, :1]}
    chain = e.Compose(
        e.VecNormV2(["a", "reward"], decay=0.9, reduce_batch_dims=True),
        e.RenameTransform(["a", "b", "reward"], ["x", "y", "r"]),
        e.CatTensors(["y"], "z"),
    )
    chain(TensorDict(entries, [3]))
    whole = TensorDictSequential(chain.eval(), TensorDictModule(nn.Identity(), ["x"], ["b"]))
    whole[0][0].freeze()
    _, run = runner(
        whole.select_out_keys("b").to_onnx(tmp_path / "a.onnx", TensorDict(entries, [3]).select(*given))
    )
    wanted = chain(TensorDict(entries, [3]))["x"]
    np.testing.assert_allclose(run({"a": entries["a"]})["b"], wanted, rtol=1e-5, atol=1e-6)


def test_actions_are_scaled_after_the_policy(tmp_path):
    scaling = e.ActionScaling(loc=1.0, scale=2.0)
    policy = TensorDictModule(nn.Linear(4, 2), ["x"], ["action"])
    td = TensorDict({"x": OBS}, [3])
    path = TensorDictSequential(policy, scaling.inv).to_onnx(tmp_path / "policy.onnx", td)
    _, run = runner(path)
    np.testing.assert_allclose(
        run({"x": OBS})["action"], policy(td.clone())["action"] * 2 + 1, rtol=1e-4, atol=1e-5
    )


def test_actions_of_several_environments_are_scaled_for_any_batch(tmp_path):
    env = e.TransformedEnv(e.SerialEnv(2, Camera), e.ActionScaling(standard_normal=False))
    assert env.action_spec.shape == (2, 2)
    policy = TensorDictModule(nn.Linear(4, 2), ["x"], ["action"])
    td = TensorDict({"x": OBS}, [3])
    whole = TensorDictSequential(policy, env.transform.inv)
    wanted = policy(td.clone())["action"] * 2 - 1
    for found in (
        whole(td.clone())["action"],
        runner(whole.to_onnx(tmp_path / "a.onnx", td))[1]({"x": OBS})["action"],
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, strict=True)
    norm = e.VecNormV2(["x"])
    norm(td[:2].clone())
    wrong = r"'x' in the shape \(2, 4\), got \(\w+, 4\): reduce_batch_dims=True"
    for call in (lambda: norm(td.clone()), lambda: norm.freeze()(td.clone()),
                 lambda: norm.to_onnx(tmp_path / "a.onnx", td)):  # fmt: skip
        raises(ValueError, wrong, call)


def test_a_function_reads_what_it_likes(tmp_path):
    joined = e.Compose(lambda td: td.set("x", np.concatenate([td["a"], td["b"]], -1)))
    whole = TensorDictSequential(joined, TensorDictModule(nn.Linear(4, 2), ["x"], ["action"]))
    td = TensorDict({"a": OBS[:, :1], "b": OBS[:, 1:], "other": OBS}, [3])
    session, run = runner(whole.to_onnx(tmp_path / "a.onnx", td))
    feeds = {one.name: td[one.name] for one in session.get_inputs()}
    assert feeds.keys() == {"a", "b"}
    np.testing.assert_allclose(run(feeds)["action"], whole(td)["action"], rtol=1e-4, atol=1e-5)


def test_states_of_others_stay_where_entries_are_selected(tmp_path):
    memory = e.TensorDictPrimer(h=Unbounded(1), default_value=3.0)
    env = e.TransformedEnv(Steps(4), e.Compose(e.SelectTransform("x"), e.CatFrames(2, -1, ["x"]), memory))
    policy = TensorDictModule(lambda x, h: x.sum(-1, keepdims=True) * h / 99, ["x", "h"], ["action"])
    td = env.rollout(3, policy)
    whole = TensorDictSequential(env.transform.eval(), policy).select_out_keys("action")
    example = TensorDict({"x": np.ones((1, 1), np.float32), "h": np.ones((1, 1), np.float32)}, [1])
    _, run = runner(whole.to_onnx(tmp_path / "a.onnx", example))
    state = np.zeros((1, 2), np.float32)
    for step in range(3):
        seen, start = np.full((1, 1), step, np.float32), np.array([[step == 0]])
        out = run({"x": seen, "h": td["h"][step][None], "is_init": start, "cat_frames.x": state})
        np.testing.assert_allclose(out["action"][0], td["action"][step], rtol=1e-5)
        state = out["next.cat_frames.x"]


def test_classes_become_actions_after_the_policy(tmp_path):
    """In equal parts from -1 to 1, whose middles are the actions."""
    vectors = np.eye(8, dtype=np.float32)[[0, 1]] + np.eye(8, dtype=np.float32)[[7, 4]]
    for categorical, given in ((True, np.array([[0, 3], [1, 0]])), (False, vectors)):
        env = e.TransformedEnv(Camera(), e.ActionDiscretizer(4, categorical=categorical))
        assert env.action_spec.is_in(given[0].astype(env.action_spec.dtype))
        policy = TensorDictModule(nn.Identity(), ["x"], ["action"])
        whole = TensorDictSequential(policy, env.transform.inv)
        _, run = runner(whole.to_onnx(tmp_path / "move.onnx", TensorDict({"x": given}, [2])))
        moves = np.array([[-0.75, 0.75], [-0.25, -0.75]], np.float32)
        np.testing.assert_array_equal(run({"x": given})["action"], moves, strict=True)
    env.transform.sampling = e.ActionDiscretizer.SamplingStrategy.RANDOM
    with pytest.raises(NotImplementedError, match="a graph draws nothing"):
        whole.to_onnx(tmp_path / "move.onnx", TensorDict({"x": given}, [2]))


def test_what_only_an_environment_writes_may_be_an_input(tmp_path):
    """A count of steps, and what is left to earn, of which the program keeps account."""
    keys = ["x", "step_count", "target_return"]
    observed = e.Compose(
        e.StepCounter(), e.TargetReturn(1.0), e.InitTracker(), e.CatTensors(keys, "all", sort=False)
    )
    whole = TensorDictSequential(observed, TensorDictModule(nn.Linear(6, 2), ["all"], ["action"]))
    td = TensorDict({"x": OBS, "step_count": np.array([[1], [0], [7]])}, [3])
    raises(KeyError, "'target_return', which is missing", whole.to_onnx, tmp_path / "policy.onnx", td)
    td["target_return"], td["is_init"] = np.ones((3, 1), np.float32), np.zeros((3, 1), bool)
    _, run = runner(whole.select_out_keys("action").to_onnx(tmp_path / "policy.onnx", td))
    given = np.concatenate([td[key] for key in keys], -1)
    wanted = whole[1](TensorDict(all=given))["action"]
    np.testing.assert_allclose(run({key: td[key] for key in keys})["action"], wanted, rtol=1e-5, atol=1e-5)


def test_states_need_a_batch(tmp_path):
    frames = e.CatFrames(2, -1, ["x"])
    frames._call(TensorDict({"x": OBS}, [3]), np.ones(3, bool))
    sequence = TensorDictSequential(frames, TensorDictModule(nn.Linear(8, 2), ["x"], ["action"]))
    raises(ValueError, "the module has states", sequence.to_onnx, tmp_path / "policy.onnx", OBS)


def test_the_transforms_of_an_environment_before_a_policy_with_a_memory(tmp_path):
    """`e.InitTracker` and the primer give what is an input of the graph."""
    memory = nn.LSTMModule(4, 3, in_key="x", out_key="hidden")
    before = e.Compose(
        e.ObservationNorm(1.0, 2.0, ["x"]), e.InitTracker(), e.StepCounter(), memory.make_tensordict_primer()
    )
    actor = TensorDictSequential(memory, TensorDictModule(nn.Linear(3, 2), ["hidden"], ["action"]))
    whole = TensorDictSequential(before.eval(), actor).select_out_keys("action")
    _, run = runner(whole.to_onnx(tmp_path / "policy.onnx", TensorDict({"x": OBS}, [3])))
    states = {name: np.zeros((3, 1, 3), np.float32) for name in ("recurrent_state_h", "recurrent_state_c")}
    td = TensorDict({"is_init": np.ones((3, 1), bool), **states}, [3])
    for begins in (True, False, True):
        td["x"], td["is_init"] = OBS * 2 + 1, np.full((3, 1), begins)
        out = run({"x": OBS, "is_init": td["is_init"], **states})
        td = actor(td)
        np.testing.assert_allclose(out["action"], td["action"], rtol=1e-4, atol=1e-5)
        states = {name: out[f"next.{name}"] for name in states}
        td = td["next"].select(*states)


def test_frames_that_nobody_has_seen_have_the_shape_of_the_example(tmp_path):
    frames = e.CatFrames(2, -1, ["x"], ["two"])
    whole = TensorDictSequential(frames, TensorDictModule(nn.Linear(8, 2), ["two"], ["action"]))
    td = TensorDict({"x": OBS}, [3])
    with pytest.raises(ValueError, match=r"the shape of the state \('cat_frames', 'x'\) is not known"):
        whole.to_onnx(tmp_path / "policy.onnx", td)
    td["cat_frames", "x"] = np.zeros((3, 8), np.float32)
    _, run = runner(whole.to_onnx(tmp_path / "policy.onnx", td))
    out = run({"x": OBS, "is_init": np.ones((3, 1), bool), "cat_frames.x": td["cat_frames", "x"]})
    np.testing.assert_array_equal(out["next.cat_frames.x"], np.concatenate([OBS, OBS], -1))
