"""An ensemble of value networks as one: `vmap` runs them, one gradient trains them, their spread is a doubt.

`python tests/examples/ensemble_of_values.py [networks]` learns a function from points in [-1, 1], and prints
how far the networks are apart there and outside, where they were never trained.
"""

import sys

import numpy as np

from lite import TensorDict, from_modules, nn, optim, value_and_grad, vmap


def train(networks, steps=300, seed=0):
    """The stacked parameters, and what runs the networks: (points, 1) to (networks, points, 1)."""
    rng = np.random.default_rng(seed)
    net = nn.MLP(1, 1, num_cells=[32, 32])
    members = [nn.MLP(1, 1, num_cells=[32, 32]) for _ in range(networks)]
    for member in members:
        member.apply(lambda layer: layer.reset_parameters(rng) if isinstance(layer, nn.Linear) else None)
    params = from_modules(*members).data.clone()  # every entry begins with the networks

    def one(params, x):
        with params.to_module(net):
            return net(x)

    each = vmap(one, (0, None))

    @value_and_grad
    def loss(params, batch):
        return ((each(params, batch["x"]) - batch["value"]) ** 2).mean()

    adam, state = optim.Adam(1e-2), None
    for _ in range(steps):
        x = rng.uniform(-1, 1, (64, 1)).astype(np.float32)
        _, grads = loss(params, TensorDict(x=x, value=np.sin(3 * x), batch_size=[64]))
        params, state = adam.update(params, grads, state)
    return params, each


def doubt(params, each, low, high):
    """The standard deviation over networks, its mean over points between two numbers."""
    x = np.linspace(low, high, 50, dtype=np.float32)[:, None]
    return float(np.asarray(each(params, x)).std(0).mean())


if __name__ == "__main__":
    params, each = train(int(sys.argv[1]) if sys.argv[1:] else 5)
    print(
        f"spread {doubt(params, each, -1, 1):.3f} where they learned, {doubt(params, each, 3, 4):.3f} outside"
    )
