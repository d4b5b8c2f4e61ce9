"""CartPole by PPO on NumPy alone, from the environment to a policy that is an ONNX file.

`python tests/examples/cartpole_ppo.py [seed [mark [seconds [graph]]]]` trains until 100 episodes of the
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
from lite.data import GAE, Collector
from lite.models import OnnxModule
from lite.nn.distributions import Categorical
from lite.nn.losses import ClipPPOLoss


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

    def network(outputs):
        net = nn.MLP(4, outputs, num_cells=[64, 64], activation_class=nn.Tanh)
        return net.apply(lambda layer: layer.reset_parameters(rng) if isinstance(layer, nn.Linear) else None)

    actor = nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(network(2), ["observation"], ["logits"]),
        nn.ProbabilisticTensorDictModule(
            ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True, generator=rng
        ),
    )
    critic = nn.TensorDictModule(network(1), ["observation"], ["state_value"])
    advantages = GAE(gamma=0.98, lmbda=0.8, value_network=critic)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.0, normalize_advantage=True)
    adam = optim.Adam(lambda step: 1e-3 * np.maximum(0.1, 1 - step / 12_000))
    params = TensorDict.from_module(loss).select("actor_network_params", "critic_network_params")
    state = adam.init(params)

    def step(params, state, batch):
        def objective(params):
            with params.to_module(loss):
                found = loss(batch)
                return found["loss_objective"] + found["loss_critic"]

        _, grads = value_and_grad(objective)(params)
        grads, _ = optim.clip_grad_norm(grads, 0.5)
        adam.update_(params, grads, state)

    acting = actor
    if graph:
        step, acting = jit(step, donate=("params", "state"), threads=1), jit(actor, threads=1)

    env = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="sync")
    collector = Collector(env, acting, frames_per_batch=1024, seed=seed)
    for number, rollout in enumerate(collector, 1):
        frames = advantages(rollout).reshape(-1)
        for _ in range(10):
            order = rng.permutation(len(frames))
            for rows in np.split(order, 8):
                step(params, state, frames[rows])
        late = time.perf_counter() - start > seconds
        if late or (number % 4 == 0 and mean_return(acting, seed + 1000) >= mark):
            example = TensorDict(observation=np.zeros((1, 4), np.float32), batch_size=[1])
            actor.to_onnx(path, example)
            reached = mean_return(OnnxModule(path, num_threads=1), seed + 2000)  # other episodes
            if late or reached >= mark:
                return reached, 1024 * number, time.perf_counter() - start


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        reached, frames, seconds = train(folder + "/policy.onnx", *map(int, sys.argv[1:]))
    print(f"mean return {reached:.1f} after {frames} frames and {seconds:.1f} s")
