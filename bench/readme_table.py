"""The table "Measured" of the top README, from results/: `python bench/readme_table.py` [--write].

Every number in it is a ratio of medians that a benchmark has written down, rounded to two digits.
"""

import argparse
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
HEAD = "| what | times faster | table |\n|---|---|---|\n"
# The braces hold what `numbers` has under that name.
LINES = """\
| TensorDict beside tensordict 0.15.3 | {td}, the mean of {operations} operations; {flat} with five leaves; \
keys of 100 entries {keys} | [tensordict](bench/results/tensordict.md) |
| files beside tensordict | {files} | [files](bench/results/files.md) |
| calls of modules, dispatch, `to_module` beside tensordict.nn 0.15.3 | {calls}; {dispatch}; {to_module}; \
sampled modules {sampled} | [modules](bench/results/nn.json) |
| layers beside torch, on one thread | {strided} (strided convolutions) to {pooling} (pooling); linear \
layers {linear} | [layers](bench/results/layers.md) |
| `vmap` of 64 small networks beside a loop, products by hand, torch.vmap | {narrow} at width 4; {wide} at \
width 128 | [vmap](bench/results/vmap.md) |
| gradients of an MLP, a GRU, 64 critics; Adam, beside torch | {mlp}; {gru}; {critics}; {adam} \
| [grad](bench/results/grad.md) |
| `multistep_return` and `MultiStep`; advantages and returns, beside TorchRL | {multistep}; {returns} \
| [kernels](bench/results/kernels.md) |
| log-probs, with entropy, sampling, beside torch and Hugging Face | {log_probs}, {entropy}, {sampling} \
| the same |
| generation (135 million parameters) beside onnxruntime-genai; scoring beside transformers | {greedy} \
greedy, {drawn} sampled with log-probs, {samples} for 8 samples of 8 prompts; {scoring} \
| [llm](bench/results/llm.md) |
| collectors' overhead; buffers: writing, drawing, slices; GAE, beside TorchRL | {collectors}; {writing}, \
{drawing}, {slices}; {gae} | [data](bench/results/data.md) |
"""


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of results/`name`.json."""
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return found


def ratios(name: str, cases: str, against: str = "", column: str = "case") -> list[float]:
    """How many times faster lite is in the cases whose names match, beside the alternatives that match.

    Raises:
        LookupError: no row matches, or one of them was not measured.
    """
    found = [
        float(row["ratio"])
        for row in rows(name)
        if re.search(cases, row[column]) and re.search(against, row.get("against", ""))
    ]
    measured = [ratio for ratio in found if not math.isnan(ratio)]
    if not measured:
        raise LookupError(f"results/{name}.json has no row of {cases!r} beside {against!r}")
    return measured


def number(value: float) -> str:
    """Two digits: 0.56, 3.1, 43, 340.

    Example:
        >>> [number(x) for x in (0.559, 3.148, 42.6, 3991.0)]
        ['0.56', '3.1', '43', '4000']
    """
    return f"{value:.2g}" if value < 99.5 else f"{round(value, 1 - math.floor(math.log10(value))):.0f}"


def span(values: Iterable[float]) -> str:
    """The least and the greatest: "1.4 to 4.3"."""
    found = list(values)
    ends = list(dict.fromkeys([number(min(found)), number(max(found))]))
    return " to ".join(ends)


def mean(values: list[float]) -> str:
    """The geometric mean."""
    return number(math.exp(sum(map(math.log, values)) / len(values)))


def numbers() -> dict[str, str]:
    """What stands in the table, by name."""
    every, flat = ratios("tensordict", ""), ratios("tensordict", "^five leaves$", column="group")
    layers = ratios("layers", "", "^torch$")
    found = {
        "strided": span(ratios("layers", "stride=")),
        "pooling": span(ratios("layers", "^MaxPool")),
        "linear": span(ratios("layers", "^Linear")),
    }
    if [found["strided"], found["pooling"]] != [number(min(layers)), number(max(layers))]:
        raise ValueError("strided convolutions and pooling are no longer the ends of results/layers.json")
    for name, width in (("narrow", 4), ("wide", 128)):
        case, sides = f"^ReLU, batch 256, width {width}$", ("^loop over modules$", "^by hand$", "to_module$")
        found[name] = ", ".join(span(ratios("vmap", case, side)) for side in sides)
    estimators = "^(gae|td_lambda_return|vtrace|reward_to_go)"
    return found | {
        "td": mean(every),
        "operations": str(len(every)),
        "flat": mean(flat),
        "keys": span(ratios("tensordict", "^keys of 100$")),
        "files": span(ratios("files", "^(?!mapped)")),  # reads of mapped files are TensorDict's own
        "calls": span(ratios("nn", "^identity|^3")),
        "dispatch": span(ratios("nn", "^dispatch")),
        "to_module": span(ratios("nn", "to_module|params locked|plain arrays")),
        "sampled": span(ratios("nn", "drawn and scored")),
        "mlp": span(ratios("grad", "^MLP", "^torch$")),
        "gru": span(ratios("grad", "^GRU", "^torch$")),
        "critics": span(ratios("grad", "critics", "^torch$")),
        "adam": span(ratios("grad", "^Adam, 20 leaves", "^torch, foreach$")),
        "multistep": span(ratios("kernels", "^(multistep_return|MultiStep)")),
        "returns": span(ratios("kernels", estimators)),
        "log_probs": span(ratios("kernels", "^token_log_probs ", "torch log_softmax")),
        "entropy": span(ratios("kernels", "^token_log_probs_and_entropy", "torch log_softmax")),
        "sampling": span(ratios("kernels", "^sample_tokens")),
        "greedy": span(ratios("llm", "^greedy", "^onnxruntime-genai$")),
        "drawn": span(ratios("llm", "with log-probs", "onnxruntime-genai")),
        "samples": span(ratios("llm", "^8 prompts of 256 x 8", "^onnxruntime-genai$")),
        "scoring": span(ratios("llm", "^score", "^transformers")),
        "collectors": span(ratios("data", "^above the bare loop")),
        "writing": span(ratios("data", "^extend")),
        "drawing": span(ratios("data", "^sample 256")),
        "slices": span(ratios("data", "^(Prioritized)?SliceSampler")),
        "gae": span(ratios("data", "^GAE")),
    }


def table() -> str:
    """The table, each line of which ends with a line break."""
    return HEAD + LINES.format(**numbers())


def replaced(readme: str) -> str:
    """A README with the table in the place of the one that it has."""
    at = readme.index(HEAD)
    end = readme.index("\n\n", at) + 1
    return readme[:at] + table() + readme[end:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    if not parser.parse_args().write:
        print(table(), end="")
        return
    file = ROOT / "README.md"
    file.write_text(replaced(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
