"""What tells collections, payloads and leaves apart."""

import numpy as np
from helpers.cases import each_case

from lite import (
    NonTensorData,
    NonTensorStack,
    TensorDict,
    default_is_leaf,
    is_leaf_nontensor,
    is_non_tensor,
    is_tensor_collection,
    lazy_stack,
)

KINDS = {
    "array": (np.zeros(2), False, False),
    "number": (3.0, False, False),
    "TensorDict": (TensorDict(a=1), True, False),
    "lazy stack": (lazy_stack([TensorDict(a=1)]), True, False),
    "object": (NonTensorData("x"), True, True),
    "objects": (NonTensorStack("x", "y"), True, True),
}


@each_case("name", KINDS)
def test_kinds(name: str) -> None:
    value, collection, payload = KINDS[name]
    assert is_tensor_collection(value) is collection
    assert is_tensor_collection(type(value)) is collection
    assert is_non_tensor(value) is payload
    assert default_is_leaf(type(value)) is not collection
    assert is_leaf_nontensor(type(value)) is (payload or not collection)
