"""Transforms as TorchRL's: as modules, in replay buffers and along time; specs and state dicts."""

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.transform_cases import (
    DOUBLE,
    IMAGE,
    LITE,
    LOC,
    OBS,
    PLANES,
    REWARD,
    TORCH,
    batch,
    flat,
    same,
    same_specs,
    state,
    tensor,
)
from torchrl import envs as their_envs
from torchrl.envs.transforms import module as their_transforms

import lite
import lite.data
import lite.envs

pytestmark = pytest.mark.filterwarnings("ignore")

# What makes a transform, and the entries that it is called on.
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
    "sign of flags": (lambda b: b.e.SignTransform(["done"]), {"done": REWARD > 0}),
    "finite": (lambda b: b.e.FiniteTensorDictCheck(), {"x": OBS, "n": {"y": DOUBLE}, "i": np.arange(3)}),
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
    "image as it is": (lambda b: b.e.ToTensorImage(from_int=False, shape_tolerant=True), {"pixels": PLANES}),
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


@each_case("name", MODULES)
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
    **{
        name: MODULES[name][0]
        for name in [
            "norm", "norm of arrays", "norm to another key", "clip low", "squeeze of another size",
            "unsqueeze", "unsqueeze in front", "image",
        ]
    },
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
}  # fmt: skip


@each_case("name", OBSERVATIONS)
def test_specs_of_observations(name):
    same_specs(*(OBSERVATIONS[name](b).transform_observation_spec(composite(b)) for b in (LITE, TORCH)))


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


@each_case("time_last", [True, False])
@each_case("name", FRAMES)
def test_frames_along_time(name, time_last):
    if "mask" in name and not time_last:
        return  # TorchRL writes a mask of the wrong order there
    keywords = {"in_keys": ["x"], **FRAMES[name]}
    for count in (2, 4):
        out = [flat(b.e.CatFrames(count, -1, **keywords)(episodes(b, time_last))) for b in (LITE, TORCH)]
        same(*out, exact=True)


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


@each_case("name", BUFFERS)
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


@pytest.mark.parametrize("same_key", [False, True])
def test_frames_that_a_buffer_joins(same_key):
    found = []
    for b in (LITE, TORCH):
        source, target = ("z", "z") if same_key else ("x", "y")
        frames = b.e.CatFrames(3, -1, in_keys=[source], out_keys=[target], reset_key="_reset")
        transform, sampler = frames.make_rb_transform_and_sampler(8, traj_key="traj")
        if same_key:  # made of what is stored
            transform.insert(
                0, b.e.RenameTransform(["x", ("next", "x")], ["z", ("next", "z")], create_copy=True)
            )
        kwargs = {"storage": b.d.LazyTensorStorage(100), "sampler": sampler, "transform": transform}
        x = np.arange(21, dtype=np.float32)[:, None]
        traj = np.repeat([0, 1, 2, 3], [5, 10, 2, 3])
        done = np.append(np.diff(traj) > 0, True)[:, None]
        following = {"x": x[1:], "done": done, "terminated": done, "reward": x[1:]}
        entries = {"x": x[:-1], "traj": traj, target: x[:-1], "next": {**following, target: x[1:]}}
        buffer = b.d.ReplayBuffer(batch_size=8, **kwargs)
        buffer.extend(batch(b, entries, (20,)))
        stored = set(map(str, buffer.storage[:].keys(True, True)))
        got = [buffer.sample() for _ in range(60)]
        for td in got:
            assert tuple(td.batch_size) == (8,)
            last = np.asarray(td["x"])
            np.testing.assert_array_equal(np.asarray(td[target]), last + [-2, -1, 0])
            np.testing.assert_array_equal(np.asarray(td["next", target]), last + [-1, 0, 1])
        drawn = {int(value) for td in got for value in np.asarray(td["x"]).ravel()}
        found.append((stored, set(map(str, got[0].keys(True, True))), drawn))
        buffer = b.d.TensorDictReplayBuffer(batch_size=8, **kwargs)
        with pytest.raises(RuntimeError):
            buffer.sample()
    assert found[0] == found[1]
    assert found[0][2] == {2, 3, 4, *range(7, 15), 19}
