"""The table "Measured" of the top README, from results/: `python bench/readme_table.py` [--write].

Every number in it is a ratio of medians that a benchmark has written down, rounded to two digits. `claims`
puts what another folder of results has beside them.
"""

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
DASH = "-"
HEAD = "| what | times faster | table |\n|---|---|---|\n"
# The braces hold what `numbers` has under that name.
LINES = """\
| TensorDict beside tensordict 0.15.3 | {td}, the geometric mean of {operations} operations; {flat} with \
five leaves; keys of 100 entries {keys} | [tensordict](bench/results/tensordict.md) |
| files beside tensordict | {files} | [files](bench/results/files.md) |
| calls of modules, dispatch, `to_module` beside tensordict.nn 0.15.3 | {calls}; {dispatch}; {to_module}; \
sampled modules {sampled} | [modules](bench/results/nn.md) |
| layers beside torch, on one thread | {strided} (strided convolutions) to {pooling} (pooling); linear \
layers {linear} | [layers](bench/results/layers.md) |
| gradients of an MLP, a GRU, 64 critics; Adam, beside torch | {mlp} (JAX: {jax_mlp}); {gru}; \
{critics}; {adam} | [grad](bench/results/grad.md) |
| steps by `lite.jit` beside torch's and TorchRL's | {steps}; by torch.compile {compiled} \
(JAX: {jax_steps}) | [jit](bench/results/jit.md) |
| `multistep_return` and `MultiStep`; advantages and returns, beside TorchRL | {multistep}; {returns} \
| [kernels](bench/results/kernels.md) |
| log-probs, with entropy, sampling, beside torch and Hugging Face | {log_probs}, {entropy}, {sampling} \
| the same |
| generation (135 million parameters) beside onnxruntime-genai; scoring beside transformers | {greedy} \
greedy, {drawn} sampled with log-probs, {samples} for 8 samples of 8 prompts; {scoring} \
| [llm](bench/results/llm.md) |
| collectors' overhead; buffers: writing, drawing, slices, beside TorchRL | {collectors}; {writing}, \
{drawing}, {slices} | [data](bench/results/data.md) |
"""


