"""Transforms as TorchRL's: as modules, in environments and in replay buffers; specs, state dicts, errors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensordict
import torch
from torchrl import data as their_data
from torchrl import envs as their_envs
from torchrl.envs.transforms import module as their_transforms

import lite
import lite.data
import lite.envs

pytestmark = pytest.mark.filterwarnings("ignore")


def tensor(value):
    return torch.from_numpy(np.array(value))


LITE = SimpleNamespace(
    e=lite.envs, d=lite.data, td=lite.TensorDict, of=np.array, dtype=np.dtype, cat=np.concatenate
)
TORCH = SimpleNamespace(
    e=their_envs,
    d=their_data,
    td=tensordict.TensorDict,
    of=tensor,
    dtype=lambda name: getattr(torch, name),
    cat=torch.cat,
)
RNG = np.random.default_rng(0)
OBS = RNG.normal(size=(3, 4)).astype(np.float32)
DOUBLE = RNG.normal(size=(3, 4))
IMAGE = RNG.integers(0, 256, (3, 6, 5, 3)).astype(np.uint8)
PLANES = np.moveaxis(IMAGE, -1, -3).copy()
REWARD = np.array([[3.0], [-0.5], [0.0]], np.float32)
LOC = np.linspace(-1, 1, 4, dtype=np.float32)

# What makes a transform, the entries that it is called on, and whether it is called on those alone.
MODULES = {
    "norm": (lambda b: b.e.ObservationNorm(0.5, 2.0, in_keys=["x"]), {"x": OBS}),
    "norm of arrays": (
        lambda b: b.e.ObservationNorm(b.of(LOC), b.of(np.abs(LOC) + 1), in_keys=["x"], standard_normal=True),
        {"x": OBS},
    ),
    "norm to another key": (lambda b: b.e.ObservationNorm(1, 0, ["x"], [("a", "y")]), {"x": OBS}),
    "norm of integers": (lambda b: b.e.ObservationNorm(0.0, 1 / 255, in_keys=["x"]), {"x": IMAGE}),
    "norm in double": (lambda b: b.e.ObservationNorm(0.5, 2.0, in_keys=["x"]), {"x": DOUBLE}),
    "scaling": (lambda b: b.e.RewardScaling(1, 2), {"reward": REWARD}),
    "scaling standard": (lambda b: b.e.RewardScaling(0.5, 0.1, standard_normal=True), {"reward": REWARD}),
    "scaling of integers": (lambda b: b.e.RewardScaling(1, 2), {"reward": np.array([[1], [2], [3]])}),
    "clipping": (lambda b: b.e.RewardClipping(-1, 1), {"reward": REWARD}),
    "clipping to another key": (
        lambda b: b.e.RewardClipping(-0.25, 1.5, ["reward"], ["r"]),
        {"reward": REWARD},
    ),
    "clip low": (lambda b: b.e.ClipTransform(["x"], low=0.0), {"x": OBS}),
    "clip both": (lambda b: b.e.ClipTransform(["x"], low=-0.5, high=1), {"x": DOUBLE}),
    "sign": (lambda b: b.e.SignTransform(["reward"]), {"reward": REWARD}),
    "float": (lambda b: b.e.DoubleToFloat(["x"]), {"x": DOUBLE, "y": DOUBLE}),
    "float of all": (lambda b: b.e.DoubleToFloat(), {"x": DOUBLE, "n": {"y": DOUBLE}, "i": np.arange(3)}),
    "cast": (
        lambda b: b.e.DTypeCastTransform(b.dtype("uint8"), b.dtype("float16"), ["x"], ["y"]),
        {"x": IMAGE},
    ),
    "rename": (
        lambda b: b.e.RenameTransform(["x", ("n", "y")], [("m", "z"), "w"]),
        {"x": OBS, "n": {"y": OBS}},
    ),
    "rename a copy": (lambda b: b.e.RenameTransform(["x"], ["y"], create_copy=True), {"x": OBS}),
    "exclude": (lambda b: b.e.ExcludeTransform("x", ("n", "y")), {"x": OBS, "n": {"y": OBS, "z": OBS}}),
    "exclude inverse": (lambda b: b.e.ExcludeTransform("x", inverse=True), {"x": OBS, "y": OBS}),
    "select": (
        lambda b: b.e.SelectTransform("x"),
        {"x": OBS, "y": OBS, "reward": REWARD, "done": REWARD > 0, "terminated": REWARD > 0},
    ),
    "select alone": (
        lambda b: b.e.SelectTransform("x", "no", keep_rewards=False, keep_dones=False),
        {"x": OBS, "reward": REWARD, "done": REWARD > 0},
    ),
    "squeeze": (lambda b: b.e.SqueezeTransform(-1, in_keys=["x"]), {"x": OBS[..., None]}),
    "squeeze of another size": (lambda b: b.e.SqueezeTransform(-1, in_keys=["x"]), {"x": OBS}),
    "unsqueeze": (lambda b: b.e.UnsqueezeTransform(-2, in_keys=["x"], out_keys=["y"]), {"x": OBS}),
    "unsqueeze in front": (
        lambda b: b.e.UnsqueezeTransform(1, allow_positive_dim=True, in_keys=["x"]),
        {"x": OBS},
    ),
    "permute": (lambda b: b.e.PermuteTransform((-1, -3, -2), in_keys=["x"]), {"x": IMAGE}),
    "flatten": (lambda b: b.e.FlattenObservation(-3, -2, ["x"]), {"x": IMAGE}),
    "cat": (lambda b: b.e.CatTensors(["y", "x"], "z"), {"x": OBS, "y": REWARD, "w": OBS}),
    "cat and keep": (
        lambda b: b.e.CatTensors(["y", ("n", "x")], "y", del_keys=False, sort=False),
        {"n": {"x": OBS}, "y": REWARD},
    ),
    "image": (lambda b: b.e.ToTensorImage(), {"pixels": IMAGE}),
    "image in double": (
        lambda b: b.e.ToTensorImage(dtype=b.dtype("float64"), in_keys=["x"], out_keys=["y"]),
        {"x": IMAGE},
    ),
    "image as it is": (
        lambda b: b.e.ToTensorImage(from_int=False, shape_tolerant=True),
        {"pixels": PLANES},
    ),
    "image of floats": (lambda b: b.e.ToTensorImage(True), {"pixels": IMAGE.astype(np.float32)}),
    "grey": (lambda b: b.e.GrayScale(), {"pixels": PLANES}),
    "grey of floats": (lambda b: b.e.GrayScale(["x"], ["y"]), {"x": PLANES / np.float32(255)}),
    "several": (
        lambda b: b.e.Compose(
            b.e.ToTensorImage(), b.e.GrayScale(), b.e.FlattenObservation(-3, -1), b.e.RewardClipping(-1, 1)
        ),
        {"pixels": IMAGE, "reward": REWARD},
    ),
    "a function": (lambda b: b.e.Compose(lambda td: td.set("y", td["x"] + 1)), {"x": OBS}),
}


def batch(b, entries, size=(3,), names=None):
    def made(value):
        return {k: made(v) for k, v in value.items()} if isinstance(value, dict) else b.of(value)

    return b.td(made(entries), batch_size=size, names=names)


def flat(td):
    """Entries by joined names, as NumPy has them."""
    out = {}
    for key, value in td.items(True, True):
        name = key if isinstance(key, str) else ".".join(key)
        out[name] = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return out


def same(ours, theirs, exact=False):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        other = theirs[name]
        assert (value.shape, value.dtype) == (other.shape, other.dtype), name
        if exact or value.dtype.kind != "f":
            np.testing.assert_array_equal(value, other, err_msg=name)
        else:
            np.testing.assert_allclose(value, other, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", MODULES)
def test_as_a_module(name):
    make, entries = MODULES[name]
    mine, their = make(LITE), make(TORCH)
    same(*(flat(t(batch(b, entries))) for t, b in ((mine, LITE), (their, TORCH))))
    assert repr(mine) == repr(their) or name in {"several", "a function", "float of all"}
    same(state(mine), state(their))
    # And on the way out of a buffer.
    td = batch(LITE, entries)
    buffer = lite.data.ReplayBuffer(
        storage=lite.data.LazyTensorStorage(3), sampler=lite.data.SamplerWithoutReplacement(), batch_size=3
    )
    buffer.append_transform(make(LITE))
    buffer.extend(td)
    drawn = flat(buffer.sample())
    assert drawn.keys() >= flat(mine(mine.inv(td))).keys()


def state(module):
    return {
        k: v.numpy() if isinstance(v, torch.Tensor) else v
        for k, v in module.state_dict().items()
        if "_cat_buffers" not in k and "_repertoire" not in k
    }


# -- specs ----------------------------------------------------------------------------------------------

SPECS = {
    "x": {
        "norm",
        "norm of arrays",
        "norm to another key",
        "clip low",
        "squeeze of another size",
        "unsqueeze",
    },
    "pixels": {"image", "grey of planes", "several"},
}


def composite(b):
    d, f32, u8 = b.d, b.dtype("float32"), b.dtype("uint8")
    return d.Composite(
        x=d.Bounded(-1.0, 1.0, shape=(3, 4), dtype=f32),
        y=d.Unbounded((3, 1), dtype=f32),
        pixels=d.Bounded(0, 255, shape=(3, 6, 5, 3), dtype=u8),
        planes=d.Unbounded((3, 3, 6, 5), dtype=u8),
        shape=(3,),
    )


OBSERVATIONS = {
    **{name: MODULES[name][0] for name in sorted(SPECS["x"] | {"image", "unsqueeze in front"})},
    "grey": lambda b: b.e.GrayScale(["planes"]),
    "flatten": lambda b: b.e.FlattenObservation(-3, -2, ["planes"]),
    "permute": lambda b: b.e.PermuteTransform((-1, -3, -2), ["planes"]),
    "permute bounds": lambda b: b.e.PermuteTransform((-2, -1, -3), ["pixels"]),
    "squeeze": lambda b: b.e.SqueezeTransform(-1, in_keys=["y"]),
    "cat": lambda b: b.e.CatTensors(["y", "x"], "z"),
    "cat and keep": lambda b: b.e.CatTensors(["y", "x"], "z", del_keys=False),
    "sign": lambda b: b.e.SignTransform(["y"], ["z"]),
    "frames": lambda b: b.e.CatFrames(3, -1, ["x"], ["z"]),
    "cast": lambda b: b.e.DTypeCastTransform(b.dtype("float32"), b.dtype("float64"), ["x"]),
}


def described(spec):
    out = {}
    for key, leaf in spec.items(True, True):
        name = key if isinstance(key, str) else ".".join(key)
        dtype = str(leaf.dtype).replace("torch.", "")
        bounds = ()
        if isinstance(leaf, lite.data.Bounded | their_data.Bounded):
            space = leaf if isinstance(leaf, lite.data.Bounded) else leaf.space
            bounds = tuple(np.asarray(part, np.float64) for part in (space.low, space.high))
        out[name] = (tuple(leaf.shape), dtype, bounds)
    return out


def same_specs(ours, theirs):
    mine, other = described(ours), described(theirs)
    assert mine.keys() == other.keys()
    for name, (shape, dtype, bounds) in mine.items():
        assert (shape, dtype) == other[name][:2], name
        assert len(bounds) == len(other[name][2]), name
        for one, two in zip(bounds, other[name][2], strict=True):
            np.testing.assert_allclose(one, np.broadcast_to(two, one.shape), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_specs_of_observations(name):
    same_specs(*(OBSERVATIONS[name](b).transform_observation_spec(composite(b)) for b in (LITE, TORCH)))


# -- along time -----------------------------------------------------------------------------------------


def episodes(b, time_last=True):
    """Two environments, six steps; what "next" has is what comes next, as long as an episode goes on."""
    done = np.array([[0, 0, 1, 0, 0, 0], [0, 1, 1, 0, 0, 1]], bool)[..., None]
    x = np.arange(2 * 6 * 2, dtype=np.float32).reshape(2, 6, 2) + 1
    following = np.where(done, -x, np.roll(x, -1, 1))
    entries = {"x": x, "reward": x[..., :1], "next": {"x": following, "done": done, "reward": x[..., :1]}}
    names, size = [None, "time"], (2, 6)
    if not time_last:
        swap = lambda v: {k: swap(w) for k, w in v.items()} if isinstance(v, dict) else np.swapaxes(v, 0, 1)  # noqa: E731
        entries, names, size = swap(entries), ["time", None], (6, 2)
    return batch(b, entries, size, names)


FRAMES = {
    "same": {},
    "constant": {"padding": "constant", "padding_value": 7},
    "with next": {"in_keys": ["x", ("next", "x")]},
    "constant with next": {"in_keys": ["x", ("next", "x")], "padding": "constant", "padding_value": -1},
    "future": {"future": True},
    "future constant": {"future": True, "padding": "constant"},
    "mask": {"mask_key": "mask"},
    "future mask": {"future": True, "mask_key": "mask"},
    "other keys": {"in_keys": ["x"], "out_keys": ["y"]},
}


@pytest.mark.parametrize("time_last", [True, False])
@pytest.mark.parametrize("name", FRAMES)
def test_frames_along_time(name, time_last):
    if "mask" in name and not time_last:
        pytest.skip("TorchRL writes a mask of the wrong order there")
    keywords = {"in_keys": ["x"], **FRAMES[name]}
    for count in (2, 4):
        out = [flat(b.e.CatFrames(count, -1, **keywords)(episodes(b, time_last))) for b in (LITE, TORCH)]
        same(*out, exact=True)


# -- in environments ------------------------------------------------------------------------------------


def counting(b, batch_size=(), lengths=(3, 5)):
    """An environment whose observations, images and rewards are those of its steps."""

    class Counting(b.e.EnvBase):
        def __init__(self):
            super().__init__(batch_size=batch_size)
            d, f32 = b.d, b.dtype("float32")
            self.observation_spec = d.Composite(
                x=d.Unbounded((*batch_size, 2), dtype=f32),
                y=d.Unbounded((*batch_size, 1), dtype=b.dtype("float64")),
                pixels=d.Bounded(0, 255, shape=(*batch_size, 4, 4, 3), dtype=b.dtype("uint8")),
                shape=batch_size,
            )
            self.action_spec = d.Bounded(-1.0, 1.0, shape=(*batch_size, 2), dtype=f32)
            self.reward_spec = d.Unbounded((*batch_size, 1), dtype=f32)
            self.count = np.zeros((*batch_size, 1), np.int64)
            self.lengths = np.resize(lengths, batch_size or 1).reshape(*batch_size, 1)

        def seen(self):
            count = self.count
            image = np.broadcast_to(
                (count[..., None, None] * 40 % 256).astype(np.uint8), (*batch_size, 4, 4, 3)
            )
            entries = {
                "x": np.concatenate([count, -count], -1).astype(np.float32),
                "y": count / 2,
                "pixels": image + np.arange(3, dtype=np.uint8),
            }
            return batch(b, entries, batch_size)

        def _reset(self, tensordict, **kwargs):
            mask = True if tensordict is None else tensordict.get("_reset", None)
            mask = True if mask is None else np.asarray(mask)
            self.count = np.where(mask, 0, self.count)
            return self.seen()

        def _step(self, tensordict):
            self.count = self.count + 1
            out = self.seen()
            out["reward"] = tensordict["action"][..., :1] * 2 + b.of(self.count.astype(np.float32))
            out["done"] = b.of(self.count >= self.lengths)
            return out

        def _set_seed(self, seed):
            pass

    return Counting()


ENVIRONMENTS = {
    "none": lambda b: None,
    "norm": lambda b: b.e.ObservationNorm(1.0, 2.0, ["x"], ["z"]),
    "norm of actions": lambda b: b.e.ObservationNorm(
        0.5, 2.0, [], in_keys_inv=["action"], out_keys_inv=["action"], standard_normal=True
    ),
    "rewards": lambda b: b.e.Compose(b.e.RewardScaling(1, 2), b.e.RewardClipping(-3, 3), b.e.RewardSum()),
    "float": lambda b: b.e.DoubleToFloat(),
    "float of actions": lambda b: b.e.DTypeCastTransform(
        b.dtype("float32"), b.dtype("float64"), ["x"], in_keys_inv=["action"]
    ),
    "rename": lambda b: b.e.RenameTransform(["x", "reward"], ["z", "r"], ["action"], ["a"]),
    "exclude": lambda b: b.e.ExcludeTransform("pixels", "y"),
    "select": lambda b: b.e.SelectTransform("x"),
    "unsqueeze": lambda b: b.e.Compose(
        b.e.UnsqueezeTransform(-1, in_keys=["x", "reward"]), b.e.SqueezeTransform(-1, in_keys=["y"])
    ),
    "images": lambda b: b.e.Compose(
        b.e.ToTensorImage(), b.e.GrayScale(), b.e.CatFrames(3, -3), b.e.FlattenObservation(-2, -1)
    ),
    "permute": lambda b: b.e.PermuteTransform((-1, -3, -2), ["pixels"]),
    "cat": lambda b: b.e.Compose(b.e.DoubleToFloat(["y"]), b.e.CatTensors(["x", "y"], "z")),
    "frames": lambda b: b.e.CatFrames(3, -1, ["x"], ["z"]),
    "frames constant": lambda b: b.e.CatFrames(2, -1, ["x"], padding="constant", padding_value=9),
    "counter": lambda b: b.e.StepCounter(),
    "counter to a limit": lambda b: b.e.StepCounter(2, step_count_key="steps"),
    "counter not done": lambda b: b.e.StepCounter(2, update_done=False),
    "sum": lambda b: b.e.Compose(b.e.StepCounter(4), b.e.RewardSum(), b.e.InitTracker()),
    "sum as a reward": lambda b: b.e.RewardSum(reward_spec=True),
    "primer": lambda b: b.e.TensorDictPrimer(
        {"memory": b.d.Unbounded((3,), dtype=b.dtype("float32"))}, default_value=2.0, expand_specs=True
    ),
    "clip": lambda b: b.e.Compose(b.e.ClipTransform(["x"], low=-2), b.e.SignTransform(["reward"])),
    "target": lambda b: b.e.TargetReturn(20.0),
    "target constant": lambda b: b.e.TargetReturn(20.0, mode="constant", out_keys=["goal"]),
    "skip": lambda b: b.e.Compose(b.e.RewardScaling(1, 2), b.e.FrameSkipTransform(2)),
    "max pool": lambda b: b.e.TimeMaxPool(["x"], ["z"], T=2),
    "scaled actions": lambda b: b.e.ActionScaling(standard_normal=False),
    "scaled actions by numbers": lambda b: b.e.ActionScaling(loc=0.5, scale=2.0),
    "vec norm": lambda b: b.e.VecNorm(["x", "reward"], ["z", "reward"], decay=0.9),
    "vec norm v2": lambda b: b.e.VecNormV2(["x", "reward"], ["z", "reward"], decay=0.9),
    "vec norm v2 of all": lambda b: b.e.VecNormV2(["x"], decay=1.0, reduce_batch_dims=True),
    "vec norm v2 of batches": lambda b: b.e.VecNormV2(["x"], decay=0.8, reduce_batch_dims=True),
}
# What is another on purpose: the dtype of a spec is that of the values.
OTHER_SPECS = {"clip"}


def rolled(b, name, size, stop):
    env = b.e.TransformedEnv(counting(b, size), ENVIRONMENTS[name](b))
    given = iter(np.linspace(-1, 1, 8))
    key = env.action_keys[0]

    def policy(td):
        spec = env.full_action_spec[key]
        value = np.full(tuple(spec.shape), next(given))
        action = b.of(value.astype(str(spec.dtype).replace("torch.", "")))
        return td.set(key, action)

    out = env.rollout(8, policy, break_when_any_done=stop)
    return env, {name: value for name, value in flat(out).items() if name.split(".")[-1] != "_reset"}


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("size", [(), (2,)])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_in_an_environment(name, size, stop):
    if not stop and name == "select" and size:
        pytest.skip("the entries that a reset needs are not selected")
    (mine, ours), (their, theirs) = (rolled(b, name, size, stop) for b in (LITE, TORCH))
    same(ours, theirs)
    if name not in OTHER_SPECS:
        for kind in ("observation", "reward", "done", "action", "state"):
            same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name not in {*OTHER_SPECS, "rewards"}])
def test_an_environment_does_what_its_specs_say(name):
    env = lite.envs.TransformedEnv(counting(LITE, (2,)), ENVIRONMENTS[name](LITE))
    lite.envs.check_env_specs(env)


def vec_norms(b):
    return [
        b.e.VecNorm(["x", ("n", "y")], decay=0.9),
        b.e.VecNorm(["x"], ["z"], decay=1.0, shapes=[(4,)]),
        b.e.VecNormV2(["x", ("n", "y")], decay=0.9, reduce_batch_dims=True),
        b.e.VecNormV2(["x"], ["z"], decay=1.0),
    ]


def call(transform, b, td):
    """A step; TorchRL's VecNormV2 has no `forward`."""
    return transform._step(td, td) if isinstance(transform, their_envs.VecNormV2) else transform(td)


