"""CartPole by DQN on NumPy alone, from the environment to a policy that is an ONNX file.

`python tests/examples/cartpole_dqn.py [seed [mark [seconds [graph]]]]` trains until 100 episodes of the
exported policy have a mean return of `mark`, 475 unless given, and prints what it reached. With 1 for
`graph`, a step is a graph that onnxruntime runs.
"""

import os
import sys
import tempfile
import time

if __name__ == "__main__":  # a second thread slows products of these sizes down
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gymnasium
import numpy as np

from lite import TensorDict, jit, nn, optim, value_and_grad
from lite.data import Collector, LazyTensorStorage, MultiStep, TensorDictReplayBuffer
from lite.models import OnnxModule
from lite.nn.losses import DQNLoss


def mean_return(policy, seed, episodes=100):
    """The mean over episodes that are played side by side."""
    env = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    observation, _ = env.reset(seed=seed)
    total, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        td = policy(TensorDict(observation=observation, batch_size=[episodes]))
        observation, reward, terminated, truncated, _ = env.step(td["action"])
        total += reward * running
        running &= ~(terminated | truncated)
    return total.mean()


def train(path, seed=0, mark=475, seconds=150, graph=False):
    start, rng = time.perf_counter(), np.random.default_rng(seed)
    net = nn.MLP(4, 2, num_cells=[128, 128], activation_class=nn.ReLU)
    net.apply(lambda layer: layer.reset_parameters(rng) if isinstance(layer, nn.Linear) else None)
    actor = nn.QValueActor(net, action_space="categorical")
    loss = DQNLoss(actor, action_space="categorical", loss_function="smooth_l1", double_dqn=True)
    adam = optim.Adam(1e-3)
    everything = TensorDict.from_module(loss)
    params = everything.select("value_network_params")
    targets = everything.select("target_value_network_params")
    state = adam.init(params)

    def explore(td):
        td = actor(td)
        random = rng.random(td.shape) < max(0.04, 1 - collector.stats()["frames"] / 5000)
        td["action"] = np.where(random, rng.integers(2, size=td.shape), td["action"])
        return td

    def step(params, targets, state, batch):
        def objective(params):
            with params.to_module(loss), targets.to_module(loss):
                return loss(batch)["loss"]

        _, grads = value_and_grad(objective)(params)
        adam.update_(params, grads, state)
        optim.soft_update(targets["target_value_network_params"], params["value_network_params"], 0.01)

    if graph:
        step = jit(step, donate=("params", "targets", "state"), threads=1)

    env = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="sync")
    three = MultiStep(gamma=0.99, n_steps=3, shift_done=True)
    collector = Collector(env, explore, frames_per_batch=64, seed=seed, postproc=three)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(50_000), batch_size=64, generator=seed)
    for number, rollout in enumerate(collector, 1):
        buffer.extend(rollout.reshape(-1))
        for _ in range(32 if len(buffer) >= 1000 else 0):
            step(params, targets, state, buffer.sample())
        late = time.perf_counter() - start > seconds
        if late or (number % 25 == 0 and mean_return(actor, seed + 1000) >= mark):
            actor.to_onnx(path, TensorDict(observation=np.zeros((1, 4), np.float32), batch_size=[1]))
            reached = mean_return(OnnxModule(path, num_threads=1), seed + 2000)  # other episodes
            if late or reached >= mark:
                return reached, 64 * number, time.perf_counter() - start


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        reached, frames, seconds = train(folder + "/policy.onnx", *map(int, sys.argv[1:]))
    print(f"mean return {reached:.1f} after {frames} frames and {seconds:.1f} s")
