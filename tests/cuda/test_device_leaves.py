"""TensorDicts whose leaves live on a GPU.

Runs under Numba's CUDA simulator (NUMBA_ENABLE_CUDASIM=1, set before Numba is imported, so in a process
of its own: tests/arrays/test_device_leaves.py starts it) or on a GPU. Simulated arrays know some arithmetic
operators that Numba's real ones do not; what those do is in tests/arrays/test_device.py.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorClass, TensorDict, cat, lazy_stack, stack


def _cuda() -> Any:
    try:
        from numba import cuda
    except ImportError:
        return None
    return cuda if cuda.is_available() else None


SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
if _cuda() is None:
    pytest.skip("needs a GPU, or NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)
cuda = _cuda()

simulated = pytest.mark.skipif(not SIMULATED, reason="only the simulator's arrays have operators")


def host(leaf: Any) -> np.ndarray:
    """The content of a device leaf; it must be one."""
    assert not isinstance(leaf, np.ndarray)
    assert hasattr(type(leaf), "__cuda_ndarray__")
    return TensorDict({"x": leaf}).to("cpu")["x"]


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    return {"a": np.arange(24.0).reshape(3, 4, 2), "b": np.arange(12).reshape(3, 4)}


@pytest.fixture
def td(arrays: dict[str, np.ndarray]) -> TensorDict:
    leaves = {key: cuda.to_device(value) for key, value in arrays.items()}
    return TensorDict({**leaves, "n": {"c": cuda.to_device(arrays["b"])}, "s": "text"}, batch_size=[3, 4])


@pytest.fixture
def cpu(arrays: dict[str, np.ndarray]) -> TensorDict:
    return TensorDict({**arrays, "n": {"c": arrays["b"].copy()}, "s": "text"}, batch_size=[3, 4])


def same(device: TensorDict, expected: TensorDict) -> None:
    assert device.batch_size == expected.batch_size
    assert set(device.keys(True, True)) == set(expected.keys(True, True))
    for key in expected.keys(True, True):
        np.testing.assert_array_equal(host(device.get(key)), expected.get(key), strict=True)


def test_leaves_are_kept_as_they_are(arrays: dict[str, np.ndarray]) -> None:
    leaf = cuda.to_device(arrays["a"])
    td = TensorDict({"a": leaf}, batch_size=[3])
    assert td["a"] is leaf
    td.set("again", leaf)
    assert td["again"] is leaf
    raises(RuntimeError, "batch dimension mismatch", lambda: td.set("short", cuda.to_device(np.zeros(2))))


def test_to_and_back(cpu: TensorDict) -> None:
    moved = cpu.to("cuda")
    assert moved.device == "cuda:0"
    same(moved, cpu)
    back = moved.to("cpu")
    assert back.device == "cpu"
    assert isinstance(back["a"], np.ndarray)
    np.testing.assert_array_equal(back["n", "c"], cpu["n", "c"])
    assert back["s"] == "text"
    assert moved.cpu().device == "cpu"
    assert cpu.cuda()["a"].shape == (3, 4, 2)


def test_a_number_that_no_gpu_has(cpu: TensorDict) -> None:
    last = len(cuda.gpus) - 1
    assert cpu.to(f"cuda:{last}").device == f"cuda:{last}"
    for place in (lambda name: cpu.to(name), lambda name: TensorDict({}, [3], device=name)):
        with pytest.raises(RuntimeError, match=rf"device='cuda:{last + 1}': Numba finds {last + 1} GPU"):
            place(f"cuda:{last + 1}")


def test_a_bound_device_moves_what_is_set() -> None:
    td = TensorDict({"x": np.arange(3)}, batch_size=[3], device="cuda")
    np.testing.assert_array_equal(host(td["x"]), np.arange(3))
    td["scalar"] = np.zeros(3, np.float32)
    assert host(td["scalar"]).dtype == np.float32
    zero = TensorDict({"x": 1.5}, device="cuda")
    assert zero["x"].shape == ()


VIEWS = {
    "int": lambda td: td[1], "negative int": lambda td: td[-1], "slice": lambda td: td[1:],
    "step": lambda td: td[::2, 1], "reversed": lambda td: td[::-1], "none": lambda td: td[None, :, 2],
    "ellipsis": lambda td: td[..., 1:3], "both": lambda td: td[2, 3], "reshape": lambda td: td.reshape(12),
    "view": lambda td: td.view(2, 6), "flatten": lambda td: td.flatten(0, 1),
    "unflatten": lambda td: td.unflatten(1, (2, 2)), "unsqueeze": lambda td: td.unsqueeze(1),
    "squeeze": lambda td: td.unsqueeze(0).squeeze(0), "permute": lambda td: td.permute(1, 0),
    "transpose of a slice": lambda td: td[1:, ::2].transpose(0, 1), "expand": lambda td: td.expand(5, 3, 4),
    "split": lambda td: td.split([1, 2], 0)[1], "chunk": lambda td: td.chunk(2, 1)[0],
    "unbind": lambda td: td.unbind(1)[2], "narrow": lambda td: td.narrow(1, 1, 2),
    "flip": lambda td: td.flip(0, 1), "iteration": lambda td: list(td)[2], "empty slice": lambda td: td[3:],
}  # fmt: skip


def test_views(td: TensorDict, cpu: TensorDict) -> None:
    for name in VIEWS:
        same(VIEWS[name](td), VIEWS[name](cpu))


def test_views_share_memory(td: TensorDict) -> None:
    td[1].set_("b", np.full(4, -1))
    np.testing.assert_array_equal(host(td["b"])[1], [-1] * 4)
    td.reshape(12)[0].set_("b", 7)
    assert host(td["b"])[0, 0] == 7
    td.permute(1, 0)[3].set_("b", np.array([1, 2, 3]))
    np.testing.assert_array_equal(host(td["b"])[:, 3], [1, 2, 3])


def test_keys(td: TensorDict, cpu: TensorDict) -> None:
    same(td.select("a", ("n", "c")), cpu.select("a", ("n", "c")))
    same(td.exclude("a"), cpu.exclude("a"))
    same(td.flatten_keys(), cpu.flatten_keys())
    leaf = td["a"]
    assert td.rename_key_("a", ("n", "z"))["n", "z"] is leaf
    assert td.pop(("n", "z")) is leaf
    td.update({"a": leaf})
    assert td.get("a") is leaf
    assert td.lock_().is_locked
    with pytest.raises(RuntimeError, match="locked"):
        td["new"] = leaf


def test_clone_copies_on_the_device(td: TensorDict, cpu: TensorDict) -> None:
    for source, expected in ((td, cpu), (td[:, 1:], cpu[:, 1:]), (td[::-1], cpu[::-1])):
        copy = source.clone()
        same(copy, expected)
        copy.set_("b", 0)
        same(source, expected)
    assert td.clone(recurse=False)["a"] is td["a"]


def test_writes(td: TensorDict, cpu: TensorDict) -> None:
    for x in (td, cpu):
        x[0] = {"b": np.arange(4), "a": np.ones((4, 2))}
        x.set_at_("b", 5, (1, slice(1, 3)))
        x.fill_(("n", "c"), 9)
    td[2] = td[1]
    cpu[2] = cpu[1]
    same(td, cpu)
    td.zero_()
    assert not host(td["a"]).any()


def test_update_can_clone(td: TensorDict, cpu: TensorDict) -> None:
    out = TensorDict({}, batch_size=[3, 4]).update(td, clone=True)
    assert out["a"] is not td["a"]
    same(out, cpu)


def test_set_in_place_keeps_the_leaf(td: TensorDict) -> None:
    leaf = td["b"]
    td.lock_().set_("b", cuda.to_device(np.ones((3, 4), np.int64)))
    assert td["b"] is leaf
    np.testing.assert_array_equal(host(leaf), np.ones((3, 4)))


def test_new_arrays_lie_beside_the_leaves(td: TensorDict, cpu: TensorDict) -> None:
    same(td.new_zeros(5), cpu.new_zeros(5))
    same(td.new_full([2], 3), cpu.new_full([2], 3))
    same(np.ones_like(td), np.ones_like(cpu))


def test_dense_copies(td: TensorDict, cpu: TensorDict) -> None:
    assert td.is_contiguous()
    assert td.contiguous()["a"] is td["a"]
    part, expected = td.permute(1, 0), cpu.permute(1, 0)
    assert not part.is_contiguous()
    same(part.contiguous(), expected)
    assert part.contiguous().is_contiguous()
    same(part.to_tensordict(), expected)


def test_pickling_asks_to_move_first(td: TensorDict) -> None:
    raises(TypeError, r"move it first: td.to\(\"cpu\"\)", lambda: pickle.dumps(td))


def test_stack(td: TensorDict, cpu: TensorDict) -> None:
    for dim in (0, 1, 2, -1):
        same(stack([td, td[::-1]], dim), stack([cpu, cpu[::-1]], dim))


def test_cat(td: TensorDict, cpu: TensorDict) -> None:
    for dim in (0, 1):
        same(cat([td, td], dim), cat([cpu, cpu], dim))


def test_lazy_stack(td: TensorDict, cpu: TensorDict) -> None:
    lazy = lazy_stack([td, td])
    assert lazy[0] is td
    np.testing.assert_array_equal(host(lazy["a"]), np.stack([cpu["a"]] * 2))
    same(lazy.contiguous(), lazy_stack([cpu, cpu]).contiguous())
    assert lazy_stack([td, td[:, :2]]).batch_size == (2, 3, -1)


def test_apply_gets_the_leaf_itself(td: TensorDict) -> None:
    seen = []
    td.apply(lambda leaf: seen.append(leaf))
    assert seen[0] is td["a"]


@pytest.mark.filterwarnings("ignore:.*Grid size 1 will likely")
def test_kernels_run_on_leaves(td: TensorDict, cpu: TensorDict) -> None:
    @cuda.jit
    def double(x: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    flat = td.select("b").reshape(12)
    double[1, 32](flat["b"])
    np.testing.assert_array_equal(host(td["b"]), cpu["b"] * 2)


@simulated
def test_arithmetic_goes_to_the_leaf(td: TensorDict, cpu: TensorDict) -> None:
    same(td + 1, cpu + 1)
    same(td * td, cpu * cpu)
    same(td.select("b") == 3, cpu.select("b") == 3)
    td.add_(1)
    same(td, cpu + 1)


def test_what_a_device_leaf_cannot_do_says_so(td: TensorDict) -> None:
    for name, call in [
        ("exp", lambda td: td.exp()),
        ("exp", np.exp),
        ("maximum", lambda td: td.maximum(td)),
        ("cast to float32", lambda td: td.float()),
        ("index array", lambda td: td[np.array([0, 1])]),
        ("index array or mask", lambda td: td[np.array([True, False, True])]),
        ("reduce", lambda td: td.sum()),
        ("reduce", lambda td: td.mean(dim=0)),
        ("take_along_axis|index array", lambda td: td.gather(0, np.zeros((1, 4), int))),
        ("copy", lambda td: td.permute(1, 0).reshape(12)),
        ("copy", lambda td: td[:, 1:3].view(6)),
    ]:
        raises(TypeError, name, call, td.select("a"))


def test_stacking_with_host_arrays_is_refused(td: TensorDict, cpu: TensorDict) -> None:
    raises(TypeError, r"stack|concatenate", lambda: stack([td.select("a"), cpu.select("a")]))


def test_display(td: TensorDict) -> None:
    assert "a: Array(shape=(3, 4, 2), device=cuda:0, dtype=float64, is_shared=False)" in repr(td)
    assert "cuda:0" in td._repr_html_()
    assert td.bytes() == 24 * 8 + 2 * 12 * 8
    assert "192" in td.summary()


def test_nothing_is_copied_to_the_host(td: TensorDict, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("copied to the host")

    monkeypatch.setattr(type(td["a"]), "copy_to_host", refuse)
    td.reshape(12)[2:].clone().unsqueeze(0)
    stack([td, td])
    repr(td)
    for call in (lambda: td.exp(), lambda: td.sum(), lambda: td.float()):
        raises(TypeError, "", call)


class Batch(TensorClass):
    x: Any
    label: str | None = None


@pytest.fixture
def batch() -> Batch:
    return Batch(x=cuda.to_device(np.arange(6.0).reshape(3, 2)), label="l", batch_size=[3])


def test_tensorclasses(batch: Batch) -> None:
    assert batch[1].label == "l"
    np.testing.assert_array_equal(host(batch[1:].x), np.arange(2, 6.0).reshape(2, 2))
    assert isinstance(batch.to("cpu").x, np.ndarray)
