"""The facade lists every public method of a TensorDict, and few classes stand between it and `object`."""

import inspect

from helpers.cases import each_case

from lite import LazyStackedTensorDict, TensorDict, TensorDictBase
from lite._ops.cast import DtypeCasts
from lite._tree.methods import resolved
from lite._tree.protocol import Container, class_registry
from lite._tree.shape import BatchShape


@each_case("cls", [TensorDict, LazyStackedTensorDict])
def test_few_classes_make_a_container(cls: type) -> None:
    assert len(cls.__mro__) <= 9


def test_class_registry_holds_the_public_classes() -> None:
    assert class_registry.dense is TensorDict
    assert class_registry.lazy is LazyStackedTensorDict


def test_operations_are_listed_in_the_facade() -> None:
    """What a TensorDict has of the public names is in the list, or belongs to all collections."""
    public = {name for name in dir(TensorDict) if not name.startswith("_")}
    listed = {name for cls in (TensorDict, TensorDictBase) for name in vars(cls)}
    of_collections = {name for cls in (DtypeCasts, Container, BatchShape) for name in vars(cls)}
    of_dense = {name for name in vars(TensorDict.__mro__[1]) if not name.startswith("_")}
    assert public - listed - of_collections - of_dense == set()
    assert {"get", "set", "update", "select", "exp", "sum", "stack", "memmap", "to_module"} <= listed


def test_what_is_listed_is_written_in_a_package_below() -> None:
    below = ("lite._ops.", "lite._convert.", "lite._files.", "lite._processes.", "lite._show.", "lite._tree.")
    here = {
        name
        for name, value in ((name, resolved(value)) for name, value in vars(TensorDictBase).items())
        if inspect.isfunction(value) and not value.__module__.startswith(below)
    }
    assert here == {"__copy__", "__deepcopy__", "clone", "copy", "to_module"}
