"""TensorDict beside torch's tensordict and plain NumPy: `python bench/test_tensordict.py`."""

import copy
import math
import pickle
import re
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import common_operations
import numpy as np
import tensordict
import torch
from common_operations import Library
from side_by_side import arguments, heading, machine, measure, place, repeated, show

import lite

KEYS = "abcde"
ROUND_SECONDS = 2e-3


FLAT = "five leaves"
FURTHER = "further operations"
COMMON = "tensordict's own benchmark"
Cases = dict[str, tuple[Callable[[Any], Any], Callable[[dict[str, Any]], Any] | None]]


def flat_cases() -> Cases:
    """Name -> (the operation on one library's objects `w`, the same on a plain dict of arrays).

    What the specification has reference times of.
    """
    rows = np.array([1, 5, 9, 3, 2, 8, 30, 11])
    return {
        "construct, 5 arrays": (lambda w: w.lib.TensorDict(w.data, [32]), lambda d: dict(d)),
        "construct, 3 deep": (lambda w: w.lib.TensorDict({"n": {"x": {"y": w.data["a"]}}}, [32]), None),
        "construct, with a string": (lambda w: w.lib.TensorDict({**w.data, "s": "text"}, [32]), None),
        "td.get('a')": (lambda w: w.td.get("a"), lambda d: d["a"]),
        "td['a']": (lambda w: w.td["a"], lambda d: d["a"]),
        "td['n', 'x', 'y']": (lambda w: w.deep["n", "x", "y"], None),
        "set('a', v)": (lambda w: w.td.set("a", w.data["a"]), None),
        "set_('a', v)": (lambda w: w.td.set_("a", w.data["a"]), None),
        "list(keys(True, True))": (lambda w: list(w.deep.keys(True, True)), None),
        "td[0]": (lambda w: w.td[0], lambda d: {k: v[0] for k, v in d.items()}),
        "td[2:10]": (lambda w: w.td[2:10], lambda d: {k: v[2:10] for k, v in d.items()}),
        "nested td[0]": (lambda w: w.nested[0], None),
        "td[8 rows]": (lambda w: w.td[w.rows], lambda d: {k: v[rows] for k, v in d.items()}),
        "td[mask]": (lambda w: w.td[w.mask], None),
        "td[0] = td": (lambda w: w.td.__setitem__(0, w.row), None),
        "unsqueeze": (lambda w: w.td.unsqueeze(1), lambda d: {k: v[:, None] for k, v in d.items()}),
        "reshape": (lambda w: w.td.reshape(4, 8), lambda d: {k: v.reshape(4, 8, 4) for k, v in d.items()}),
        "transpose": (lambda w: w.wide.transpose(0, 1), None),
        "expand": (lambda w: w.td.expand(3, 32), None),
        "split(8)": (lambda w: w.td.split(8), None),
        "unbind(0)": (lambda w: w.td.unbind(0), lambda d: [list(v) for v in d.values()]),
        "gather": (lambda w: w.td.gather(0, w.rows), None),
        "td + td": (lambda w: w.td + w.td, lambda d: {k: v + v for k, v in d.items()}),
        "td + 1": (lambda w: w.td + 1, lambda d: {k: v + 1 for k, v in d.items()}),
        "nested + nested": (lambda w: w.nested + w.nested, None),
        "td == td": (lambda w: w.td == w.td, lambda d: {k: v == v for k, v in d.items()}),
        "exp": (lambda w: w.td.exp(), lambda d: {k: np.exp(v) for k, v in d.items()}),
        "add_(1)": (lambda w: w.sink.add_(0), lambda d: [np.add(v, 0, out=v) for v in d.values()]),
        "apply(x + 1)": (lambda w: w.td.apply(lambda x: x + 1), lambda d: {k: v + 1 for k, v in d.items()}),
        "named_apply": (lambda w: w.td.named_apply(lambda k, x: x), None),
        "clone": (lambda w: w.td.clone(), lambda d: {k: v.copy() for k, v in d.items()}),
        "copy": (lambda w: w.td.copy(), lambda d: dict(d)),
        "to_dict": (lambda w: w.td.to_dict(), lambda d: dict(d)),
        "tolist, 32 rows": (lambda w: w.td.tolist(), None),
        "select(2)": (lambda w: w.td.select("a", "c"), None),
        "exclude(2)": (lambda w: w.td.exclude("a", "c"), None),
        "flatten_keys": (lambda w: w.nested.flatten_keys(), None),
        "update(5)": (lambda w: w.sink.update(w.data), None),
        "update_(5)": (lambda w: w.sink.update_(w.td), None),
        "zeros_like": (lambda w: w.zeros_like(w.td), lambda d: {k: np.zeros_like(v) for k, v in d.items()}),
        "where": (lambda w: w.td.where(w.mask, 0), None),
        "float64": (lambda w: w.td.double(), lambda d: {k: v.astype(np.float64) for k, v in d.items()}),
        "lock_().unlock_()": (lambda w: w.sink.lock_().unlock_(), None),
        "empty()": (lambda w: w.td.empty(), None),
        "repr": (lambda w: repr(w.td), None),
        "pickle round trip": (lambda w: round_trip(w.td), round_trip),
        "stack of 100": (lambda w: w.stack(w.hundred), None),
        "lazy stack of 100": (lambda w: w.lib.lazy_stack(w.hundred), None),
        "cat of 100": (lambda w: w.cat(w.hundred), None),
        "construct, no batch": (lambda w: w.lib.TensorDict(w.data), None),
        "construct, 5 NumPy arrays": (lambda w: w.lib.TensorDict(w.numpy, [32]), None),
        "construct, 5 scalars": (lambda w: w.lib.TensorDict(w.scalars), None),
        "construct, device='cpu'": (lambda w: w.lib.TensorDict(w.data, [32], device="cpu"), None),
        "set('a', NumPy array)": (lambda w: w.sink.set("a", w.numpy["a"]), None),
        "set('s', text)": (lambda w: w.noted.set("s", "text"), None),
        "stack of 100, with a string": (lambda w: w.stack(w.hundred_noted), None),
        "td + td, locked": (lambda w: w.locked + w.locked, None),
        "nested apply(x + 1)": (lambda w: w.nested.apply(lambda x: x + 1), None),
        "unbind(0), with a string": (lambda w: w.noted.unbind(0), None),
        "nested to_dict": (lambda w: w.nested.to_dict(), None),
        "numpy()": (lambda w: w.td.numpy(), None),
        "pad": (lambda w: w.lib.pad(w.td, [1, 1]), None),
    }


