"""A graph as text and as a table."""

import numpy as np

import lite


def test_text_and_table() -> None:
    def scaled(x: np.ndarray) -> np.ndarray:
        return np.tanh(x) * 3

    view = lite.jit(scaled).graph(np.ones((4, 2), np.float32))
    assert repr(view) == "GraphView(scaled: 2 operators: Tanh 1, Mul 1)"
    text = str(view)
    assert text.splitlines()[0] == "scaled: 2 operators"
    assert "float32[n1, 2]" in text
    assert ["Tanh_1", "Tanh", "input_0"] in [line.split() for line in text.splitlines()]
    html = view.to_html()
    assert html.count("<tr>") == 1 + len(text.splitlines()) - 1
    assert "<script" not in view.to_html()
    view.name = "<b>"
    assert "&lt;b&gt;" in view._repr_html_()
