"""Arrays and trees of other libraries, as far as they need no torch; the rest is in tests/parity."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorClass, TensorDict, lazy_stack, register_pytree


class Foreign:
    """An array of another library: nothing but DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_arrays_that_speak_dlpack_are_leaves_over_the_same_memory() -> None:
    x = np.arange(6.0).reshape(3, 2)
    td = TensorDict({"x": Foreign(x)}, batch_size=[3])
    assert np.shares_memory(td["x"], x)
    td["x"][0, 0] = 9
    assert x[0, 0] == 9
    td.set("y", Foreign(x)).set_("y", np.zeros((3, 2)))
    assert not x.any()
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        td["z"] = Foreign(np.zeros(2))


def test_read_only_memory_stays_read_only() -> None:
    x = np.arange(3)
    x.flags.writeable = False
    out = lite.from_dlpack(Foreign(x))
    assert np.shares_memory(out, x)
    assert not out.flags.writeable


def test_from_dlpack_refuses_other_objects() -> None:
    for value in ([1, 2], "x", 3):
        with pytest.raises(TypeError, match="array must have __dlpack__, got"):
            lite.from_dlpack(value)


def test_leaves_are_exported_by_dlpack() -> None:
    td = TensorDict(x=np.arange(3))
    assert np.shares_memory(np.from_dlpack(td["x"]), td["x"])


def test_from_torch_takes_mappings_without_torch() -> None:
    x = np.zeros((3, 2))
    td = TensorDict.from_torch({"x": x, "n": {"f": Foreign(x)}, "s": "text"}, batch_size=[3])
    assert td["x"] is x
    assert np.shares_memory(td["n", "f"], x)
    assert td["s"] == "text"
    with pytest.raises(TypeError, match="tensordict or a mapping of tensors, got int"):
        TensorDict.from_torch(3)


MISSING = """
import sys
for name in ("torch", "tensordict", "jax", "optree"):
    sys.modules[name] = None
import numpy as np
import lite
td = lite.TensorDict(x=np.zeros(3))
for call in (td.to_torch, lambda: td.to_torch(as_dict=True), lambda: lite.register_pytree("jax"),
             lambda: lite.register_pytree("optree")):
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_missing_libraries_are_named_with_the_command() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "to_torch needs torch: pip install torch",
        "to_torch needs torch: pip install torch",
        "register_pytree('jax') needs it: pip install jax",
        "register_pytree('optree') needs it: pip install optree",
    ]


IMPORTS = """
import sys
import numpy as np
import lite
td = lite.TensorDict.from_torch({"x": np.zeros(3)})
td._repr_html_(), td.summary(), lite.from_any((1, 2)), lite.from_dlpack(td["x"])
print(sorted({"torch", "jax", "optree", "numba", "ml_dtypes"} & sys.modules.keys()))
"""


def test_nothing_is_imported_unasked() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- trees ------------------------------------------------------------------------------------------


class Point(TensorClass):
    xy: Any
    label: str | None = None


def tree() -> TensorDict:
    return TensorDict(
        {
            "x": np.arange(6.0, dtype=np.float32).reshape(3, 2),
            "n": {"y": np.arange(3, dtype=np.int32)},
            "s": "text",
            "each": ["a", "b", "c"],
            "p": Point(xy=np.ones((3, 2), np.float32), label="l", batch_size=[3]),
        },
        batch_size=[3],
        names=["time"],
    )


def ragged() -> Any:
    return lazy_stack([TensorDict(r=np.ones(n, np.float32)) for n in (1, 2)])


def check_tree(map_tree: Any, flatten: Any) -> None:
    td = tree()
    leaves, structure = flatten(td)
    assert len(leaves) == 3
    assert structure == flatten(tree())[1]
    assert hash(structure) == hash(flatten(tree())[1])
    assert structure != flatten(tree().set("s", "other"))[1]
    out = map_tree(lambda x: x + 1, td)
    assert type(out) is TensorDict
    for key in ("x", ("n", "y"), ("p", "xy")):
        np.testing.assert_array_equal(out[key], td[key] + 1)
    assert out.batch_size == (3,)
    assert out.names == ["time"]
    assert out["s"] == "text"
    assert out["each"] == ["a", "b", "c"]
    assert isinstance(out["p"], Point)
    assert out["p"].label == "l"
    smaller = map_tree(lambda x: x[:2], td)
    assert smaller.batch_size == (2,)
    assert smaller.names == [None]
    assert smaller["s"] == "text"
    assert "each" not in smaller
    assert smaller["x"].shape == (2, 2)
    rows = map_tree(lambda x: x * 2, ragged())
    assert [part["r"].tolist() for part in rows.tensordicts] == [[2], [2, 2]]
    assert rows.batch_size == (2,)
    assert map_tree(lambda x: x, td.lock_()).is_locked


def test_optree() -> None:
    optree = pytest.importorskip("optree", reason="pip install optree")
    register_pytree("optree")
    register_pytree("optree", Point)
    check_tree(optree.tree_map, lambda td: optree.tree_flatten(td))
    assert optree.tree_paths(tree())[0] == ("x",)
    assert optree.tree_map(lambda x: x * 0, Point(xy=np.ones(2))).xy.tolist() == [0, 0]


def test_jax() -> None:
    jax = pytest.importorskip("jax", reason="pip install jax")
    register_pytree("jax")
    register_pytree("jax", Point)
    check_tree(jax.tree_util.tree_map, jax.tree_util.tree_flatten)
    assert jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(tree())[0][1][0]) == "['n']['y']"

    traced = []

    @jax.jit
    def twice(td: TensorDict) -> TensorDict:
        traced.append(1)
        return jax.tree_util.tree_map(lambda x: x * 2, td)

    for _ in range(2):
        out = twice(tree())
    assert len(traced) == 1
    assert isinstance(out["x"], np.ndarray)
    np.testing.assert_array_equal(out["x"], tree()["x"] * 2)
    gradient = jax.grad(lambda td: (td["x"] ** 2).sum())(tree().select("x"))
    np.testing.assert_array_equal(gradient["x"], 2 * tree()["x"])


def test_jax_arrays_are_leaves() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="pip install jax")
    x = jnp.arange(6.0).reshape(3, 2)
    td = TensorDict({"x": x, "h": x.astype(jnp.bfloat16)}, batch_size=[3])
    assert isinstance(td["x"], np.ndarray)
    assert td["x"].ctypes.data == x.unsafe_buffer_pointer()
    assert not td["x"].flags.writeable
    assert td["h"].dtype.name == "bfloat16"
    with pytest.raises(ValueError, match=r"read-only|Failed to update"):
        td.set_("x", 0)
    np.testing.assert_array_equal(
        jnp.from_dlpack(TensorDict(y=np.arange(3.0, dtype=np.float32))["y"]), [0, 1, 2]
    )


def test_other_libraries_are_refused() -> None:
    with pytest.raises(ValueError, match="library must be 'jax' or 'optree', got 'torch'"):
        register_pytree("torch")
