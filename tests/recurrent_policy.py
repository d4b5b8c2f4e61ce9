"""The recurrent policy tests/onnx/graphs/policy.onnx: the torch network and how it was exported.

Run ``python tests/recurrent_policy.py`` (torch, onnx and onnxscript) to write the graph again.
"""

from pathlib import Path

PATH = Path(__file__).parent / "onnx" / "graphs" / "policy.onnx"
SIZES = {"observation": 4, "layers": 2, "hidden": 16, "actions": 3}


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
        (torch.zeros(2, SIZES["observation"]), torch.zeros(SIZES["layers"], 2, SIZES["hidden"])),
        path,
        input_names=["observation", "hidden"],
        output_names=["action", "value", "new_hidden"],
        dynamic_shapes={"observation": {0: batch}, "hidden": {1: batch}},
        external_data=False,
    )
    model = onnx.load(path)
    for node in model.graph.node:  # where in the source a node comes from
        del node.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    export()