@pytest.mark.parametrize("number", range(4))
def test_running_statistics(number):
    """Values, statistics and their state dicts, which load in both directions; copies stay as they are."""
    mine, their = vec_norms(LITE)[number], vec_norms(TORCH)[number]
    for shift in range(3):
        entries = {"x": OBS + shift, "n": {"y": DOUBLE * (shift + 1)}}
        same(*(flat(call(t, b, batch(b, entries))) for t, b in ((mine, LITE), (their, TORCH))))
    entries = {"x": OBS * 2, "n": {"y": DOUBLE}}
    other, twin = vec_norms(LITE)[number], vec_norms(TORCH)[number]
    other.load_state_dict(their.state_dict())
    given = mine.state_dict()
    extra = {k: tensor(v) for k, v in given.pop("_extra_state").items()}
    twin.load_state_dict({**{k: tensor(v) for k, v in given.items()}, "_extra_state": extra})
    assert {k: tuple(v.shape) for k, v in extra.items()} == {
        k: tuple(v.shape) for k, v in their.state_dict()["_extra_state"].items()
    }
    same(flat(mine.loc), flat(their.loc))
    same(flat(mine.scale), flat(their.scale))
    fixed, frozen = mine.to_observation_norm(), mine.frozen_copy()
    same(flat(fixed(batch(LITE, entries))), flat(their.to_observation_norm()(batch(TORCH, entries))))
    same(
        flat(mine.denorm(batch(LITE, {"x": OBS, "z": OBS, "n": {"y": DOUBLE}}))),
        flat(their.denorm(batch(TORCH, {"x": OBS, "z": OBS, "n": {"y": DOUBLE}}))),
    )
    wanted = flat(frozen(batch(LITE, entries)))
    same(flat(call(other, LITE, batch(LITE, entries))), flat(call(twin, TORCH, batch(TORCH, entries))))
    same(wanted, flat(frozen(batch(LITE, entries))), exact=True)
    assert repr(mine) == repr(their) or number > 1


