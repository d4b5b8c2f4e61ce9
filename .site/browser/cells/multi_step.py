import numpy as np
from svg import BLUE, ORANGE, RED, Drawing

from lite import TensorDict
from lite.data import MultiStep

STEPS, N_STEPS, GAMMA = 60, 5, 0.9

reward = (np.random.default_rng(7).random((1, STEPS, 1)) < 0.15).astype(np.float32)
done = np.isin(np.arange(STEPS), [29, 59]).reshape(1, STEPS, 1)  # two episodes
obs = np.zeros((1, STEPS, 1), np.float32)
rollout = TensorDict(
    {"obs": obs, "next": {"obs": obs, "reward": reward, "done": done}},
    batch_size=[1, STEPS],
)
returns = MultiStep(GAMMA, N_STEPS)(rollout)["next", "reward"].ravel()
print(f"{reward.sum():.0f} rewards of 1; the largest return is {returns.max():.3f}")

# Bars are rewards, the line is their n-step return, which ends where an episode ends.
drawing = Drawing(620, 200, f"{N_STEPS}-step returns of two episodes")
height = 170 / max(1, returns.max())
for t in range(STEPS):
    x = 10 + 10 * t
    if reward[0, t, 0]:
        drawing.line([(x, 190), (x, 190 - height)], ORANGE, 4)
    if done[0, t, 0]:
        drawing.line([(x + 5, 190), (x + 5, 10)], RED, 1, "4 4")
drawing.words(600, 16, f"up to {returns.max():.2f}", anchor="end", kind="faint")
drawing.line([(10 + 10 * t, 190 - height * g) for t, g in enumerate(returns)], BLUE, 2)
drawing