def rows(name: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The rows of `name`.json in a folder of results."""
    found: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return found


def about(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What the figures of `name`.json depend on."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["about"]
    return found


def ratios(
    name: str,
    cases: str,
    against: str = "",
    column: str = "case",
    folder: Path = RESULTS,
    but: str = "(?!)",
) -> list[float]:
    """How many times faster lite is in the cases whose names match, beside the alternatives that match.

    Cases whose names match `but` are left out.

    Raises:
        LookupError: no row matches, or none of them was measured.
        FileNotFoundError: there are no such results.
    """
    measured = [
        row.get("ratio", math.nan)
        for row in rows(name, folder)
        if re.search(cases, str(row.get(column, "")))
        and re.search(against, str(row.get("against", "")))
        and not re.search(but, str(row.get("case", "")))
    ]
    measured = [ratio for ratio in measured if ratio > 0]  # NaN where something was not measured
    if not measured:
        raise LookupError(f"{name}.json has no row of {cases!r} beside {against!r}")
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


Ratios = Callable[..., list[float]]
_CONVERTS = (
    "NumPy array|^numpy"  # lite's leaves, which tensordict has to make tensors of, or these of tensors
)
_ESTIMATORS = "^(gae|td_lambda_return|vtrace|reward_to_go)"


# What stands in the braces of LINES: whose results it is of, and how it comes from their ratios.
FORMULAS: dict[str, tuple[str, Callable[[Ratios], str]]] = {
    "td": ("tensordict", lambda of: mean(of("", but=_CONVERTS))),
    "operations": ("tensordict", lambda of: str(len(of("", but=_CONVERTS)))),
    "flat": ("tensordict", lambda of: mean(of("^five leaves$", column="group", but=_CONVERTS))),
    "keys": ("tensordict", lambda of: span(of("^keys of 100$"))),
    "steps": ("jit", lambda of: span(of("", "^(torch|torchrl)(, fused Adam)?$"))),
    "compiled": ("jit", lambda of: span(of("", "torch.compile$"))),
    "jax_steps": ("jit", lambda of: span(of("^MLP", "^JAX"))),
    "files": ("files", lambda of: span(of("^(?!mapped)"))),  # reads of mapped files are TensorDict's own
    "calls": ("nn", lambda of: span(of("^identity|^3"))),
    "dispatch": ("nn", lambda of: span(of("^dispatch"))),
    "to_module": ("nn", lambda of: span(of("to_module|params locked|plain arrays"))),
    "sampled": ("nn", lambda of: span(of("drawn and scored"))),
    "strided": ("layers", lambda of: span(of("stride="))),
    "pooling": ("layers", lambda of: span(of("^MaxPool"))),
    "linear": ("layers", lambda of: span(of("^Linear"))),
    "mlp": ("grad", lambda of: span(of("^MLP", "^torch$"))),
    "jax_mlp": ("grad", lambda of: span(of("^MLP", "^JAX"))),
    "gru": ("grad", lambda of: span(of("^GRU", "^torch$"))),
    "critics": ("grad", lambda of: span(of("critics", "^torch$"))),
    "adam": ("grad", lambda of: span(of("^Adam", "^torch"))),
    "multistep": ("kernels", lambda of: span(of("^(multistep_return|MultiStep)"))),
    "returns": ("kernels", lambda of: span(of(_ESTIMATORS))),
    "log_probs": ("kernels", lambda of: span(of("^token_log_probs ", "torch log_softmax"))),
    "entropy": ("kernels", lambda of: span(of("^token_log_probs_and_entropy", "torch log_softmax"))),
    "sampling": ("kernels", lambda of: span(of("^sample_tokens"))),
    "greedy": ("llm", lambda of: span(of("^greedy", "^onnxruntime-genai$"))),
    "drawn": ("llm", lambda of: span(of("with log-probs", "onnxruntime-genai"))),
    "samples": ("llm", lambda of: span(of("^8 prompts of 256 x 8", "^onnxruntime-genai$"))),
    "scoring": ("llm", lambda of: span(of("^score", "^transformers"))),
    "collectors": ("data", lambda of: span(of("^above the bare loop"))),
    "writing": ("data", lambda of: span(of("^extend"))),
    "drawing": ("data", lambda of: span(of("^sample 256"))),
    "slices": ("data", lambda of: span(of("^(Prioritized)?SliceSampler"))),
}
SOURCES = frozenset(source for source, _ in FORMULAS.values())


def evaluated(name: str, folder: Path) -> str:
    """What stands in one pair of braces, by the results in a folder; errors are those of `ratios`."""
    source, formula = FORMULAS[name]
    return formula(partial(ratios, source, folder=folder))


def numbers() -> dict[str, str]:
    """What stands in the table, by name."""
    found = {name: evaluated(name, RESULTS) for name in FORMULAS}
    layers = ratios("layers", "", "^torch$")
    if [found["strided"], found["pooling"]] != [number(min(layers)), number(max(layers))]:
        raise ValueError("strided convolutions and pooling are no longer the ends of results/layers.json")
    return found


@dataclass(frozen=True)
class Claim:
    """A line of the table, and the same by other results.

    Attributes:
        what: is compared.
        source: the name of the results.
        claimed: the figures of the table.
        here: those of the other results; a dash stands for what they lack. None without any.
    """

    what: str
    source: str
    claimed: str
    here: str | None = None


def claims(folder: Path) -> list[Claim]:
    """Every line of the table beside the results in a folder."""
    own, found = numbers(), []
    for line in LINES.splitlines():
        names = re.findall(r"\{(\w+)\}", line)
        (source,) = {FORMULAS[name][0] for name in names}
        what, figures, _ = line.strip("| ").split(" | ")
        claim = Claim(what.replace("`", ""), source, figures.format(**own))
        if (folder / f"{source}.json").is_file():
            claim = replace(claim, here=figures.format(**{name: _or_dash(name, folder) for name in names}))
        found.append(claim)
    return found


def _or_dash(name: str, folder: Path) -> str:
    try:
        return evaluated(name, folder)
    except LookupError:
        return DASH


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
