"""Limits of time and memory."""

import threading
import time
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.onnx_nodes import Case, module_of

from lite.nn._import.limits import Memory, check_time, elements_limit, is_limited, most_elements, time_limit


def test_the_earliest_limit_holds_and_says_what_took_so_long() -> None:
    check_time()
    with time_limit(0.0, "the whole"), time_limit(60.0, "a part"):
        time.sleep(0.001)
        raises(TimeoutError, "may never end: the whole took over 0 seconds", check_time)
    with time_limit(60.0, "the whole"):
        with time_limit(0.0, "a part"):
            time.sleep(0.001)
            raises(TimeoutError, "a part took over", check_time)
        check_time()
    assert not is_limited()


def test_limits_are_of_a_thread() -> None:
    found: list[bool] = []
    with time_limit(60.0, "the whole"):
        thread = threading.Thread(target=lambda: found.append(is_limited()))
        thread.start()
        thread.join()
    assert found == [False]


def test_arrays_and_memory() -> None:
    with elements_limit(10):
        assert (most_elements(5), most_elements(20)) == (5, 10)
    assert most_elements(20) == 20
    memory = Memory(10)
    assert [memory.take(size) for size in (6, 5, 4, 1)] == [True, False, True, False]


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


TERABYTES = 1 << 40
NUMBERS = np.array([TERABYTES])
PICTURE, KERNEL = ones(1, 2, 5, 5), ones(2, 2, 3, 3)
QUERY, CACHE = [ones(1, 4, 16), ones(1, 4, 8), ones(1, 4, 8)], [ones(1, 1, 0, 8), ones(1, 1, 0, 8)]
LENGTHS = [np.array([3], np.int32), np.array(4, np.int32)]
MICROSOFT = "com.microsoft"
# Each was a hang, a division by zero, an overflow, or would be an array that no machine holds.
REFUSED = [
    (Case("ConstantOfShape", [NUMBERS]), "cannot be made"),
    (Case("ConstantOfShape", [np.array([1 << 33, 1 << 33])]), "cannot be made"),
    (Case("Expand", [ones(1), NUMBERS]), "cannot be made"),
    (Case("Tile", [ones(2), NUMBERS]), "cannot be made"),
    (Case("Pad", [ones(2), np.array([TERABYTES, 0])]), "cannot be made"),
    (Case("OneHot", [np.array([1]), NUMBERS[0], ones(2)]), "cannot be made"),
    (Case("Resize", [PICTURE, None, None, np.array([1, 2, TERABYTES, TERABYTES])]), "cannot be made"),
    (Case("Range", [np.array(0), np.array(1 << 60), np.array(1)]), "cannot be made"),
    (Case("Range", [np.array(0), np.array(9), np.array(0)]), "no range leads from 0 to 9 in steps of 0"),
    (Case("Range", [np.float32(0), np.float32(np.inf), np.float32(1)]), "no range leads"),
    (Case("Split", [ones(4)], {"num_outputs": TERABYTES}), "num_outputs is 1099511627776, and it has 1"),
    (Case("Conv", [PICTURE, KERNEL], {"strides": [0, 0]}), "Conv 'node': strides must be at least 1"),
    (Case("ConvTranspose", [PICTURE, KERNEL], {"group": 0}), "group must be at least 1, got 0"),
    (Case("ConvTranspose", [PICTURE, KERNEL], {"strides": [TERABYTES, 1]}), "cannot be made"),
    (Case("AveragePool", [PICTURE], {"kernel_shape": [TERABYTES, TERABYTES]}), "with its padding"),
    (Case("Col2Im", [ones(1, 4, 4), np.array([3, 3]), np.array([0, 0])]), "block_shape must be at least 1"),
    (Case("Col2Im", [ones(1, 4, 4), np.array([TERABYTES] * 2), np.array([2, 2])]), "cannot be made"),
    (Case("Col2Im", [ones(1 << 20, 1, 1), np.array([8192] * 2), np.array([1, 1])], {"strides": [8192, 8192]}),
        "cannot be made"),
    (Case("Conv", [PICTURE, KERNEL], {"group": "two"}), "group must be an integer, got 'two'"),
    (Case("Conv", [PICTURE, KERNEL], {"strides": [1.5, 1.5]}), "strides must be a list of integers"),
    (Case("Conv", [PICTURE]), r"'node' \(Conv\) has 1 inputs, and takes 2 to 3"),
    (Case("Add", [ones(2)] * 3), r"'node' \(Add\) has 3 inputs, and takes 2"),
    (Case("LayerNormalization", [ones(2)]), "has 1 inputs, and takes 2 to 3"),
    (Case("Transpose", [ones(2, 2)], {"perm": 1.5}), "Transpose 'node': perm must be a list of integers"),
    (Case("Cast", [ones(2)], {"to": [1]}), r"'node' \(Cast\): invalid attributes of Cast"),
    (Case("Einsum", [ones(2)], {"equation": 7}), "Einsum 'node': equation must be a text, got 7"),
    (Case("DepthToSpace", [ones(1, 4, 2, 2)]), "the attribute blocksize is missing"),
    (Case("GroupNormalization", [ones(2, 3), ones(3), ones(3)], {"num_groups": 0}), "num_groups must be"),
    (
        Case("MatMulNBits", [ones(1, 32), ones(4, 1, 16, dtype=np.uint8), ones(4)],
             {"N": TERABYTES, "K": TERABYTES, "bits": 4, "block_size": 32}, MICROSOFT),
        "in blocks of 32, got 64",
    ),
    (
        Case("GroupQueryAttention", [*QUERY, *CACHE, *LENGTHS],
             {"num_heads": 0, "kv_num_heads": 0}, MICROSOFT, 3),
        "num_heads must be at least 1",
    ),
    (
        Case("GroupQueryAttention", [*QUERY, *CACHE, *LENGTHS],
             {"num_heads": TERABYTES, "kv_num_heads": 1}, MICROSOFT, 3),
        "for queries of width 16",
    ),
]  # fmt: skip


@each_case(("case", "message"), REFUSED, ids=[str(case) for case, _ in REFUSED])
def test_hostile_nodes_are_refused(case: Case, message: str) -> None:
    raises(ValueError, message, lambda: module_of(case)(*(x for x in case.inputs if x is not None)))