def further_cases() -> Cases:
    """The same on nested and batched objects, and what else programs do all day."""
    return {
        "construct, empty": (lambda w: w.lib.TensorDict({}, [32]), None),
        "set(nested, v)": (lambda w: w.deep.set(("n", "x", "y"), w.data["a"]), None),
        "set(new nested, v)": (lambda w: w.td.empty().set(("n", "x", "y"), w.data["a"]), None),
        "set_(nested, v)": (lambda w: w.deep_sink.set_(("n", "x", "y"), w.data["a"]), None),
        "items(True, True)": (lambda w: list(w.deep.items(True, True)), None),
        "values(True, True)": (lambda w: list(w.deep.values(True, True)), None),
        "'a' in td": (lambda w: "a" in w.td, lambda d: "a" in d),
        "nested in keys(True)": (lambda w: ("n", "x", "y") in w.deep.keys(True), None),
        "td[1, 2]": (lambda w: w.wide[1, 2], lambda d: {k: v[1, 2] for k, v in d.items()}),
        "td[list]": (lambda w: w.td[[1, 5, 9, 3]], None),
        "td[range]": (lambda w: w.td[range(8)], None),
        "td[2:10] = td": (lambda w: w.td.__setitem__(slice(2, 10), w.part), None),
        "view": (lambda w: w.td.view(4, 8), lambda d: {k: v.reshape(4, 8, 4) for k, v in d.items()}),
        "permute": (lambda w: w.wide.permute(1, 0), None),
        "squeeze": (lambda w: w.column.squeeze(1), None),
        "chunk(4)": (lambda w: w.td.chunk(4), None),
        "nested update": (lambda w: w.deep_sink.update(w.deep), None),
        "nested update_": (lambda w: w.deep_sink.update_(w.deep), None),
        "two renames": (lambda w: w.sink.rename_key_("a", "z").rename_key_("z", "a"), None),
        "nested select": (lambda w: w.deep.select(("n", "x", "y")), None),
        "nested exclude": (lambda w: w.deep.exclude(("n", "x", "y")), None),
        "unflatten_keys": (lambda w: w.flattened.unflatten_keys("."), None),
        "empty(recurse=True)": (lambda w: w.deep.empty(recurse=True), None),
        "nested lock_().unlock_()": (lambda w: w.deep_sink.lock_().unlock_(), None),
        "nested copy": (lambda w: w.nested.copy(), None),
        "to('cpu')": (lambda w: w.td.to("cpu"), None),
        "is_empty": (lambda w: w.td.is_empty(), lambda d: not d),
        "sum()": (lambda w: w.td.sum(), lambda d: {k: v.sum() for k, v in d.items()}),
        "sum(dim=0)": (lambda w: w.td.sum(dim=0), lambda d: {k: v.sum(0) for k, v in d.items()}),
        "lazy.get('a'), of 100": (lambda w: w.lazy.get("a"), None),
        "lazy[0]": (lambda w: w.lazy[0], None),
    }


