"""TorchRL's tutorial "Recurrent training on sequence batches", on lite."""

import numpy as np

import lite
from lite import TensorDict, nn
from lite.data import Collector, LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from lite.envs import GymEnv
from lite.nn import LSTMModule, set_recurrent_mode
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.optim import Adam

n_obs, n_actions, hidden = 4, 2, 16


def make_policy():
    lstm = LSTMModule(
        input_size=n_obs,
        hidden_size=hidden,
        in_keys=["observation", "rs_h", "rs_c"],
        out_keys=["features", ("next", "rs_h"), ("next", "rs_c")],
        python_based=True,
    )
    head = Mod(nn.Linear(hidden, n_actions), in_keys=["features"], out_keys=["logits"])
    return Seq(lstm, head, Mod(lambda logits: logits.argmax(-1), in_keys=["logits"], out_keys=["action"]))


policy = make_policy()
env = GymEnv("CartPole-v1", categorical_action_encoding=True)
# the collector adds what starts the states, and "is_init", which says where an episode begins
collector = Collector(
    env, policy, frames_per_batch=64, total_frames=512, auto_register_policy_transforms=True
)
data = next(iter(collector))
print(data)
print("episodes that begin in the batch:", data["is_init"].sum().item())

buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(1024), sampler=SliceSampler(slice_len=8, strict_length=False), batch_size=32
)
buffer.extend(data)
sample = buffer.sample()
with set_recurrent_mode(True), lite.no_grad():  # a sequence at once, where a collector takes a step
    found = policy(sample.clone())
print("logits of each step:", found["logits"].shape)

rng = np.random.default_rng(0)
frames = 4
sequence = TensorDict(
    {
        "observation": rng.standard_normal((frames, n_obs), np.float32),
        "rs_h": np.zeros((frames, 1, hidden), np.float32),
        "rs_c": np.zeros((frames, 1, hidden), np.float32),
        "is_init": np.array([True, False, False, False]),
    },
    batch_size=[frames],
)
one_by_one, states = [], {}
for time in range(frames):
    with set_recurrent_mode(False), lite.no_grad():
        step = policy(sequence[time : time + 1].clone().update(states))
    one_by_one.append(step["features"][0])
    states = {"rs_h": step["next", "rs_h"], "rs_c": step["next", "rs_c"]}
with set_recurrent_mode(True), lite.no_grad():
    at_once = policy(sequence.clone())["features"]
for features, same in zip(one_by_one, at_once, strict=True):
    np.testing.assert_allclose(features, same, rtol=1e-4, atol=1e-5)

# Two episodes one after the other: the second does not see the first, nor what its states hold.
packed = TensorDict(
    {
        "observation": rng.standard_normal((1, 2 * frames, n_obs), np.float32),
        "rs_h": rng.standard_normal((1, 2 * frames, 1, hidden), np.float32),
        "rs_c": rng.standard_normal((1, 2 * frames, 1, hidden), np.float32),
        "is_init": np.arange(2 * frames)[None] % frames == 0,
    },
    batch_size=[1, 2 * frames],
)
with set_recurrent_mode(True), lite.no_grad():
    both = policy(packed.clone())["features"]
    second = policy(packed[:, frames:].clone())["features"]
np.testing.assert_allclose(both[:, frames:], second, rtol=1e-5, atol=1e-6)

trained = make_policy()
optimizer = Adam(trained.parameters(), lr=3e-4)
losses = []
for _ in range(4):
    with set_recurrent_mode(True), lite.enable_grad():
        logits = trained(buffer.sample())["logits"]
        loss = ((logits[..., 0] - 1) ** 2 + logits[..., 1] ** 2).mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
collector.shutdown()
print("losses:", losses)
