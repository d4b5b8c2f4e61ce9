"""Drawings as SVG text, in the colours of the page around them, light or dark.

Lengths are in pixels of a drawing that is as wide as a column of text; `Drawing.text()` gives the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

BLUE, GREEN, ORANGE, RED, GREY = "#3b7dd8", "#2f9e5b", "#d9801f", "#e1461e", "#8a8a8a"
"""Colours that can be told apart on white and on black."""

_INK = "var(--color-foreground-primary,#222)"
_STYLE = f"""\
.drawn-ink{{fill:{_INK};font:13px ui-sans-serif,system-ui,sans-serif}}
.drawn-mono{{font-family:ui-monospace,monospace}}
.drawn-faint{{opacity:.65;font-size:11.5px}}
.drawn-line{{stroke:{_INK};fill:none}}"""


class Drawing:
    """An SVG that grows by its methods.

    Args:
        width: of the whole.
        height: of the whole.
        title: what it shows, for those who cannot see it.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self._title = width, height, title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, colour: str, shade: float = 0.18) -> None:
        """A rectangle with a border, its inside in a shade of the border's colour."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"'
        self._parts.append(f'<rect {place} fill="{colour}" fill-opacity="{shade:g}" stroke="{colour}"/>')

    def words(
        self, x: float, y: float, text: str, *, anchor: str = "start", kind: str = "", bold: bool = False
    ) -> None:
        """Text on a base line; `kind` is "mono", "faint" or both."""
        classes = " ".join(["drawn-ink", *(f"drawn-{each}" for each in kind.split())])
        weight = ' font-weight="600"' if bold else ""
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self._parts.append(
            f'<text {place} class="{classes}"{weight} xml:space="preserve">{escape(text)}</text>'
        )

    def line(
        self,
        points: Iterable[tuple[float, float]],
        colour: str = "",
        width: float = 1.2,
        dash: str = "",
        arrow: bool = False,
    ) -> None:
        """A line through points, in the colour of text unless one is given."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        self.curve(path, colour, width, dash, arrow)

    def curve(
        self, path: str, colour: str = "", width: float = 1.2, dash: str = "", arrow: bool = False
    ) -> None:
        """A line by SVG's commands."""
        look = f'stroke="{colour}" fill="none"' if colour else 'class="drawn-line"'
        look += f' stroke-dasharray="{dash}"' if dash else ""
        look += ' marker-end="url(#drawn-arrow)"' if arrow else ""
        self._parts.append(f'<path d="{path}" {look} stroke-width="{width:g}"/>')

    def text(self) -> str:
        """The whole SVG, to stand in a page or in a file."""
        arrow = (
            '<marker id="drawn-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{_INK}"/></marker>'
        )
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(self._title)}</title>'
        )
        return "\n".join([head, f"<style>{_STYLE}</style><defs>{arrow}</defs>", *self._parts, "</svg>", ""])

    def _repr_svg_(self) -> str:
        """What notebooks show."""
        return self.text()


def ticks(low: float, high: float, values: Sequence[float], length: float) -> list[float]:
    """Where values are on an axis of that length."""
    return [(value - low) / (high - low) * length for value in values]
