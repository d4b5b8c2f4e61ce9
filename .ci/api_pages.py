"""The API as HTML, from the docstrings: `python .ci/api_pages.py FOLDER`; a warning of pdoc's fails it.

pdoc (in the extra `dev`) reads what packages hold, and where it was written. Ours get some names on first
use, and their classes say that they are from the package that exports them, so both is put right first.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pdoc
import pdoc.doc

from lite._arrays.public import written_in

PACKAGES = [
    "lite",
    "lite.nn",
    "lite.nn.distributions",
    "lite.nn.losses",
    "lite.optim",
    "lite.data",
    "lite.kernels",
    "lite.models",
]

_evaluate = pdoc.doc.safe_eval_type


def _in_module(annotation: Any, names: Any, inner: Any, *rest: Any) -> Any:
    """An annotation of a method; TensorDicts have methods called `bool` and `float`, which are not meant."""
    local = {name: value for name, value in (inner or {}).items() if not hasattr(builtins, name)}
    return _evaluate(annotation, names, local, *rest)


def main(folder: str) -> int:
    for name in PACKAGES:
        package = import_module(name)
        public = {each: getattr(package, each) for each in package.__all__}
        vars(package).update(public)
        for kind in public.values():
            if isinstance(kind, type) and issubclass(kind, tuple):  # its constructor is in no file
                kind.__new__.__annotations__ = get_type_hints(kind)
    for kind, file in written_in.items():
        kind.__module__ = file
    pdoc.doc.safe_eval_type = _in_module
    pdoc.render.configure(docformat="google", show_source=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pdoc.pdoc(*PACKAGES, output_directory=Path(folder))
    for warning in told:
        print(warning.message, file=sys.stderr)
    empty = [
        name for name in PACKAGES if (Path(folder) / f"{name.replace('.', '/')}.html").stat().st_size < 50_000
    ]
    if empty:
        print(f"pages with next to nothing on them: {empty}", file=sys.stderr)
    return bool(told or empty)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
