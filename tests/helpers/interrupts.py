"""Interrupts (Ctrl-C, a notebook's stop button) at each line of some functions."""

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any


def interrupted_everywhere(run: Callable[[], object], *functions: Any) -> Iterator[int]:
    """Call `run` again and again, each time with a KeyboardInterrupt before the next line that it comes to.

    Args:
        run: is called until no line is left.
        functions: those whose lines count. Before the first line of a call there is none: to what comes
            there, as between a call and a `with`, no code can answer.
    """
    codes, before = {function.__code__ for function in functions}, sys.gettrace()
    for number in itertools.count():
        lines, hit = itertools.count(), list[int]()

        def called(frame: Any, *_: object, number: int = number, lines: Any = lines, hit: Any = hit) -> Any:
            begun = False

            def at(frame: Any, event: str, _: object) -> Any:
                nonlocal begun
                if event == "line" and begun and not hit and next(lines) == number:
                    hit.append(frame.f_lineno)
                    raise KeyboardInterrupt
                begun = begun or event == "line"
                return at

            return at if frame.f_code in codes else None

        sys.settrace(called)
        try:
            run()
        except KeyboardInterrupt:
            assert hit
        finally:
            sys.settrace(before)
        if not hit:
            return
        yield hit[0]
