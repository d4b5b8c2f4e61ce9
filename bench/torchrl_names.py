"""Names and arguments of TorchRL's own scripts: the list that tests/scripts/test_torchrl_names.py checks.

    python bench/torchrl_names.py CHECKOUT > tests/scripts/torchrl_names.txt

CHECKOUT is one of github.com/pytorch/rl; TorchRL and tensordict must be installed, as only what they have
counts. No script is run or copied: a name is what it imports, an argument what a call gives by keyword, and a
method what is called on something that was made, or came out of a function, in the same script.

A line is a class, a function, or a method, and after the colon the arguments that any script gives it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

_TUTORIALS = (
    *(f"getting-started-{i}" for i in range(6)),
    *("coding_ddpg", "coding_dqn", "coding_ppo", "dqn_with_rnn", "rb_tutorial", "pendulum", "multi_task"),
    *("multiagent_ppo", "multiagent_competitive_ddpg", "pretrained_models", "torchrl_demo", "torchrl_envs"),
    *("collector_trajectory_assembly", "export", "evaluator", "recurrent_sequence_training"),
    *("checkpointing", "memory_efficient_rl"),
)
_SCRIPTS = (
    *("a2c", "cql", "crossq", "ddpg", "discrete_sac", "dqn", "iql", "ppo", "redq", "sac", "td3", "td3_bc"),
    *("multiagent", "multiagent/utils"),
)
_LIBRARIES = ("torchrl", "tensordict")
# Methods that give their object, and what gives TensorDicts.
_SAME = {"append_transform", "clone", "detach", "eval", "expand", "requires_grad_", "select", "to", "train"}
_GIVES_TD = {"fake_tensordict", "next", "rand_step", "reset", "rollout", "sample", "step"}
_TENSORDICT = "tensordict.TensorDict"
Names = dict[str, set[str]]


class _Reader(ast.NodeVisitor):
    """Reads one script.

    Attributes:
        imported: full names by those in the script.
        made: what variables are, by full names of classes; several for a tuple.
        given: what functions of the script return, likewise.
    """

    def __init__(self, found: Names, given: dict[str, Any]) -> None:
        self.found, self.given = found, given
        self.imported: dict[str, str] = {}
        self.made: dict[str, Any] = {}

    def full(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return self.imported.get(node.id)
        base = self.full(node.value) if isinstance(node, ast.Attribute) else None
        return None if base is None else f"{base}.{node.attr}"

    def kind(self, node: ast.AST) -> Any:
        """What an expression is, as far as it is known."""
        if isinstance(node, ast.Tuple):
            return tuple(map(self.kind, node.elts))
        if isinstance(node, ast.Name | ast.Attribute):
            return self.made.get(ast.unparse(node))
        if not isinstance(node, ast.Call):
            return None
        name = self.full(node.func)
        if name is not None:
            return name if name.rpartition(".")[2][:1].isupper() else None
        if isinstance(node.func, ast.Name):
            return self.given.get(node.func.id)
        owner = self.kind(node.func.value) if isinstance(node.func, ast.Attribute) else None
        if not isinstance(owner, str):
            return None
        return owner if node.func.attr in _SAME else _TENSORDICT if node.func.attr in _GIVES_TD else None

    def bind(self, target: ast.AST, kind: Any) -> None:
        if isinstance(target, ast.Tuple):
            kinds = kind if isinstance(kind, tuple) and len(kind) == len(target.elts) else [None] * 99
            for part, one in zip(target.elts, kinds, strict=False):
                self.bind(part, one)
        elif isinstance(target, ast.Name | ast.Attribute):
            self.made[ast.unparse(target)] = kind

    def note(self, name: str | None, arguments: list[str | None]) -> None:
        if name is not None and name.partition(".")[0] in _LIBRARIES:
            self.found[name].update(argument for argument in arguments if argument is not None)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            self.note(f"{node.module}.{alias.name}", [])

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.bind(target, self.kind(node.value))

    def visit_For(self, node: ast.For) -> None:
        kind = self.kind(node.iter)
        if isinstance(kind, str) and kind.endswith(("Collector", "Buffer")):
            self.bind(node.target, _TENSORDICT)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = dict(self.made)
        self.generic_visit(node)
        returned = [
            self.kind(part.value) for part in ast.walk(node) if isinstance(part, ast.Return) and part.value
        ]
        for kind in returned:
            if kind is not None:
                self.given[node.name] = kind
        fields = {name: kind for name, kind in self.made.items() if name.startswith("self.")}
        self.made = before | fields

    def visit_Call(self, node: ast.Call) -> None:
        arguments = [keyword.arg for keyword in node.keywords]
        self.note(self.full(node.func), arguments)
        if self.full(node.func) == "functools.partial" and node.args:
            self.note(self.full(node.args[0]), arguments)
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            owner = self.kind(node.func.value)
            if isinstance(owner, str):
                self.note(f"{owner}.{node.func.attr}", arguments)


def read(checkout: Path) -> Names:
    """Full names in the scripts, and the arguments that they give."""
    found: Names = defaultdict(set)
    tutorials = [[checkout / "tutorials" / "sphinx-tutorials" / f"{name}.py"] for name in _TUTORIALS]
    folders = [sorted((checkout / "sota-implementations" / name).glob("*.py")) for name in _SCRIPTS]
    for files in (*tutorials, *folders):
        given: dict[str, Any] = {}
        for file in sorted(files, key=lambda file: not file.name.startswith("utils")):
            _Reader(found, given).visit(ast.parse(file.read_text(encoding="utf-8")))
    return found


def known(full: str) -> tuple[str, Any] | None:
    """The name without its module, and what the installed library has of that name; None without."""
    parts = full.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return None
            found = getattr(found, part)
        return (".".join(parts[end:]), found) if parts[end:] else None
    return None


def main(checkout: Path) -> None:
    """Print the list."""
    lines: Names = defaultdict(set)
    for full, arguments in read(checkout).items():
        match = known(full)
        if match is not None:
            lines[match[0]].update(arguments)
    for name, arguments in sorted(lines.items()):
        print(f"{name}: {' '.join(sorted(arguments))}".strip())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