def buffered(b, transform, td):
    """On the way into a buffer, and out of it."""
    buffer = b.d.ReplayBuffer(
        storage=b.d.LazyTensorStorage(3),
        sampler=b.d.SamplerWithoutReplacement(shuffle=False) if b is LITE else None,
        batch_size=3,
    )
    buffer.append_transform(transform)
    buffer.extend(td)
    return buffer[:3]


BUFFERS = {
    "float": lambda b: b.e.DoubleToFloat(["x"], in_keys_inv=["x"]),
    "exclude": lambda b: b.e.ExcludeTransform("y", inverse=True),
    "frames on the way in": lambda b: b.e.CatFrames(2, -1, ["x"], as_inverse=True),
    "frames": lambda b: b.e.CatFrames(2, -1, ["x"]),
    "to go": lambda b: b.e.Reward2GoTransform(0.9),
    "to go elsewhere": lambda b: b.e.Reward2GoTransform(0.5, [("next", "reward")], ["to_go"]),
    "rename": lambda b: b.e.RenameTransform(["x"], ["z"], ["x"], ["x"]),
    "two": lambda b: b.e.Compose(
        b.e.UnsqueezeTransform(-1, in_keys=["x"], in_keys_inv=["y"]),
        b.e.RewardScaling(1, 2, [("next", "reward")]),
    ),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_in_a_buffer(name):
    entries = {
        "x": OBS,
        "y": OBS[:, :1],
        "next": {"reward": REWARD, "done": np.array([[False], [False], [True]])},
    }
    out = []
    for b in (LITE, TORCH):
        td = batch(b, entries)
        td.names = ["time"]
        out.append(flat(buffered(b, BUFFERS[name](b), td).clone()))
    for found in out:
        found.pop("index", None)
    same(*out)


def test_sequences():
    td = {"x": OBS.reshape(3, 4, 1), "h": np.zeros((3, 4, 1), np.float32)}
    module = tensordict.nn.TensorDictModule(torch.nn.Linear(1, 1), ["x"], [("next", "h")])
    for key, value in (("weight", 2.0), ("bias", 0.5)):
        torch.nn.init.constant_(getattr(module.module, key), value)
    mine = lite.nn.TensorDictModule(lite.nn.Linear(1, 1), ["x"], [("next", "h")])
    mine.module.load_state_dict(module.module.state_dict())
    same(
        flat(lite.envs.BurnInTransform(mine, 2)(batch(LITE, td, (3, 4)))),
        flat(their_envs.BurnInTransform(module, 2)(batch(TORCH, td, (3, 4)))),
    )
    transforms = (
        lite.envs.ModuleTransform(module=mine),
        their_transforms.ModuleTransform(module=module, no_grad=True),
    )
    same(*(flat(t(batch(b, td, (3, 4)))) for t, b in zip(transforms, (LITE, TORCH), strict=True)))


@pytest.mark.parametrize("strategy", ["MEDIAN", "LOW", "HIGH"])
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("size", [(), (2,)])
def test_discrete_actions(strategy, categorical, size):
    def made(b):
        cls = b.e.ActionDiscretizer
        return b.e.TransformedEnv(
            counting(b, size), cls(4, "action", "choice", cls.SamplingStrategy[strategy], categorical)
        )

    mine, their = made(LITE), made(TORCH)
    drawn = mine.rand_action(mine.reset())
    assert mine.full_action_spec.is_in(drawn.select("choice"))
    given = {"choice": drawn["choice"]}
    same(*(flat(env.transform.inv(batch(b, given, size))) for env, b in ((mine, LITE), (their, TORCH))))
    for kind in ("action", "state"):
        same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))
    lite.envs.check_env_specs(mine)


