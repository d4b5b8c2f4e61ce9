"""`from_torch` and `to_torch`, as far as they need no torch; the rest is in tests/parity."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.cases import raises
from helpers.exporter import Exporter

import lite
from lite import TensorDict


def test_arrays_that_speak_dlpack_are_leaves_over_the_same_memory() -> None:
    x = np.arange(6.0).reshape(3, 2)
    td = TensorDict({"x": Exporter(x)}, batch_size=[3])
    assert np.shares_memory(td["x"], x)
    if np.from_dlpack(Exporter(x)).flags.writeable:  # NumPy 2.2.0 gives views that are not
        td["x"][0, 0] = 9
        assert x[0, 0] == 9
        td.set("y", Exporter(x)).set_("y", np.zeros((3, 2)))
        assert not x.any()
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        td["z"] = Exporter(np.zeros(2))


def test_read_only_memory_stays_read_only() -> None:
    x = np.arange(3)
    x.flags.writeable = False
    out = lite.from_dlpack(Exporter(x))
    assert np.shares_memory(out, x)
    assert not out.flags.writeable


def test_from_torch_takes_mappings_without_torch() -> None:
    x = np.zeros((3, 2))
    td = TensorDict.from_torch({"x": x, "n": {"f": Exporter(x)}, "s": "text"}, batch_size=[3])
    assert td["x"] is x
    assert np.shares_memory(td["n", "f"], x)
    assert td["s"] == "text"
    raises(TypeError, "tensordict or a mapping of tensors, got int", TensorDict.from_torch, 3)


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
