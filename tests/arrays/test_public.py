"""Public classes say that they are from the package that exports them."""

import importlib
import pickle
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import each_case

from lite import nn
from lite._arrays.public import belong_here, written_in

PACKAGES = ["lite", "lite.nn", "lite.nn.distributions", "lite.nn.values", "lite.envs", "lite.data"]


def classes(package: str) -> list[type]:
    module = importlib.import_module(package)
    return [value for name in module.__all__ if isinstance(value := getattr(module, name), type)]


@each_case("package", PACKAGES)
def test_classes_are_from_a_public_package(package: str) -> None:
    assert {cls.__module__ for cls in classes(package)} <= set(PACKAGES)
    assert [cls for cls in classes(package) if pickle.loads(pickle.dumps(cls)) is not cls] == []
    assert [cls for cls in classes(package) if importlib.import_module(written_in[cls]) is None] == []


def test_a_class_belongs_to_the_first_package_that_exports_it() -> None:
    assert nn.OneHotCategorical.__module__ == "lite.nn.distributions"
    assert nn.NormalParamExtractor.__module__ == "lite.nn"
    assert nn.InteractionType.__module__ == "lite.nn"


def test_only_what_stands_below_the_package() -> None:
    below, private = type("Below", (), {}), type("Private", (), {})
    below.__module__ = private.__module__ = "shop._counter"
    namespace = {"__name__": "shop", "__all__": ["Below", "Foreign", "function", "later"]}
    namespace |= {"Below": below, "Private": private, "Foreign": OrderedDict, "function": len}
    belong_here(namespace)
    assert below.__module__ == "shop"
    assert written_in.pop(below) == "shop._counter"
    assert private.__module__ == "shop._counter"
    assert OrderedDict.__module__ == "collections"


def test_threads_ask_for_a_package_and_for_a_file_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two_asked" / "inner").mkdir(parents=True)
    (tmp_path / "two_asked" / "__init__.py").write_text(
        "from lite._arrays.public import import_on_first_use\n"
        "names = {'inner': 'Package', 'inner.part': 'Part'}\n"
        "__all__, __getattr__, __dir__ = import_on_first_use(globals(), names)\n"
    )
    (tmp_path / "two_asked" / "inner" / "__init__.py").write_text(
        "from two_asked.inner.part import Part\nclass Package: pass\n"
    )
    (tmp_path / "two_asked" / "inner" / "part.py").write_text("class Part: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    shop: Any = importlib.import_module("two_asked")
    begun = threading.Event()

    class Slow(SourceFileLoader):
        def create_module(self, spec: ModuleSpec) -> None:
            begun.set()
            time.sleep(0.2)  # the other thread asks for the file meanwhile

    find = PathFinder.find_spec

    def find_slow(name: str, *args: Any) -> ModuleSpec | None:
        spec = find(name, *args)
        if spec is not None and name == "two_asked.inner":
            spec.loader = Slow(name, str(spec.origin))
        return spec

    monkeypatch.setattr(PathFinder, "find_spec", find_slow)
    with ThreadPoolExecutor() as pool:
        package = pool.submit(lambda: shop.Package)
        begun.wait()
        part = pool.submit(lambda: shop.Part)
        assert [cls.result().__name__ for cls in (package, part)] == ["Package", "Part"]


def test_pickles_of_modules_name_public_places_only() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.RNN(2, 2), nn.BatchNorm1d(2))
    for saved in (net, net.state_dict(), nn.TensorDictModule(net, ["a"], ["b"])):
        assert b"lite.nn." not in pickle.dumps(saved)