def test_masks_of_actions():
    class Masked(lite.envs.EnvBase):
        def __init__(self):
            super().__init__()
            self.action_spec = lite.data.Categorical(4)
            self.observation_spec = lite.data.Composite(action_mask=lite.data.Binary(4, dtype=bool))
            self.reward_spec = lite.data.Unbounded(1)
            self.last = 0

        def seen(self):
            return lite.TensorDict(action_mask=np.arange(4) != self.last)

        def _reset(self, tensordict, **kwargs):
            return self.seen()

        def _step(self, tensordict):
            assert int(tensordict["action"]) != self.last
            self.last = int(tensordict["action"])
            return self.seen().update({"reward": np.zeros(1, np.float32), "done": np.zeros(1, bool)})

        def _set_seed(self, seed):
            pass

    td = lite.envs.TransformedEnv(Masked(), lite.envs.ActionMask()).rollout(40)
    assert (np.diff(td["action"]) != 0).all()


def test_random_steps_first():
    def started(b):
        made = b.e.Compose(b.e.StepCounter(), b.e.NoopResetEnv(2, random=False))
        return flat(b.e.TransformedEnv(counting(b), made).reset())

    same(*(started(b) for b in (LITE, TORCH)))


def test_lives():
    def rolled(b):
        env = counting(b, lengths=(4,))
        env.left = lambda: 3 - int(env.count[0]) // 2
        env = b.e.TransformedEnv(env, b.e.EndOfLifeTransform(eol_attribute="left"))
        return flat(env.rollout(9, lambda td: td.set("action", b.of(np.zeros(2, np.float32)))))

    same(*(rolled(b) for b in (LITE, TORCH)))


