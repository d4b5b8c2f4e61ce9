"""The tasks that the embedded chat model was trained on: problems, answers and a verifiable reward.

Seven tasks (:data:`TASKS`), each asked in several phrasings. A problem knows its one right answer, so a
reward needs no judge. Problems are split into a training part and a held-out part by their operands, never
by their wording: a problem that is held out is held out in each of its phrasings, and where the order of
the operands does not change the problem (sums, comparisons, lists to sort), in each order of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from string import ascii_lowercase

import numpy as np

__all__ = ["TASKS", "Problem", "is_held_out", "make_problem", "reward"]

_WORD_LIST = """
apple bird blue boat book bread cake cat cloud cold cup dog door fire fish fox gold grass green hat hill
home horse ice king lake lamp leaf lion milk moon mouse night old pear pink rain red ring river road rose
sand sea ship sky snow song star stone sun tea tree warm wind wolf
"""
WORDS = _WORD_LIST.split()

HELD_OUT_SHARE = 0.1
CASUAL_SHARE = 0.15  # of the prompts come without a capital and a closing mark, as people type them


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its only right answer.

    Attributes:
        task: one of :data:`TASKS`.
        prompt: what the user says.
        answer: what a right response says, exactly.
        key: the operands in a canonical order; equal for each phrasing of one problem. Decides the split.
    """

    task: str
    prompt: str
    answer: str
    key: str


def make_problem(
    rng: np.random.Generator, task: str | None = None, *, held_out: bool | None = None
) -> Problem:
    """Draw a problem in a random phrasing.

    Args:
        rng: the source of randomness; equal generators give equal problems.
        task: one of :data:`TASKS`, or None for a uniform draw among them.
        held_out: True draws only problems that training never saw, False only those it may see, None any.

    Raises:
        ValueError: if ``task`` is not a known task.

    Example:
        >>> problem = make_problem(np.random.default_rng(0), "addition")
        >>> reward(problem, problem.answer)
        1.0
        >>> fresh = make_problem(np.random.default_rng(0), held_out=True)
        >>> is_held_out(fresh)
        True
    """
    if task is None:
        task = TASKS[int(rng.integers(len(TASKS)))]
    elif task not in _MAKERS:
        raise ValueError(f"task: got {task!r}, expected one of {', '.join(TASKS)}")
    while True:
        prompt, answer, operands = _MAKERS[task](rng)
        if rng.random() < CASUAL_SHARE:
            prompt = prompt[0].lower() + prompt[1:].rstrip("?. ")
        problem = Problem(task, prompt, answer, f"{task}: {operands}")
        if held_out is None or is_held_out(problem) == held_out:
            return problem


