import numpy as np
from svg import BLUE, Drawing

from lite import TensorDict, enable_grad, nn, optim
from lite.data import GAE, Categorical, Collector, Composite, Unbounded
from lite.envs import EnvBase, RewardSum
from lite.nn.losses import ClipPPOLoss

GOAL, ENVS, STEPS = 150, 16, 32


class CartPole(EnvBase):
    """Carts that balance poles, by the equations of gymnasium's CartPole-v1."""

    def __init__(self):
        super().__init__(batch_size=[ENVS])
        self.observation_spec = Composite(
            observation=Unbounded((ENVS, 4)), shape=[ENVS]
        )
        self.action_spec = Categorical(2, shape=(ENVS,))
        self.reward_spec = Unbounded((ENVS, 1))
        self.state = np.zeros((ENVS, 4), np.float32)

    def _set_seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def _reset(self, td):
        start = self.rng.uniform(-0.05, 0.05, (ENVS, 4)).astype(np.float32)
        fresh = True if td is None else td.get("_reset", True)
        self.state = np.where(fresh, start, self.state)
        return TensorDict(observation=self.state, batch_size=[ENVS])

    def _step(self, td):
        speed, angle, turn = self.state[:, 1:].T
        sin, cos = np.sin(angle), np.cos(angle)
        push = (20 * td["action"] - 10 + 0.05 * turn**2 * sin) / 1.1
        swing = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        change = np.stack([speed, push - 0.05 * swing * cos / 1.1, turn, swing], -1)
        self.state = (self.state + 0.02 * change).astype(np.float32)
        fell = (abs(self.state[:, :1]) > 2.4) | (abs(self.state[:, 2:3]) > 0.2095)
        reward = np.ones((ENVS, 1), np.float32)
        found = {
            "observation": self.state,
            "reward": reward,
            "terminated": fell,
            "done": fell,
        }
        return TensorDict(found, batch_size=[ENVS])


rng = np.random.default_rng(0)


def network(outputs):
    net = nn.MLP(4, outputs, num_cells=[64], activation_class=nn.Tanh)
    return net.apply(
        lambda m: m.reset_parameters(rng) if isinstance(m, nn.Linear) else None
    )


actor = nn.ProbabilisticActor(
    nn.TensorDictModule(network(2), ["observation"], ["logits"]),
    in_keys=["logits"],
    distribution_class=nn.distributions.Categorical,
    return_log_prob=True,
    generator=rng,
)
critic = nn.ValueOperator(network(1), ["observation"])
advantages = GAE(gamma=0.98, lmbda=0.9, value_network=critic)
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0, normalize_advantage=True)
adam = optim.Adam(loss.parameters(), lr=3e-3)
collector = Collector(
    CartPole(),
    actor,
    frames_per_batch=ENVS * STEPS,
    max_frames_per_traj=500,
    transforms=[RewardSum()],
    seed=0,
)

lengths, curve = [], []
for number, rollout in enumerate(collector, 1):
    frames = advantages(rollout).reshape(-1)
    for rows in [
        rows for _ in range(4) for rows in np.split(rng.permutation(len(frames)), 4)
    ]:
        with enable_grad():
            found = loss(frames[rows])
            objective = found["loss_objective"] + found["loss_critic"]
        objective.backward()
        optim.clip_grad_norm_(loss.parameters(), 0.5)
        adam.step()
        adam.zero_grad()
    lengths += rollout["next", "episode_reward"][rollout["next", "done"]].tolist()
    curve.append(np.mean(lengths[-30:]))
    ends = curve[-1] >= GOAL or number == 100
    if ends or number % 5 == 0:
        print(f"{number * ENVS * STEPS} steps: poles stand for {curve[-1]:.0f}")
    if ends:
        break

drawing = Drawing(620, 200, "how long poles stand, the mean of the last 30 episodes")
high, wide = 170 / max(curve), 600 / max(1, len(curve) - 1)
drawing.line([(10 + wide * i, 190 - high * y) for i, y in enumerate(curve)], BLUE, 2)
drawing.words(10, 16, f"up to {max(curve):.0f} steps", kind="faint")
drawing
