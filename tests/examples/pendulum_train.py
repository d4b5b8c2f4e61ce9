"""A policy that keeps a pendulum upright, trained with torch by gradients through a simulation of it.

`python tests/examples/pendulum_train.py FOLDER` takes seconds and writes what `tests/examples/pendulum`
holds: the policy as `policy.onnx`, its weights as `weights.safetensors`, and in `outputs.npz` what torch
computes with them. It needs torch, onnx, onnxscript and safetensors; `pendulum_deploy.py` runs the policy
without torch.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from safetensors.torch import save_file
from torch import nn


def network():
    """From (cosine, sine, speed) of an angle, which is 0 where the pendulum is upright, to a torque."""
    return nn.Sequential(
        nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1), nn.Tanh()
    )


def observe(angle, speed):
    return torch.stack([angle.cos(), angle.sin(), speed], -1)


def train(steps=80, seed=0):
    torch.manual_seed(seed)
    net = network().double()  # so that the float32 weights are the same on every machine
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        angle, speed = torch.rand(2, 64, dtype=torch.float64) * 2 - 1
        cost = 0
        for _ in range(40):  # two seconds
            torque = net(observe(angle, speed))[:, 0]
            speed = speed + 0.05 * (10 * angle.sin() + 15 * torque)
            angle = angle + 0.05 * speed
            cost = cost + (angle**2 + 0.1 * speed**2).mean()
        optimizer.zero_grad()
        cost.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)
        optimizer.step()
    return net.float().eval()


def export(net, path):
    torch.onnx.export(
        net,
        (torch.zeros(2, 3),),
        path,
        input_names=["observation"],
        output_names=["action"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        external_data=False,  # the weights are in the file
    )
    graph = onnx.load(path)
    for node in graph.graph.node:  # where in torch's sources each node comes from, most of the file
        del node.metadata_props[:]
    onnx.save(graph, path)


def write(net, folder):
    folder.mkdir(parents=True, exist_ok=True)
    export(net, folder / "policy.onnx")
    save_file(net.state_dict(), folder / "weights.safetensors")
    observation = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    with torch.no_grad():
        action = net(torch.from_numpy(observation)).numpy()
    np.savez(folder / "outputs.npz", observation=observation, action=action)


if __name__ == "__main__":
    torch.set_num_threads(1)  # a second one slows products of these sizes down
    write(train(), Path(sys.argv[1]))