def test_statistics_of_an_environment():
    def found(b, **keywords):
        norm = b.e.ObservationNorm(in_keys=["x"], standard_normal=keywords.pop("standard", True))
        env = b.e.TransformedEnv(counting(b, (2,)), b.e.Compose(b.e.DoubleToFloat(["y"]), norm))
        env.transform[1].init_stats(7, **keywords)
        return state(env.transform)

    for keywords in (
        {"reduce_dim": (0, 1), "cat_dim": 1},
        {"reduce_dim": (0, 1), "cat_dim": 1, "standard": False},
        {"reduce_dim": (0, 1), "cat_dim": 0, "keep_dims": (1,)},
    ):
        same(*(found(b, **keywords) for b in (LITE, TORCH)))


def test_a_state_dict_of_theirs():
    def make(b):
        return b.e.Compose(
            b.e.ObservationNorm(b.of(LOC), b.of(LOC + 2), in_keys=["x"]), b.e.RewardClipping(-2, 2)
        )

    mine, their = make(LITE), make(TORCH)
    their[0].loc += 1
    assert mine.state_dict().keys() == their.state_dict().keys()
    mine.load_state_dict(their.state_dict())
    their.load_state_dict({k: tensor(v) for k, v in mine.state_dict().items()})
    entries = {"x": DOUBLE, "reward": REWARD}
    same(*(flat(t(batch(b, entries))) for t, b in ((mine, LITE), (their, TORCH))))