def round_trip(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class World:
    """The objects that the operations need, in one library."""

    def __init__(self, lib: Any, leaf: Callable[[Any], Any], stack: Any, cat: Any, zeros_like: Any) -> None:
        self.lib, self.stack, self.cat, self.zeros_like = lib, stack, cat, zeros_like
        self.data = {key: leaf(np.ones((32, 4), np.float32)) for key in KEYS}
        self.td = lib.TensorDict(self.data, [32])
        self.sink = self.td.clone()
        self.deep = lib.TensorDict({"n": {"x": {"y": self.data["a"]}}, "b": self.data["b"]}, [32])
        self.nested = lib.TensorDict(
            {"a": self.data["a"], "n": {"b": self.data["b"], "m": {"c": self.data["c"]}}}, [32]
        )
        self.wide = lib.TensorDict({key: leaf(np.ones((8, 4, 4), np.float32)) for key in KEYS}, [8, 4])
        self.rows = leaf(np.array([1, 5, 9, 3, 2, 8, 30, 11]))
        self.mask = leaf(np.arange(32) % 3 == 0)
        self.row = self.td[0].clone()
        self.part = self.td[2:10].clone()
        self.deep_sink = self.deep.clone()
        self.column = self.td.unsqueeze(1)
        self.flattened = self.nested.flatten_keys(".")
        self.numpy = {key: np.ones((32, 4), np.float32) for key in KEYS}
        self.scalars = {key: float(i) for i, key in enumerate(KEYS)}
        self.noted = self.td.clone().set("s", "text")
        self.locked = self.td.clone().lock_()
        self.hundred_noted = [self.td.clone().set("s", "text") for _ in range(100)]
        self.hundred = [copy.deepcopy(self.td) for _ in range(100)]
        self.lazy = lib.lazy_stack(self.hundred)


def calls_per_round(call: Callable[[], Any]) -> int:
    """So many that a round of lite lasts two milliseconds: after a change of libraries caches are cold."""
    repeated(call, 3)()
    start = time.perf_counter()
    repeated(call, 3)()
    return max(1, round(3 * ROUND_SECONDS / (time.perf_counter() - start)))


def alternatives(wanted: re.Pattern[str]) -> Iterator[tuple[str, str, dict[str, Callable[[], Any]]]]:
    """(group, operation, the calls to time), made one after the other."""
    ours = World(lite, lambda x: x, lite.stack, lite.cat, lite.zeros_like)
    theirs = World(tensordict, torch.from_numpy, torch.stack, torch.cat, torch.zeros_like)
    plain = {key: value.copy() for key, value in ours.data.items()}
    for group, cases in ((FLAT, flat_cases()), (FURTHER, further_cases())):
        for name, (operation, floor) in cases.items():
            if wanted.search(name):
                calls = {"lite": partial(operation, ours), "tensordict": partial(operation, theirs)}
                yield group, name, calls if floor is None else calls | {"floor": partial(floor, plain)}
    libraries = {
        "lite": Library(lite, lambda x: x, lite.stack, lite.cat),
        "tensordict": Library(tensordict, torch.from_numpy, torch.stack, torch.cat),
    }
    for name, prepare in common_operations.cases().items():
        if wanted.search(name):
            yield COMMON, name, {side: prepare(library) for side, library in libraries.items()}


def main() -> None:
    parser = arguments(__doc__, rounds=31)
    parser.add_argument("--only", metavar="PATTERN", help="time the operations whose name matches")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of the other library
    torch.set_num_threads(1)
    about = machine(torch, tensordict) | {"threads_torch": 1}
    table = []
    for group, name, calls in alternatives(re.compile(asked.only or "")):
        times = calls_per_round(calls["lite"])
        result = measure(calls, asked.rounds, pause=0, times=times)  # one thread each
        line: dict[str, Any] = {"group": group, "case": name}
        for side, taken in result.items():
            line[f"{side}_us"] = 1e3 * taken["median_ms"]
            line[f"{side}_min_us"] = 1e3 * taken["min_ms"]
        line["ratio"] = line["tensordict_us"] / line["lite_us"]
        line["over_floor"] = line["lite_us"] / line["floor_us"] if "floor" in calls else None
        table.append(line)
    if not table:
        parser.error(f"--only {asked.only!r} matches no operation")
    write(table, about, place(asked, part=asked.only is not None))


def geometric_mean(lines: list[dict[str, Any]], group: str | None = None) -> float:
    ratios = [line["ratio"] for line in lines if group in (None, line["group"])]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def write(table: list[dict[str, Any]], about: dict[str, Any], folder: Path | None) -> None:
    mean = geometric_mean(table)
    lines = [
        *heading("TensorDict", about),
        "Five float32 leaves (32, 4), batch [32], unless the name says otherwise.",
        "Medians of interleaved rounds in one process, in microseconds; minima in brackets.",
        "The floor is the same on a plain dict of NumPy arrays.",
        "",
        (
            f"Geometric mean of {len(table)} operations: {mean:.3g} times faster; "
            f"lowest: {min(line['ratio'] for line in table):.3g}."
        ),
    ]
    for group in dict.fromkeys(line["group"] for line in table):
        lines += [
            "",
            f"## {group[0].upper()}{group[1:]}: {geometric_mean(table, group):.3g} times faster",
            "",
            "| operation | lite | tensordict | floor | times faster | times the floor |",
            "|---|--:|--:|--:|--:|--:|",
        ]
        lines += [table_row(line) for line in table if line["group"] == group]
    show(folder, "tensordict", lines, {"about": about, "geometric_mean": mean, "rows": table})


def table_row(line: dict[str, Any]) -> str:
    floor = f"{line['floor_us']:.3g}" if line["over_floor"] is not None else ""
    over = f"{line['over_floor']:.2g}" if line["over_floor"] is not None else ""
    return (
        f"| {line['case']} | {line['lite_us']:.3g} ({line['lite_min_us']:.3g}) "
        f"| {line['tensordict_us']:.3g} ({line['tensordict_min_us']:.3g}) | {floor} "
        f"| {line['ratio']:.3g} | {over} |"
    )


if __name__ == "__main__":
    main()
