"""A readable view of a traced function."""

from __future__ import annotations

from collections import Counter

from lite._transforms.graphs.trace import Traced


class GraphView:
    """The graph of a function: its inputs, operators and outputs.

    `print(view)` shows it as text, a notebook as a table.

    Args:
        traced: the graph.
        name: name of the function.
    """

    def __init__(self, traced: Traced, name: str) -> None:
        self._traced = traced
        self.name = name

    @property
    def operators(self) -> dict[str, int]:
        """How often each operator is in the graph."""
        return dict(Counter(node.op for node in self._traced.nodes))

    def _rows(self) -> list[tuple[str, str, str]]:
        """(result, operator, what it reads)."""
        rows = [(x.name, "input", _form(x.dtype.name, x.shape)) for x in self._traced.inputs]
        rows += [
            (key, "constant", _form(array.dtype.name, array.shape))
            for key, array in self._traced.arrays.items()
        ]
        for node in self._traced.nodes:
            about = "".join(f" {key}={value}" for key, value in node.attributes.items())
            rows.append((", ".join(node.outputs), node.op + about, ", ".join(node.reads)))
        rows += [(key, "output", _form(dtype.name, shape)) for key, shape, dtype in self._traced.outputs]
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        lines = [f"{name:<{widths[0]}}  {op:<{widths[1]}}  {rest}".rstrip() for name, op, rest in rows]
        count = len(self._traced.nodes)
        return "\n".join([f"{self.name}: {count} operators", *lines])

    def __repr__(self) -> str:
        most = sorted(self.operators.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{op} {count}" for op, count in most[:6])
        return f"GraphView({self.name}: {len(self._traced.nodes)} operators: {shown})"

    def to_html(self) -> str:
        """A table of the graph, without scripts."""
        from html import escape  # with its entities, a millisecond of a program's first call

        head = "<tr><th>result</th><th>operator</th><th>reads</th></tr>"
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        title = f"{escape(self.name)}: {len(self._traced.nodes)} operators"
        return f"<table><caption>{title}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def _repr_html_(self) -> str:
        return self.to_html()


def _form(dtype: str, shape: tuple[int | str | None, ...]) -> str:
    return f"{dtype}[{', '.join('?' if n is None else str(n) for n in shape)}]"