ERRORS = {
    "norm without keys": lambda b: b.e.ObservationNorm(0.0, 1.0),
    "norm of half": lambda b: b.e.ObservationNorm(loc=1.0, in_keys=["x"]),
    "norm without statistics": lambda b: b.e.ObservationNorm(in_keys=["x"])(batch(b, {"x": OBS})),
    "statistics alone": lambda b: b.e.ObservationNorm(in_keys=["x"]).init_stats(3),
    "a missing entry": lambda b: b.e.RewardClipping(-1, 1)(batch(b, {"x": OBS})),
    "clip nothing": lambda b: b.e.ClipTransform(["x"]),
    "clip an array": lambda b: b.e.ClipTransform(["x"], low=np.zeros(2)),
    "clip upside down": lambda b: b.e.ClipTransform(["x"], low=1, high=0),
    "cast without in_keys": lambda b: b.e.DoubleToFloat(out_keys=["x"])(batch(b, {"x": DOUBLE})),
    "rename to itself": lambda b: b.e.RenameTransform(["a", "b"], ["b", "c"]),
    "rename of two to one": lambda b: b.e.RenameTransform(["a", "b"], ["c"]),
    "rename what is missing": lambda b: b.e.RenameTransform(["a"], ["b"])(batch(b, {"x": OBS})),
    "max pool": lambda b: b.e.TimeMaxPool(["x"], T=0),
    "max pool alone": lambda b: b.e.TimeMaxPool(["x"])(batch(b, {"x": OBS})),
    "target": lambda b: b.e.TargetReturn(1.0, mode="x"),
    "target alone": lambda b: b.e.TargetReturn(1.0, in_keys=["reward"])(batch(b, {"reward": REWARD})),
    "to go without an end": lambda b: b.e.Reward2GoTransform().inv(
        batch(b, {"next": {"reward": REWARD, "done": REWARD > 9}})
    ),
    "to go in an environment": lambda b: b.e.TransformedEnv(counting(b), b.e.Reward2GoTransform()),
    "skip": lambda b: b.e.FrameSkipTransform(0),
    "skip alone": lambda b: b.e.FrameSkipTransform(2)(batch(b, {"x": OBS})),
    "no-ops of two": lambda b: b.e.TransformedEnv(counting(b, (2,)), b.e.NoopResetEnv()).reset(),
    "no-ops of too many": lambda b: b.e.TransformedEnv(
        counting(b), b.e.NoopResetEnv(9, random=False)
    ).reset(),
    "mask": lambda b: b.e.ActionMask(action_key=1),
    "mask alone": lambda b: b.e.ActionMask()(batch(b, {"action_mask": OBS > 0})),
    "mask of numbers": lambda b: b.e.TransformedEnv(counting(b), b.e.ActionMask(mask_key="x")).reset(),
    "scaling of half": lambda b: b.e.ActionScaling(loc=1.0),
    "scaling of two": lambda b: b.e.ActionScaling(["a", "b"]),
    "scaling by zero": lambda b: b.e.ActionScaling(loc=1.0, scale=0.0),
    "scaling alone": lambda b: b.e.ActionScaling().inv(batch(b, {"action": OBS})),
    "scaling of another size": lambda b: b.e.ActionScaling(loc=b.of(LOC), scale=b.of(LOC + 2)).inv(
        batch(b, {"action": OBS[:, :2]})
    ),
    "scaling of both statistics": lambda b: b.e.ActionScaling.from_stats(mean=0, std=1, low=0, high=1),
    "projection": lambda b: b.e.DiscreteActionProjection(3, 2),
    "projection of another size": lambda b: b.e.DiscreteActionProjection(2, 3).inv(
        batch(b, {"action": OBS[:, :2]})
    ),
    "discretizer alone": lambda b: b.e.ActionDiscretizer(3).inv(batch(b, {"action": OBS})),
    "crop of none": lambda b: b.e.RandomCropTensorDict(2)(batch(b, {"x": OBS}, ())),
    "crop too long": lambda b: b.e.RandomCropTensorDict(4)(batch(b, {"x": OBS})),
    "burn in a number": lambda b: b.e.BurnInTransform([3], 1),
    "frozen too early": lambda b: b.e.VecNormV2(["x"]).frozen_copy(),
    "frozen too early, too": lambda b: b.e.VecNorm(["x"]).frozen_copy(),
    "unsqueeze": lambda b: b.e.UnsqueezeTransform(0, in_keys=["x"]),
    "permute": lambda b: b.e.PermuteTransform((0, 1), in_keys=["x"]),
    "flatten": lambda b: b.e.FlattenObservation(0, -1),
    "cat along dim": lambda b: b.e.CatTensors(dim=-2),
    "frames along dim": lambda b: b.e.CatFrames(2, 0),
    "frames with padding": lambda b: b.e.CatFrames(2, -1, padding="wrap"),
    "frames without a batch": lambda b: b.e.CatFrames(2, -1, ["x"])(batch(b, {"x": OBS}, ())),
    "frames without done": lambda b: b.e.CatFrames(2, -1, ["x"])(batch(b, {"x": OBS})),
    "grey of four": lambda b: b.e.GrayScale(["x"])(batch(b, {"x": IMAGE})),
    "counter": lambda b: b.e.StepCounter(0),
    "counter alone": lambda b: b.e.StepCounter()(batch(b, {"x": OBS})),
    "sum": lambda b: b.e.RewardSum(["reward"], ["a", "b"]),
    "sum without time": lambda b: b.e.RewardSum()(batch(b, {"reward": REWARD})),
    "init": lambda b: b.e.InitTracker(("a", "b")),
    "primer": lambda b: b.e.TensorDictPrimer({"a": b.d.Unbounded(1)}, random=True, default_value=1.0),
    "compose a number": lambda b: b.e.Compose(3),
    "compose with words": lambda b: b.e.Compose(b.e.RewardSum(), other=1),
    "insert too far": lambda b: b.e.Compose().insert(2, b.e.RewardSum()),
    "transform is no transform": lambda b: b.e.TransformedEnv(counting(b), 3),
    "in two environments": lambda b: [
        b.e.TransformedEnv(env, t) for t in [b.e.RewardSum()] for env in [counting(b), counting(b)]
    ],
    "a batch size": lambda b: setattr(b.e.TransformedEnv(counting(b)), "batch_size", (3,)),
    "a key without a spec": lambda b: (
        b.e.TransformedEnv(counting(b), b.e.Transform(["x"], ["z"])).output_spec
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kinds = []
    for b in (LITE, TORCH):
        with pytest.raises(Exception, match="") as caught:
            ERRORS[name](b)
        kinds.append(caught.type.__name__)
    assert kinds[0] == kinds[1]
