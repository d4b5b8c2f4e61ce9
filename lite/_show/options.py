"""The print options of TensorDicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from lite._arrays.public import belong_to
from lite._arrays.settings import Scoped, Setting


@dataclass(frozen=True, slots=True, eq=False)  # told apart by identity, which makes a cheap cache key
class PrintOptions:
    """Options of what is shown: the first three for each container, the others for each array."""

    show_batch_size: bool = True
    show_device: bool = True
    show_is_shared: bool = True
    show_shape: bool = True
    show_field_device: bool = True
    show_dtype: bool = True
    show_field_is_shared: bool = True
    show_grad: bool = False
    show_is_contiguous: bool = False
    show_is_view: bool = False
    show_storage_size: bool = False
    plain: bool = False
    sort_keys: str | Callable[[str], Any] = "alphabetical"

    @property
    def shows_contents(self) -> bool:
        """Whether options show more of an array than its shape, dtype and device."""
        return self.plain or self.show_is_contiguous or self.show_is_view or self.show_storage_size


_TERSE = dict.fromkeys(
    ("show_device", "show_is_shared", "show_field_device", "show_dtype", "show_field_is_shared"), False
)
_options = Setting("lite.printoptions", PrintOptions(), per_thread=False, of_results=False)


def get_printoptions() -> dict[str, Any]:
    """The options of `set_printoptions` in force, by name.

    Example:
        >>> import lite
        >>> lite.get_printoptions()["show_grad"]
        False
    """
    return asdict(_options.default)


def print_options() -> PrintOptions:
    """The options in force."""
    return _options.default


class set_printoptions(Scoped[PrintOptions]):
    """Choose what `repr` of a TensorDict shows: from now on, in a `with` block, or in a function.

    Called by itself it holds until the next call, as `numpy.set_printoptions` does; options that are
    not named return to their defaults. In a `with` statement the former options come back at the end;
    as a decorator it holds while the function runs.

    Args:
        verbose: False shows only shapes and batch sizes, unless other options are named.
        options: `show_batch_size`, `show_device`, `show_is_shared` of containers (all True);
            `show_shape`, `show_field_device`, `show_dtype`, `show_field_is_shared` of arrays (all
            True); `show_grad`, `show_is_contiguous`, `show_is_view`, `show_storage_size` of arrays
            (all False); `plain=True` adds mean and std of floats, min and max of other numbers;
            `sort_keys` is "alphabetical", "insertion", or a function of the key.

    Raises:
        TypeError: an option of another name.
        ValueError: another `sort_keys`.

    Example:
        >>> import numpy as np, lite
        >>> td = lite.TensorDict(a=np.arange(3))
        >>> with lite.set_printoptions(verbose=False, plain=True):
        ...     print(td)
        TensorDict(
            fields={
                a: Array(shape=(3,), min=0, max=2)},
            batch_size=())
    """

    _setting = _options

    def __init__(self, *, verbose: bool = True, **options: Any) -> None:
        known = {field.name for field in fields(PrintOptions)}
        unknown = sorted(options.keys() - known)
        if unknown:
            raise TypeError(f"unknown print options {unknown}; the options are {sorted(known)}.")
        order = options.get("sort_keys", "alphabetical")
        if order not in ("alphabetical", "insertion") and not callable(order):
            raise ValueError(
                f"sort_keys must be 'alphabetical', 'insertion' or a function of the key, got {order!r}."
            )
        chosen = replace(PrintOptions(), **{**({} if verbose else _TERSE), **options})
        super().__init__(chosen)
        self._fresh = False
        super().set()
        self._fresh = True

    def set(self) -> None:
        """Apply the options until `unset`."""
        if not self._fresh:
            super().set()
        self._fresh = False

    def __enter__(self) -> Self:
        if self._fresh:  # they are in force already, and end with the block
            self.unset()
            self._fresh = False
        super().__enter__()
        return self

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function: the options apply only while it runs."""
        if self._fresh:
            self.unset()
            self._fresh = False
        return super().__call__(fn)


belong_to("lite", set_printoptions)
