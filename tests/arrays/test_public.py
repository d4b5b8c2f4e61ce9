"""Public classes say that they are from the package that exports them."""

import importlib
import pickle
from collections import OrderedDict

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


def test_pickles_of_modules_name_public_places_only() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.RNN(2, 2), nn.BatchNorm1d(2))
    for saved in (net, net.state_dict(), nn.TensorDictModule(net, ["a"], ["b"])):
        assert b"lite.nn." not in pickle.dumps(saved)
