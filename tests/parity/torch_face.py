"""An export behind the calls that the reference's wrapper makes of a model of transformers."""

from typing import Any

import numpy as np
import torch

from lite.models import OnnxDecoder, full_logits


class Result(dict[str, Any]):
    __getattr__ = dict.__getitem__


class TorchFace(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Generates greedily, at most `new_tokens`, until all rows have ended in one of `eos`; and scores."""

    def __init__(
        self, decoder: OnnxDecoder, *, new_tokens: int = 0, eos: tuple[int, ...] = (), pad: int = 0
    ) -> None:
        super().__init__()
        self.decoder, self.new_tokens, self.eos, self.pad = decoder, new_tokens, eos, pad
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def next_logits(self, ids: list[int]) -> np.ndarray:
        return full_logits(self.decoder, [np.array([*ids, 0])])[0][1:]

    def generate(self, input_ids: Any, attention_mask: Any, **_: Any) -> Result:
        rows = [ids[mask.bool()].tolist() for ids, mask in zip(input_ids, attention_mask, strict=True)]
        done = [False] * len(rows)
        tokens, logits = [], []
        while len(tokens) < self.new_tokens and not all(done):
            step = [self.next_logits(row)[-1] for row in rows]
            new = [
                self.pad if over else int(values.argmax()) for values, over in zip(step, done, strict=True)
            ]
            done = [over or token in self.eos for token, over in zip(new, done, strict=True)]
            for row, token in zip(rows, new, strict=True):
                row.append(token)
            tokens.append(torch.tensor(new))
            logits.append(torch.tensor(np.stack(step)))
        return Result(sequences=torch.cat([input_ids, torch.stack(tokens, 1)], 1), logits=tuple(logits))

    def forward(self, ids: Any, mask: Any, **_: Any) -> Result:
        out = torch.zeros(*ids.shape, self.decoder.vocab_size)
        for row, real, values in zip(ids, mask.bool(), out, strict=True):
            values[real] = torch.tensor(self.next_logits(row[real].tolist()))
        return Result(logits=out)
