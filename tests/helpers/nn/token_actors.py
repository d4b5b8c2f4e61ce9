"""Small language models that score: each token by the one before it."""

from typing import Any

import numpy as np

from lite import TensorDict, lazy_stack, nn

WORDS = 7
ROWS = [[1, 2, 3, 4], [5, 6, 1], [2, 2, 4, 5, 6, 1]]
PROMPTS = [2, 1, 3]  # tokens of each row that are its prompt


class Scorer(nn.TensorDictModuleBase):
    """Writes ("log_probs", "full"), in the batch's layout ("same"), padded on the "left", or "ragged"."""

    def __init__(self, layout: str = "same", dtype: Any = np.float64) -> None:
        super().__init__()
        self.table = nn.Parameter(np.random.default_rng(0).normal(size=(WORDS, WORDS)).astype(dtype))
        self.layout = layout
        self.in_keys = [("tokens", "full")]
        self.out_keys = [("tokens", "full"), ("log_probs", "full")]

    def of_row(self, ids: Any) -> Any:
        """The log-probs of ids (L,); 0 for the first."""
        shares = nn.functional.log_softmax(self._tensor("table"), -1)[ids[:-1], ids[1:]]
        return np.concatenate([shares[:1] * 0, shares])

    def forward(self, td: Any) -> Any:
        given = td.get(("tokens", "full"), as_list=True)
        masks = td.get(("masks", "all_attention_mask"), None, as_list=True)
        masks = [np.ones(len(row), bool) for row in given] if masks is None else masks
        ids = [row[mask] for row, mask in zip(given, masks, strict=True)]
        scores = [self.of_row(row) for row in ids]
        if self.layout == "ragged":
            tokens, log_probs = ([TensorDict(full=row) for row in rows] for rows in (ids, scores))
            pairs = zip(tokens, log_probs, strict=True)
            return lazy_stack([TensorDict(tokens=one, log_probs=other) for one, other in pairs])
        if self.layout == "left":
            masks = list(padded([np.ones(len(row), bool) for row in ids], None, "left"))
        rows = []
        for mask, values in zip(masks, scores, strict=True):
            before, after = (np.zeros(count) for count in (mask.argmax(), mask[::-1].argmax()))
            rows.append(np.concatenate([before, values, after]))
        out = td.empty()
        out.set("log_probs", TensorDict(full=np.stack(rows), batch_size=td.batch_size))
        out.set("masks", TensorDict(all_attention_mask=np.stack(masks), batch_size=td.batch_size))
        return out


LAYOUTS = ["ragged", "left", "generated"]


def batch(layout: str, response_only: bool = False, **entries: Any) -> TensorDict:
    """The rows with log-probs "log_probs" that another model gave them, padded in one of the layouts.

    Args:
        layout: "ragged"; "left", padded on the left; "generated", prompts on the left and responses on the
            right, as they are generated.
        response_only: log-probs of responses alone.
        **entries: lists of a number, or an array of the row's length, for each row.
    """
    rng = np.random.default_rng(1)
    rows = []
    for ids, start in zip(ROWS, PROMPTS, strict=True):
        before = -rng.random(len(ids))
        before[0] = 0
        tokens = TensorDict(full=np.array(ids), prompt=np.array(ids[:start]), response=np.array(ids[start:]))
        log_probs = TensorDict(response=before[start:]) if response_only else TensorDict(full=before)
        said = np.arange(len(ids)) >= start
        masks = TensorDict(all_attention_mask=np.ones(len(ids), bool), all_assistant_mask=said)
        rows.append(TensorDict(tokens=tokens, log_probs=log_probs, masks=masks))
    for name, values in entries.items():
        for row, value in zip(rows, values, strict=True):
            row.set(name, np.asarray(value))
    td = lazy_stack(rows)
    if layout == "ragged":
        return td
    out = TensorDict(batch_size=[len(rows)])
    width = [max(PROMPTS), max(len(ids) - start for ids, start in zip(ROWS, PROMPTS, strict=True))]
    for key in rows[0].keys(True, True):
        values = [row[key] for row in rows]
        if not values[0].ndim:
            out.set(key, np.stack(values))
            continue
        sides = {"prompt": "left", "response": "right" if layout == "generated" else "left"}
        side = sides.get(key[-1]) if isinstance(key, tuple) else None
        if side or layout == "left":
            out.set(key, padded(values, None, side or "left"))
            continue
        parts = zip(values, PROMPTS, strict=True)
        prompts, responses = zip(*[(value[:start], value[start:]) for value, start in parts], strict=True)
        out.set(
            key, np.concatenate([padded(prompts, width[0], "left"), padded(responses, width[1], "right")], 1)
        )
    return out


def padded(rows: Any, width: int | None, side: str) -> Any:
    """Rows below each other, with 0 or False on one side."""
    width = width or max(map(len, rows))
    pads = [(width - len(row), 0) if side == "left" else (0, width - len(row)) for row in rows]
    return np.stack([np.pad(row, pad) for row, pad in zip(rows, pads, strict=True)])


def responses() -> Any:
    """Which tokens are of responses, in the left layout."""
    lengths = np.array([[len(ids) - start] for ids, start in zip(ROWS, PROMPTS, strict=True)])
    return np.arange(max(map(len, ROWS)))[::-1] < lengths
