"""Transforms of both libraries on the same entries: an environment that counts, and what compares results."""

from types import SimpleNamespace

import numpy as np
import tensordict
import torch
from torchrl import data as their_data
from torchrl import envs as their_envs

import lite
import lite.data
import lite.envs


def tensor(value):
    return torch.from_numpy(np.array(value))


LITE = SimpleNamespace(
    e=lite.envs, d=lite.data, td=lite.TensorDict, of=np.array, dtype=np.dtype, cat=np.concatenate
)
TORCH = SimpleNamespace(
    e=their_envs, d=their_data, td=tensordict.TensorDict, of=tensor,
    dtype=lambda name: getattr(torch, name), cat=torch.cat,
)  # fmt: skip
RNG = np.random.default_rng(0)
OBS = RNG.normal(size=(3, 4)).astype(np.float32)
DOUBLE = RNG.normal(size=(3, 4))
IMAGE = RNG.integers(0, 256, (3, 6, 5, 3)).astype(np.uint8)
PLANES = np.moveaxis(IMAGE, -1, -3).copy()
REWARD = np.array([[3.0], [-0.5], [0.0]], np.float32)
LOC = np.linspace(-1, 1, 4, dtype=np.float32)


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


def state(module):
    return {
        k: v.numpy() if isinstance(v, torch.Tensor) else v
        for k, v in module.state_dict().items()
        if "_cat_buffers" not in k and "_repertoire" not in k
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
