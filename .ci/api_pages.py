"""The API as HTML, from the docstrings: `python .ci/api_pages.py FOLDER`; a warning of pdoc's fails it.

pdoc (in the extra `dev`) reads what packages hold, and where it was written. Ours get some names on first
use, and their classes say that they are from the package that exports them, so both is put right first.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pdoc
import pdoc.doc
from numpy.typing import ArrayLike

from lite import TensorClass, TypedTensorDict
from lite._arrays.public import written_in
from lite._tensorclass.fields import Field
from lite._tensorclass.typed import _Field

PACKAGES = [
    "lite",
    "lite.nn",
    "lite.nn.distributions",
    "lite.nn.functional",
    "lite.nn.init",
    "lite.nn.losses",
    "lite.optim",
    "lite.data",
    "lite.envs",
    "lite.kernels",
    "lite.models",
]

# Dark where the reader's other pages are, and a way back to them where there are any.
TEMPLATES = Path(__file__).resolve().parents[1] / ".site" / "api"

_evaluate = pdoc.doc.safe_eval_type
_without_modules = pdoc.doc._remove_collections_abc
_TYPING = re.compile(r"(?<![\w.])typing\.")
_OF_ARRAYS = re.compile(r"numpy\.ndarray\[tuple\[Any, \.\.\.\], numpy\.dtype\[(\S+?)\]\]")
_LIKE_ARRAYS = _TYPING.sub("", inspect.formatannotation(ArrayLike))


def _in_module(annotation: Any, names: Any, inner: Any, *rest: Any) -> Any:
    """An annotation of a method; TensorDicts have methods called `bool` and `float`, which are not meant."""
    local = {name: value for name, value in (inner or {}).items() if not hasattr(builtins, name)}
    return _evaluate(annotation, names, {"np": np, **local}, *rest)  # `Rng` names np wherever it is imported


def _short(signature: str) -> str:
    """NumPy's types under the names by which signatures in the sources have them."""
    text = _TYPING.sub("", signature).replace(_LIKE_ARRAYS, "ArrayLike")
    with_others = _LIKE_ARRAYS.removeprefix("Union[").removesuffix("]")  # a union is flat
    text = text.replace(with_others, "ArrayLike").replace("Union[ArrayLike, NoneType]", "ArrayLike | None")
    return _without_modules(_OF_ARRAYS.sub(r"NDArray[\1]", text))


def _packages_in(module: pdoc.doc.Module) -> list[pdoc.doc.Module]:
    """The packages that have a page, and no files, whose names functions have, too."""
    inside = [name for name in PACKAGES if name.rpartition(".")[0] == module.fullname]
    return [pdoc.doc.Module(import_module(name)) for name in inside]


def _cleaned(page: str) -> str:
    """A page without the blanks between its tags, whose names are links only where they are on it: inherited
    ones stand elsewhere."""
    parts = re.split(r"(<(?:pre|script|style)\b.*?</(?:pre|script|style)>)", page, flags=re.S)
    page = "".join(part if i % 2 else re.sub(r"\s*\n\s*", "\n", part) for i, part in enumerate(parts))
    ids = set(re.findall(r'id="([^"]+)"', page))
    return re.sub(
        r'<a href="#([^"]+)">(.*?)</a>', lambda link: link[0] if link[1] in ids else link[2], page, flags=re.S
    )


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
    Field.__doc__ = _Field.__doc__ = None  # would be the text of each field of each class
    for kind in (TensorClass, TypedTensorDict):  # whose page need not say again what TensorDictBase's does
        for name in list(vars(kind)):
            getattr(kind, name, None)  # makes a method that waits for its first use
        for member in vars(kind).values():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and vars(function).pop("__wrapped__", None):
                function.__doc__ = "@private"
    pdoc.doc.safe_eval_type = _in_module
    pdoc.doc._remove_collections_abc = _short
    pdoc.doc.Module.submodules = property(_packages_in)
    pdoc.render.configure(docformat="google", show_source=False, search=False, template_directory=TEMPLATES)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pdoc.pdoc(*PACKAGES, output_directory=Path(folder))
    for page in Path(folder).rglob("*.html"):
        page.write_text(_cleaned(page.read_text(encoding="utf-8")), encoding="utf-8")
    for warning in told:
        print(warning.message, file=sys.stderr)
    pages = {
        name: (Path(folder) / f"{name.replace('.', '/')}.html").read_text(encoding="utf-8")
        for name in PACKAGES
    }
    wrong = {
        "pages with next to nothing on them": [name for name in pages if len(pages[name]) < 50_000],
        "pages with NumPy's types spelt out": [name for name in pages if "_SupportsArray" in pages[name]],
        "packages that lite's page does not lead to": [
            name
            for name in PACKAGES
            if name.count(".") == 1 and f"{name.replace('.', '/')}.html" not in pages["lite"]
        ],
    }
    for what, names in wrong.items():
        if names:
            print(f"{what}: {names}", file=sys.stderr)
    return bool(told or any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
