"""The pictures of the site, of what calls give: `python .site/pictures.py FOLDER` writes them as SVG.

Each function draws one. Its numbers come from a call, so that a picture cannot say what is not so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from svg import BLUE, GREEN, GREY, ORANGE, RED, Drawing, ticks

from lite import TensorDict, jit, value_and_grad
from lite.data import MultiStep
from lite.kernels import reward_to_go


def tensordict() -> str:
    """Entries side by side, the rows that they share, and what an index takes of all of them."""
    td = TensorDict(
        {
            "obs": np.zeros((4, 3), np.float32),
            "next": {
                "obs": np.zeros((4, 3), np.float32),
                "reward": np.ones((4, 1)),
                "done": np.zeros((4, 1), bool),
            },
            "env": ["maze 0", "maze 1", "maze 2", "maze 3"],
        },
        batch_size=[4],
    )
    cell, top, x = 30, 74, 66
    taken = td[1:3]
    drawing = Drawing(
        690,
        top + cell * 4 + 56,
        "Entries of a TensorDict share their first dimension, and td[1:3] takes it of all",
    )
    starts: dict[str, float] = {}
    for key in [("obs",), ("next", "obs"), ("next", "reward"), ("next", "done"), ("env",)]:
        entry = td.get(key)
        values = entry if isinstance(entry, np.ndarray) else None
        columns = values.shape[1] if values is not None else 2
        colour = {"obs": BLUE, "reward": ORANGE, "done": GREEN, "env": GREY}[key[-1]]
        starts[key[-1] if len(key) == 1 else "next"] = min(starts.get("next", x), x) if len(key) > 1 else x
        for row in range(4):
            if values is None:
                drawing.box(x, top + row * cell, 2 * cell + 6, cell, colour)
                drawing.words(
                    x + cell + 3, top + row * cell + 20, td[row]["env"], anchor="middle", kind="mono"
                )
            else:
                for column in range(columns):
                    drawing.box(x + column * cell, top + row * cell, cell, cell, colour)
        drawing.words(x, top - 10, f'"{key[-1]}"', kind="mono")
        about = f"{values.dtype.name} {values.shape}" if values is not None else "texts"
        lines = [about] if columns > 2 or values is None else about.split(" ", 1)
        for i, line in enumerate(lines):
            drawing.words(x, top + 4 * cell + 20 + 14 * i, line, kind="mono faint")
        x += max(columns * cell, 66 if columns == 1 else 0) + 30
    left, right = starts["next"], starts["env"] - 30
    drawing.line([(left, 48), (left, 42), (right, 42), (right, 48)])
    drawing.words((left + right) / 2, 34, '"next": a TensorDict of the same batch size', anchor="middle")
    drawing.words(8, 20, f"TensorDict, batch_size {tuple(td.batch_size)}", bold=True)
    for row in range(4):
        drawing.words(54, top + row * cell + 20, str(row), anchor="end", kind="faint")
    drawing.line(
        [
            (60, top + cell - 3),
            (x - 22, top + cell - 3),
            (x - 22, top + 3 * cell + 3),
            (60, top + 3 * cell + 3),
            (60, top + cell - 3),
        ],
        RED,
        2,
    )
    drawing.words(x - 14, top + 2 * cell - 4, "td[1:3]", kind="mono", bold=True)
    drawing.words(x - 14, top + 2 * cell + 14, f"{tuple(taken.batch_size)}, a view", kind="faint")
    return drawing.text()


def multi_step() -> str:
    """Two episodes before and after `MultiStep`: which rewards are summed, and where a step ends."""
    steps, gamma, n = 9, 0.9, 3
    observation = np.arange(steps, dtype=np.float32).reshape(1, steps, 1)
    done = np.isin(observation, [5, 8])
    reward = np.array([0, 1, 0, 0, 0, 2, 0, 1, 0], np.float32).reshape(1, steps, 1)
    following = {"obs": observation + 1, "reward": reward, "done": done, "terminated": done}
    out = MultiStep(gamma=gamma, n_steps=n)(
        TensorDict({"obs": observation, "next": following}, batch_size=[1, steps])
    )
    left, width, top = 20, 62, 92
    drawing = Drawing(
        left * 2 + width * steps + 96,
        top + 26 * steps + 34,
        "Each step after MultiStep ends up to three steps later, and never in the next episode",
    )
    drawing.words(left, 20, "as collected: a reward for each step", bold=True)
    episode = 0
    for t in range(steps):
        x, colour = left + t * width, (BLUE, GREEN)[episode]
        drawing.box(x, 34, width - 8, 26, colour)
        drawing.words(x + width / 2 - 4, 51, f"r = {reward[0, t, 0]:g}", anchor="middle", kind="mono")
        episode += int(done[0, t, 0])
        if done[0, t, 0]:
            drawing.line([(x + width - 4, 28), (x + width - 4, top + 26 * steps)], RED, 1.5, "4 3")
            drawing.words(x + width - 4, top + 26 * steps + 16, "done", anchor="middle", kind="faint")
    drawing.words(left, top - 10, f"after MultiStep(gamma={gamma}, n_steps={n})", bold=True)
    episode = 0
    for t in range(steps):
        count, total = int(out["steps_to_next_obs"][0, t]), float(out["next", "reward"][0, t, 0])
        y = top + 26 * t
        drawing.box(left + t * width, y, count * width - 8, 20, (BLUE, GREEN)[episode], 0.3)
        terms = [
            f"{gamma**k:.2g} · {reward[0, t + k, 0]:g}" if k else f"{reward[0, t, 0]:g}"
            for k in range(count)
            if reward[0, t + k, 0]
        ]
        shown = (
            f"{' + '.join(terms)} = {total:.3g}" if len(terms) > 1 or total not in reward else f"{total:.3g}"
        )
        drawing.words(left + (t + count) * width + 2, y + 15, shown, kind="mono")
        episode += int(done[0, t, 0])
    return drawing.text()


def step_as_a_graph() -> str:
    """The operators of a jitted step of gradient descent, in the order in which they can run."""

    @jit(donate=("params",))
    def step(params: TensorDict, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, TensorDict]:
        def loss(params: TensorDict) -> np.ndarray:
            return ((np.tanh(x @ params["w"]) - y) ** 2).mean()

        value, grads = value_and_grad(loss)(params)
        return value, params - grads * 0.1

    given = (
        TensorDict(w=np.zeros((4, 1), np.float32)),
        np.ones((8, 4), np.float32),
        np.ones((8, 1), np.float32),
    )
    traced = step.graph(*given)._traced
    names = {x.name: name for x, name in zip(traced.inputs, ("w", "x", "y"), strict=True)}
    places: dict[str, int] = dict.fromkeys(names, 0)
    labels, reads = dict(names), dict.fromkeys(names, ())
    forward = True
    colours = dict.fromkeys(names, GREY)
    for node in traced.nodes:
        (result,) = node.outputs
        reads[result] = tuple(dict.fromkeys(name for name in node.reads if name in places))
        places[result] = 1 + max((places[name] for name in reads[result]), default=0)
        labels[result] = node.op
        colours[result] = BLUE if forward else ORANGE
        forward = forward and node.op != "ReduceMean"
    last = traced.outputs[-1][0]
    colours[last] = GREEN
    ranks: dict[int, list[str]] = {}
    for name, rank in places.items():
        ranks.setdefault(rank, []).append(name)
    wide, high, box = 108, 46, 92
    most = max(map(len, ranks.values()))
    drawing = Drawing(
        most * wide + 210,
        len(ranks) * high + 20,
        f"A step of gradient descent as a graph of {len(traced.nodes)} operators",
    )
    centres = {}
    for rank, row in sorted(ranks.items()):
        # Each stands below what it reads, as far as its neighbours leave room.
        wanted = {
            name: np.mean([centres[read][0] for read in reads[name]]) if reads[name] else wide * (i + 0.5)
            for i, name in enumerate(row)
        }
        row.sort(key=wanted.__getitem__)
        x = -np.inf
        for i, name in enumerate(row):
            x = max(x + wide, min(wanted[name], most * wide - (len(row) - i - 0.5) * wide), wide / 2)
            centres[name] = (float(x), 12 + rank * high + 14)
    for name, sources in reads.items():
        for source in sources:
            (x, y), (u, v) = centres[source], centres[name]
            middle = (y + v) / 2
            drawing.curve(
                f"M{x:g} {y + 14:g} C{x:g} {middle:g} {u:g} {middle:g} {u:g} {v - 15:g}", arrow=True
            )
    for name, (x, y) in centres.items():
        drawing.box(x - box / 2, y - 14, box, 28, "var(--color-background-primary,#fff)", 1)
        drawing.box(x - box / 2, y - 14, box, 28, colours[name])
        drawing.words(x, y + 5, labels[name], anchor="middle", kind="" if name in names else "mono")
    told = [
        (GREY, "given: parameters, a batch"),
        (BLUE, "forward: the loss"),
        (ORANGE, "the backward pass: its gradient"),
        (GREEN, "the new parameters"),
    ]
    for i, (colour, words) in enumerate(told):
        drawing.box(most * wide + 20, 20 + i * 26, 16, 16, colour)
        drawing.words(most * wide + 44, 33 + i * 26, words, kind="faint")
    return drawing.text()


def returns() -> str:
    """The rewards of a rollout of two episodes, and the returns from each step on, at two discounts."""
    steps, end = 80, 49
    reward, done = np.zeros(steps, np.float32), np.zeros(steps, bool)
    reward[[14, 22, 41, 49, 70]] = 1, 0.5, 1, 2, 1
    done[[end, steps - 1]] = True
    curves = {gamma: reward_to_go(reward, done, gamma=gamma) for gamma in (0.99, 0.9)}
    width, height, left, top = 560, 200, 44, 20
    drawing = Drawing(
        left + width + 120, top + height + 44, "Returns rise towards each reward and end with their episode"
    )
    high = float(np.ceil(max(curve.max() for curve in curves.values())))
    xs = ticks(0, steps - 1, range(steps), width)
    for value in range(int(high) + 1):
        y = top + height - ticks(0, high, [value], height)[0]
        drawing.line([(left, y), (left + width, y)], GREY, 0.4)
        drawing.words(left - 8, y + 4, str(value), anchor="end", kind="faint")
    for t in np.flatnonzero(reward):
        bar = ticks(0, high, [reward[t]], height)[0]
        drawing.box(left + xs[t] - 3, top + height - bar, 6, bar, GREEN, 0.5)
    for curve, colour in zip(curves.values(), (BLUE, ORANGE), strict=True):
        ys = [top + height - y for y in ticks(0, high, curve, height)]
        points = [(left + x, y) for x, y in zip(xs, ys, strict=True)]
        drawing.line(points[: end + 1], colour, 2)
        drawing.line(points[end + 1 :], colour, 2)
    drawing.line(
        [(left + (xs[end] + xs[end + 1]) / 2, top), (left + (xs[end] + xs[end + 1]) / 2, top + height)],
        RED,
        1.5,
        "4 3",
    )
    drawing.words(left + xs[end] + 10, top + 12, "done", kind="faint")
    drawing.words(left + width / 2, top + height + 32, "step", anchor="middle", kind="faint")
    for t in range(0, steps, 20):
        drawing.words(left + xs[t], top + height + 16, str(t), anchor="middle", kind="faint")
    for i, (colour, words) in enumerate([(GREEN, "reward"), (BLUE, "return, 0.99"), (ORANGE, "return, 0.9")]):
        drawing.box(left + width + 14, top + 10 + 24 * i, 14, 14, colour, 0.5)
        drawing.words(left + width + 34, top + 22 + 24 * i, words, kind="faint")
    return drawing.text()


def tokens() -> str:
    """Two answers to a question, each token in the shade of its log-prob under the embedded model."""
    from lite.models import ChatHistory, History, OnnxWrapper, embedded_model_path
    from lite.models.text.to_html import SHADES, shade

    judge = OnnxWrapper(embedded_model_path(), input_mode="history", generate=False)
    question = "What is 12 + 30?"
    chats = [
        [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        for answer in ("42", "24", "forty two")
    ]
    scored = judge(
        TensorDict({"history": ChatHistory(full=History.from_chats(chats), batch_size=[3])}, batch_size=[3])
    )
    letter, top, row_height = 8.2, 66, 52
    drawing = Drawing(
        690, top + row_height * 3 + 26, "Tokens of three answers: the less probable, the redder"
    )
    drawing.words(8, 20, f"{question} Three answers, under the embedded model", bold=True)
    for level, least in enumerate(SHADES):
        drawing.box(8 + 104 * level, 32, 14, 14, RED, _strength(level))
        drawing.words(28 + 104 * level, 44, f"p ≥ {least:g}" if least else "less", kind="faint")
    for i in range(3):
        ids = scored.get(("tokens", "full"), as_list=True)[i]
        log_probs = scored.get(("log_probs", "full"), as_list=True)[i]
        texts = [judge.tokenizer.decode([int(one)], skip_special_tokens=False) for one in ids]
        answer = len(texts) - 1 - texts[::-1].index("assistant") + 2
        x, y = 8.0, top + row_height * i
        for text, log_prob in list(zip(texts, log_probs, strict=True))[answer:]:
            shown = text.replace("\n", "⏎")
            width = max(len(shown) * letter + 10, 38)
            drawing.box(x, y, width, 24, RED, _strength(shade(float(log_prob)) or 0))
            drawing.words(x + width / 2, y + 16, shown, anchor="middle", kind="mono")
            drawing.words(x + width / 2, y + 38, f"{float(log_prob):z.1f}", anchor="middle", kind="faint")
            x += width + 8
            if text == "<|im_end|>":
                break
        total = float(np.sum(log_probs[answer : answer + texts[answer:].index("<|im_end|>") + 1]))
        drawing.words(x + 12, y + 16, f"log-prob of the answer {total:z.1f}", kind="faint")
    return drawing.text()


def _strength(level: int) -> float:
    return (0.0, 0.12, 0.28, 0.45, 0.6, 0.75)[level]


class Picture(NamedTuple):
    """How a picture is drawn, what stands below it, and the pages that show it."""

    draw: Callable[[], str]
    caption: str
    pages: tuple[str, ...]


PICTURES = [
    Picture(
        tensordict,
        "Every entry begins with the batch size; an index goes to all of them.",
        ("index", "tensordicts/what-it-is"),
    ),
    Picture(
        multi_step,
        "MultiStep sums discounted rewards up to the end of an episode.",
        ("data/advantages",),
    ),
    Picture(
        returns, "Returns of a rollout: what is still to come, until the episode ends.", ("kernels/index",)
    ),
    Picture(
        step_as_a_graph,
        "A step of gradient descent on mean((tanh(x w) - y)²) as lite.jit runs it.",
        ("nn/steps-as-graphs",),
    ),
    Picture(
        tokens,
        "The shade of a token is its probability; below it stands its log-prob.",
        ("models/index", "start/language-model"),
    ),
]


def figures() -> dict[str, str]:
    """Of each page that shows a picture, its figure: HTML in Markdown."""
    found = {}
    for picture in PICTURES:
        figure = (
            f'<figure class="drawn">\n{picture.draw()}<figcaption>{picture.caption}</figcaption>\n</figure>'
        )
        found |= dict.fromkeys(picture.pages, f"```{{raw}} html\n{figure}\n```\n")
    return found


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        (Path(folder) / f"{picture.draw.__name__}.svg").write_text(picture.draw(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
