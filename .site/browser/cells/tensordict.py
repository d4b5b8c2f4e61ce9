import numpy as np

from lite import TensorDict

td = TensorDict(
    {
        "obs": np.arange(12, dtype=np.float32).reshape(4, 3),
        "next": {"reward": np.array([[0.0], [1.0], [0.0], [2.0]])},
        "env": ["maze 0", "maze 1", "maze 2", "maze 3"],
    },
    batch_size=[4],
)
last = td[2:]  # of every entry
last["obs"] *= 10  # the arrays are shared: td sees it

print(td["obs"])
print(last["env"], last["next", "reward"].ravel())
print((td.exclude("env") + 1).sum(dim=0)["next", "reward"])
td