def is_held_out(problem: Problem) -> bool:
    """Whether the problem belongs to the tenth of all problems that training leaves out.

    The decision is a hash of ``problem.key``, so it is the same on each machine and for each phrasing.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> share = np.mean([is_held_out(make_problem(rng)) for _ in range(2000)])
        >>> bool(0.07 < share < 0.13)
        True
    """
    digest = blake2b(problem.key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < HELD_OUT_SHARE * 2**64


def reward(problem: Problem, response_text: str) -> float:
    """Grade a response between 0 and 1.

    The right answer, white space around it aside, gives 1. Any other response gives half of the share of
    its words that stand in the right place, so that a nearly sorted list is worth more than a wrong one and
    less than the right one.

    Example:
        >>> problem = Problem("sorting", "Sort 9 2 5 in ascending order.", "2 5 9", "sorting: 2 5 9")
        >>> [reward(problem, text) for text in (" 2 5 9", "2 5 8 9", "9", "")]
        [1.0, 0.25, 0.0, 0.0]
    """
    given, right = response_text.split(), problem.answer.split()
    if response_text.strip() == problem.answer:
        return 1.0
    hits = sum(a == b for a, b in zip(given, right, strict=False))
    return 0.5 * hits / max(len(given), len(right))


Drawn = tuple[str, str, str]  # prompt, answer, operands in canonical order


def _pick(rng: np.random.Generator, *phrasings: str) -> str:
    return phrasings[int(rng.integers(len(phrasings)))]


def _addition(rng: np.random.Generator) -> Drawn:
    a, b = rng.integers(0, 100, 2).tolist()
    prompt = _pick(
        rng, "What is {a} + {b}?", "What is {a}+{b}?", "{a} + {b} = ?", "Add {a} and {b}.",
        "{a} plus {b} equals?", "Compute the sum of {a} and {b}.",
        "I have {a} apples and get {b} more. How many apples do I have?",
    )  # fmt: skip
    return prompt.format(a=a, b=b), str(a + b), f"{min(a, b)} {max(a, b)}"


def _subtraction(rng: np.random.Generator) -> Drawn:
    b, a = sorted(rng.integers(0, 100, 2).tolist())
    prompt = _pick(
        rng, "What is {a} - {b}?", "What is {a}-{b}?", "{a} - {b} = ?", "Subtract {b} from {a}.",
        "{a} minus {b} equals?", "Take {b} away from {a}.",
        "I have {a} apples and give away {b}. How many apples are left?",
    )  # fmt: skip
    return prompt.format(a=a, b=b), str(a - b), f"{a} {b}"


def _comparison(rng: np.random.Generator) -> Drawn:
    a, b = rng.choice(100, 2, replace=False).tolist()
    low, high = min(a, b), max(a, b)
    prompt, answer = (
        ("Which is larger, {a} or {b}?", str(high)),
        ("Pick the larger number: {a} or {b}.", str(high)),
        ("Which is smaller, {a} or {b}?", str(low)),
        ("Pick the smaller number: {a} or {b}.", str(low)),
        ("Is {a} greater than {b}?", "yes" if a > b else "no"),
        ("Is {a} less than {b}?", "yes" if a < b else "no"),
    )[int(rng.integers(6))]
    return prompt.format(a=a, b=b), answer, f"{low} {high}"


def _sorting(rng: np.random.Generator) -> Drawn:
    numbers = rng.choice(100, int(rng.integers(3, 6)), replace=False).tolist()
    descending = bool(rng.integers(2))
    if descending:
        prompt = _pick(
            rng,
            "Sort in descending order: {xs}",
            "Order from largest to smallest: {xs}",
            "Sort {xs} downwards.",
        )
    else:
        prompt = _pick(
            rng, "Sort in ascending order: {xs}", "Order from smallest to largest: {xs}", "Sort {xs} upwards."
        )
    ordered = sorted(numbers)
    answer = _spaced(ordered[::-1] if descending else ordered)
    return prompt.format(xs=_spaced(numbers)), answer, _spaced(ordered)


def _counting(rng: np.random.Generator) -> Drawn:
    if rng.integers(3) == 0:
        words = rng.choice(WORDS, int(rng.integers(1, 9))).tolist()
        prompt = _pick(rng, "How many words are in this list: {xs}?", "Count the words: {xs}")
        return prompt.format(xs=_spaced(words)), str(len(words)), _spaced(words)
    letter, *others = rng.choice(list(ascii_lowercase), 4, replace=False).tolist()
    times = int(rng.integers(0, 6))
    row = [letter] * times + rng.choice(others, int(rng.integers(1, 6))).tolist()
    rng.shuffle(row)
    prompt = _pick(
        rng,
        "How many times does {c} appear in {xs}?",
        "Count the letter {c}: {xs}",
        "How many {c} are in {xs}?",
        "How often do you see {c} here: {xs}?",
    )
    return prompt.format(c=letter, xs=_spaced(row)), str(times), f"{letter} in {_spaced(row)}"


def _reversing(rng: np.random.Generator) -> Drawn:
    alphabet = list(ascii_lowercase) if rng.integers(3) else list("0123456789")
    row = rng.choice(alphabet, int(rng.integers(3, 8))).tolist()
    prompt = _pick(
        rng, "Reverse: {xs}", "Write backwards: {xs}", "Say {xs} in reverse order.", "What is {xs} backwards?"
    )
    return prompt.format(xs=_spaced(row)), _spaced(row[::-1]), _spaced(row)


def _copying(rng: np.random.Generator) -> Drawn:
    words = rng.choice(WORDS, int(rng.integers(2, 7))).tolist()
    prompt = _pick(rng, "Repeat after me: {xs}", "Copy this: {xs}", "Say exactly: {xs}", "Echo {xs}")
    return prompt.format(xs=_spaced(words)), _spaced(words), _spaced(words)


def _spaced(items: list[int] | list[str]) -> str:
    return " ".join(map(str, items))


_MAKERS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "addition": _addition, "subtraction": _subtraction, "comparison": _comparison, "sorting": _sorting,
    "counting": _counting, "reversing": _reversing, "copying": _copying,
}  # fmt: skip

TASKS = tuple(_MAKERS)
