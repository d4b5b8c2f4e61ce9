"""The recurrent policy tests/models/graphs/policy.onnx: what tests give it, the torch network, its export.

Run ``python tests/helpers/recurrent_policy.py`` (torch, onnx and onnxscript) to write the graph again.
"""

from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).parents[1] / "models" / "graphs" / "policy.onnx"
SIZES = {"observation": 4, "layers": 2, "hidden": 16, "actions": 3}


def inputs(*batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """An observation and a state, which cannot be written to."""
    rng = np.random.default_rng(seed)
    observation = rng.standard_normal((*batch, 4)).astype(np.float32)
    hidden = rng.standard_normal((*batch, 2, 16)).astype(np.float32)
    observation.flags.writeable = hidden.flags.writeable = False
    return observation, hidden


def expected(session: Any, observation: np.ndarray, hidden: np.ndarray) -> list[np.ndarray]:
    """What the session gives, the batch in front."""
    lead = observation.shape[:-1]
    flat = np.moveaxis(hidden.reshape(-1, 2, 16), 0, 1)
    action, value, state = session.run(None, {"observation": observation.reshape(-1, 4), "hidden": flat})
    return [a.reshape(*lead, *a.shape[1:]) for a in (action, value, np.moveaxis(state, 1, 0))]


def network():
    """An encoder, a GRU of two layers and two heads; inputs (batch, 4) and (2, batch, 16)."""
    import torch
    from torch import nn

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            width = SIZES["hidden"]
            self.encoder = nn.Sequential(nn.Linear(SIZES["observation"], width), nn.Tanh())
            self.memory = nn.GRU(width, width, num_layers=SIZES["layers"], batch_first=True)
            self.action = nn.Linear(width, SIZES["actions"])
            self.value = nn.Linear(width, 1)

        def forward(self, observation, hidden):
            out, hidden = self.memory(self.encoder(observation)[:, None], hidden)
            return self.action(out[:, 0]), self.value(out[:, 0]), hidden

    torch.manual_seed(0)
    return Policy().eval()


def export(path=PATH):
    import onnx
    import torch

    batch = torch.export.Dim("batch")
    torch.onnx.export(
        network(),
        (torch.zeros(2, SIZES["observation"]), torch.zeros(SIZES["layers"], 2, SIZES["hidden"])), path,
        input_names=["observation", "hidden"], output_names=["action", "value", "new_hidden"],
        dynamic_shapes={"observation": {0: batch}, "hidden": {1: batch}}, external_data=False,
    )  # fmt: skip
    model = onnx.load(path)
    for node in model.graph.node:  # where in the source a node comes from
        del node.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    export()
