"""A policy that torch trained, in a control loop without torch: as an ONNX graph, and as weights.

`python tests/examples/pendulum_deploy.py [FOLDER]` runs what `pendulum_train.py` wrote, and prints how far
both are from what torch computed, and how far from upright eight pendulums are after five seconds. The graph
needs onnxruntime, the file of weights safetensors.
"""

import sys
from pathlib import Path

import numpy as np

from lite import TensorDict, nn
from lite.models import OnnxModule

FOLDER = Path(__file__).with_name("pendulum")


def as_graph(folder=FOLDER):
    """The exported graph; it reads and writes entries of the names that its inputs and outputs have."""
    return OnnxModule(folder / "policy.onnx", num_threads=1)


def as_weights(folder=FOLDER):
    """The same layers here, which take torch's state dict by name: they can learn further."""
    net = nn.Sequential(
        nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1), nn.Tanh()
    )
    net.load_state_dict(nn.load_safetensors(folder / "weights.safetensors"))
    return nn.TensorDictModule(net, in_keys=["observation"], out_keys=["action"])


def control(policy, pendulums=8, steps=100, seed=0):
    """Twenty torques a second; gives the angles (steps, pendulums), 0 where a pendulum is upright."""
    angle, speed = np.random.default_rng(seed).uniform(-1, 1, (2, pendulums))
    td = TensorDict(batch_size=[pendulums])
    angles = []
    for _ in range(steps):
        td["observation"] = np.stack([np.cos(angle), np.sin(angle), speed], -1, dtype=np.float32)
        torque = policy(td)["action"][:, 0]
        speed = speed + 0.05 * (10 * np.sin(angle) + 15 * torque)
        angle = angle + 0.05 * speed
        angles.append(angle)
    return np.stack(angles)


def difference(policy, folder=FOLDER):
    """The largest one between the policy's actions and torch's."""
    known = TensorDict.load(folder / "outputs.npz").auto_batch_size_(1)
    return float(abs(policy(known.select("observation"))["action"] - known["action"]).max())


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    for name, policy in ("graph", as_graph(folder)), ("weights", as_weights(folder)):
        left = abs(control(policy)[-1]).max()
        print(f"{name}: {difference(policy, folder):.1e} from torch's actions; {left:.3f} rad after 5 s")
