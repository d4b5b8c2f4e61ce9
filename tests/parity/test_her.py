"""HERReplayBuffer and prefill_replay_buffer against torchrl's, with the same random numbers."""

import inspect

import numpy as np
import tensordict
import torch
from helpers.cases import each_case
from torchrl import data as reference

import lite
from lite import data

SEED = 3


def rows(start, count, nested):
    rng = np.random.default_rng(start)
    n = np.arange(start, start + count, dtype=np.float32)[:, None]
    goal = -np.ones_like(n)
    after = {"reward": rng.random((count, 1), np.float32), "done": n % 5 == 3, "terminated": n % 7 == 6}
    if nested:
        after["desired_goal"] = goal
    return {"achieved_goal": n, "desired_goal": goal, "next": after}


def run(side, strategy, ratio, nested, writes, generator):
    module = data if side == "lite" else reference
    make = lite.TensorDict if side == "lite" else tensordict.TensorDict
    made = module.HERReplayBuffer(
        lambda td: td["desired_goal"] * 2 + td["achieved_goal"], storage=module.LazyTensorStorage(20),
        sampler=module.SamplerWithoutReplacement(shuffle=False), her_ratio=ratio, strategy=strategy,
        **({"generator": generator} if side == "lite" else {}),
    )  # fmt: skip
    for start, count in writes:
        made.extend(make(rows(start, count, nested), batch_size=[count]))
    return [made.sample(len(made)) for _ in range(2)]


# Full once: torchrl mistakes the last episode before the end of the ring for the one before it.
TWICE = [(0, 13), (13, 7)]


@each_case("strategy", ["future", "final", "episode", "random"])
@each_case(
    ("ratio", "nested", "writes"),
    [(0.0, False, TWICE), (0.8, False, TWICE), (0.5, True, TWICE), (1.0, True, TWICE[:1])],
)
def test_batches(monkeypatch, strategy, ratio, nested, writes):
    generator = np.random.default_rng(SEED)
    monkeypatch.setattr("torch.rand", lambda n, device=None: torch.from_numpy(generator.random(n)))
    monkeypatch.setattr(
        "torch.randint", lambda high, size, device=None: torch.from_numpy(generator.integers(0, high, size))
    )
    theirs = run("torchrl", strategy, ratio, nested, writes, None)
    ours = run("lite", strategy, ratio, nested, writes, np.random.default_rng(SEED))
    for mine, other in zip(ours, theirs, strict=True):
        assert set(mine.keys(True, True)) == set(other.keys(True, True))
        for key, value in other.items(True, True):
            np.testing.assert_array_equal(mine[key], value.numpy(), err_msg=str(key))
            assert mine[key].dtype == value.numpy().dtype


def test_arguments():
    for get in (lambda side: side.HERReplayBuffer.__init__, lambda side: side.prefill_replay_buffer):
        mine, theirs = (inspect.signature(get(side)).parameters for side in (data, reference))
        assert [(p.name, p.default) for p in mine.values()] == [(p.name, p.default) for p in theirs.values()]
    assert {m.name: m.value for m in data.HindsightStrategy} == {
        m.name: m.value for m in reference.HindsightStrategy
    }


def test_prefill():
    found = []
    for module, make in ((data, lite.TensorDict), (reference, tensordict.TensorDict)):
        recorded = module.ReplayBuffer(
            storage=module.LazyTensorStorage(20), sampler=module.SamplerWithoutReplacement(shuffle=False)
        )
        recorded.extend(make({"a": np.arange(20)}, batch_size=[20]))
        buffer = module.ReplayBuffer(storage=module.LazyTensorStorage(15))
        module.prefill_replay_buffer(buffer, recorded, 18, chunk_size=5)
        found.append(np.asarray(buffer[:]["a"]))
    np.testing.assert_array_equal(*found)
