"""Every kernel that calls on device arrays launch, compiled for a GPU that need not be there.

    python cuda_launches.py record FILE    in the simulator: the calls below, and the types each launch gets
    python cuda_launches.py compile FILE   by Numba's compiler: PTX for sm_90, or the error

The simulator runs kernels as Python, which takes much that the compiler does not. Two processes, because
Numba is either the one or the other. `test_cuda_compiles.py` starts them.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

CAPABILITY = (9, 0)


def calls() -> Iterator[Callable[[], Any]]:
    """Of all functions; each kernel in types of all sizes and kinds, which are compiled apart, and in all its
    forms for float32: of others the reading of numbers differs."""
    from helpers.kernels_under_test import Foreign, to_device
    from ml_dtypes import bfloat16

    from lite import kernels

    def ones(dtype: Any) -> Any:
        return to_device(np.ones((2, 9)).astype(dtype))

    done, flags = ones(bool), ones(np.uint16)  # which is the type that memory of bfloat16 has in kernels
    x, wide, gamma = ones(np.float32), ones(np.float64), ones(np.float32)
    for dtype in (np.float16, bfloat16, np.float32, np.float64, np.uint64):
        y = ones(dtype)
        yield lambda y=y: kernels.multistep_return(y, done, gamma=0.9, n_steps=3)
        yield lambda y=y: kernels.td_lambda_return(y, y, done, gamma=0.9, lmbda=0.9)
    half, short = ones(bfloat16), ones(np.float16)
    yield lambda: kernels.gae(x, x, x, done, gamma=0.9, lmbda=0.9)
    yield lambda: kernels.gae(short, short, short, flags, done, gamma=gamma, lmbda=wide)
    yield lambda: kernels.vtrace(wide, x, half, half, half, done, gamma=0.9)
    yield lambda: kernels.retrace(wide, half, x, x, x, done, gamma=0.9, lmbda=gamma)
    yield lambda: kernels.retrace(x, x, x, x, x, done, gamma=0.9)
    yield lambda: kernels.multistep_return(ones(np.complex64), flags, gamma=0.9, n_steps=3)
    yield lambda: kernels.td_lambda_return(x, half, done, gamma=0.9, lmbda=gamma, rolling=False)
    yield lambda: kernels.td0_return(x, x, flags, gamma=gamma)
    for item, index in (("i1", "i4"), ("f2", "i8"), ("f4", "u8"), ("c16", "i4")):
        array, at = Foreign(np.ones((9, 2), item).T), Foreign(np.zeros((9, 2), index).T)
        yield lambda array=array, at=at: kernels.gather_time(array, at)
    yield from _calls_on_logits()


def _calls_on_logits() -> Iterator[Callable[[], Any]]:
    from helpers.kernels_under_test import Foreign, to_device
    from ml_dtypes import bfloat16

    from lite import kernels
    from lite.kernels.cuda._gpu import Gpu
    from lite.kernels.cuda.sample_tokens import _packed

    tokens, flags = to_device(np.zeros(3, np.int32)), to_device(np.ones((3, 700), bool))
    bits, bias = to_device(np.full((3, 22), -1, np.int32)), (np.arange(4), np.arange(3), np.ones(3))
    wanted: dict[str, Any] = {"details": True, "kept_ids": True, "top_n": 2}
    support, scores = (np.arange(4), np.arange(3)), to_device(np.zeros((3, 700), np.float32))
    for dtype in (np.float16, bfloat16, np.float32, np.float64):
        x = to_device(np.zeros((3, 700), dtype))
        one = to_device(np.zeros((1, 700), dtype))  # by several blocks
        yield lambda x=x: kernels.token_log_probs(x, tokens)
        yield lambda x=x: kernels.entropy(x, temperature=np.full(3, 0.5))
        yield lambda x=x: kernels.log_softmax_stats(x, axis=0)
        yield lambda x=x: kernels.masked_log_softmax(x, flags)
        yield lambda one=one: kernels.masked_log_softmax(one)
        yield lambda x=x: kernels.sample_tokens(x, np.arange(3), top_k=2, mask=flags)
        yield lambda x=x: kernels.token_scores(x, tokens, temperature=np.full(3, 0.5), support=support)
        if dtype in (np.float32, bfloat16):
            yield lambda x=x: kernels.sample_tokens(x, np.arange(3), mask=flags, scores=scores, **wanted)
        if dtype == np.float32:
            yield lambda x=x: kernels.token_log_probs_and_entropy(x, to_device(np.zeros(3, np.int64)), flags)
            yield lambda x=x: kernels.sample_tokens(x, np.arange(3), typical_p=0.9, mask=bits, bias=bias)
            yield lambda x=x: kernels.token_log_probs(x, tokens, support=support)
    y, out = to_device(np.zeros((9, 4), np.float32)), Foreign(np.zeros((9, 8), np.float32)[:, ::2])
    kept = to_device(np.zeros(12, np.int32))
    yield lambda: _packed(Gpu(None, {"kept": kept}), kept, 4, np.arange(3))  # nothing is drawn here
    yield lambda: kernels.masked_log_softmax(y, out=out)
    yield lambda: kernels.sample_tokens(y, np.arange(9), previous=to_device(np.zeros((9, 2), np.uint16)))


def record(path: Path) -> None:
    from lite.kernels.cuda._gpu import Gpu

    launches: dict[str, tuple[str, str, Any]] = {}

    def launch(self: Any, kernel: Any, blocks: int, threads: int, *args: Any, shared: int = 0) -> None:
        kept = tuple(map(_placeholder, args))
        entry = (kernel.__module__, kernel.__name__, kept)
        launches.setdefault(f"{entry[:2]} {tuple(map(_described, kept))}", entry)

    Gpu.launch = launch  # type: ignore[method-assign]
    for call in calls():
        call()
    path.write_bytes(pickle.dumps(list(launches.values())))


def _placeholder(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_placeholder, value))
    return np.zeros((1,) * value.ndim, value.dtype) if hasattr(value, "copy_to_host") else value


def _described(value: Any) -> Any:
    """What the compiler sees of it."""
    if isinstance(value, tuple):
        return tuple(map(_described, value))
    return (value.dtype.str, value.ndim) if isinstance(value, np.ndarray) else type(value).__name__


def compile_(path: Path) -> None:
    """Print a line for each launch; the exit status is 77 where the compiler is missing, 1 after errors.

    Types are all decided before NVVM optimizes, which takes most of the time: that is done once a kernel.
    """
    import numba
    from numba import cuda

    try:
        cuda.compile_ptx(lambda: None, (), cc=CAPABILITY)
    except Exception as error:
        print(f"Numba cannot compile for CUDA: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
        raise SystemExit(77) from None
    if not path.exists():
        return
    _pretend_a_device()
    failed, optimized = 0, set()
    for module, name, args in pickle.loads(path.read_bytes()):
        kernel = getattr(importlib.import_module(module), name)
        signature = tuple(numba.typeof(arg) for arg in args)
        try:
            first = name not in optimized
            code, _ = cuda.compile_ptx(kernel.py_func, signature, cc=CAPABILITY, opt=first)
            optimized.add(name)
            assert ".target sm_90" in code
            print("compiled", module, name)
        except Exception as error:
            failed += 1
            print(f"FAILED {module} {name}{signature}: {error}")
    raise SystemExit(failed > 0)


def _pretend_a_device() -> None:
    """Device functions are compiled for the GPU at hand, which they ask for."""
    from numba.cuda import compiler, dispatcher

    for module in (compiler, dispatcher):
        module.get_current_device = lambda: types.SimpleNamespace(compute_capability=CAPABILITY)


if __name__ == "__main__":
    {"record": record, "compile": compile_}[sys.argv[1]](Path(sys.argv[2]))
