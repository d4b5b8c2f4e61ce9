"""Contracts: what is written is read, and what is hostile is refused."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite.nn._export import contract
from lite.nn._export.contract import (
    DIGEST,
    MAX_BYTES,
    Contract,
    ContractTensor,
    contract_path,
    digest,
    parse,
    read_contract,
)

CONTRACT = Contract(
    (
        ContractTensor("obs", "obs", ("batch", 4), "float32", {"state": {"mean": [1.0]}}),
        ContractTensor("a.h", ("a", "h"), ("batch", 8), "float64"),
    ),
    (ContractTensor("new_h", ("next", "a", "h"), (None, 8), "float64"),),
    {"a.h": "new_h"},
    "batch",
    "deterministic",
    20,
    "0.1.0",
)


def changed(**entries: Any) -> bytes:
    content = json.loads(CONTRACT.to_bytes())
    content.update(entries)
    return json.dumps(content).encode()


def test_what_is_written_is_read() -> None:
    np.testing.assert_equal(parse(CONTRACT.to_bytes()) == CONTRACT, True)
    np.testing.assert_equal(CONTRACT.to_bytes().count(b"\n") < 30, True)  # a tensor is a line
    start = b'{\n  "format": "lite-onnx-contract",\n  "version": 1,\n'  # which later versions read
    np.testing.assert_equal(CONTRACT.to_bytes()[: len(start)], start)


def test_the_file_beside_the_graph(tmp_path: Path) -> None:
    graph = tmp_path / "policy.onnx"
    np.testing.assert_equal((contract_path(graph).name, read_contract(graph)), ("policy.onnx.json", None))
    contract_path(graph).write_bytes(CONTRACT.to_bytes())
    np.testing.assert_equal(read_contract(graph) == CONTRACT, True)
    np.testing.assert_equal(read_contract(graph, {DIGEST: digest(CONTRACT.to_bytes())}) == CONTRACT, True)
    with pytest.raises(ValueError, match=r"is not the contract that policy\.onnx was exported with"):
        read_contract(graph, {DIGEST: digest(b"")})


TENSOR = {"name": "x", "key": ["x"], "shape": [1], "dtype": "float32"}
HOSTILE = [
    (b"", "expected JSON"),
    (b"\xff\xfe\x00", "expected JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"version": ' + b"9" * 10_000 + b"}", "expected JSON"),
    (b"[]", "the contract must be a JSON object"),
    (b"{}", "must have the format"),
    (changed(version=2), "version 2 is unknown"),
    (changed(version=True), "version True is unknown"),
    (changed(inputs={}), "inputs must be a list"),
    (changed(inputs=[TENSOR] * 5000), "inputs must be a list of at most 4096"),
    (changed(inputs=[TENSOR] * 2), "the same name twice"),
    (changed(inputs=[TENSOR, {**TENSOR, "name": "y"}]), "the same key twice"),
    (changed(inputs=[3]), r"inputs\[0\] must be a JSON object"),
    (changed(outputs=[{**TENSOR, "key": []}]), r"the key of outputs\[0\] must be a list of names"),
    (changed(outputs=[{**TENSOR, "key": [["x"]]}]), r"the key of outputs\[0\] must be a string"),
    (changed(outputs=[{**TENSOR, "key": ["x"] * 40}]), r"the key of outputs\[0\] must be a list of names"),
    (
        changed(outputs=[{**TENSOR, "name": "x" * 2000}]),
        r"the name of outputs\[0\] must be a string of at most",
    ),
    (changed(outputs=[{**TENSOR, "shape": [-1]}]), "must have sizes and names, got -1"),
    (changed(outputs=[{**TENSOR, "shape": [True]}]), "must have sizes and names, got True"),
    (changed(outputs=[{**TENSOR, "shape": [1.5]}]), "must have sizes and names, got 1.5"),
    (changed(outputs=[{**TENSOR, "shape": [1] * 40}]), "must be a list of sizes"),
    (changed(outputs=[{**TENSOR, "dtype": None}]), r"the dtype of outputs\[0\] must be a string"),
    (changed(outputs=[{**TENSOR, "normalization": 3}]), "must be a JSON object"),
    (changed(states={"obs": "nothing"}), "states must pair inputs with outputs"),
    (changed(states={"obs": ["new_h"]}), "states must pair inputs with outputs"),
    (changed(states=[]), "states must be a JSON object"),
    (changed(batch=3), "batch must be a string"),
    (changed(opset="20"), "opset must be an integer"),
]


def test_the_largest_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = {**TENSOR, "name": "x" * 1024, "key": ["x"] * 32, "shape": [0, 2**63 - 1, "n" * 1024, *[1] * 29]}
    (found,) = parse(changed(outputs=[tensor], states={})).outputs
    np.testing.assert_equal(
        [found.name, [*found.key], [*found.shape]], [tensor[k] for k in ("name", "key", "shape")]
    )
    for size in (2**63, "n" * 1025):
        with pytest.raises(ValueError, match="must have sizes and names"):
            parse(changed(outputs=[{**TENSOR, "shape": [size]}]))
    monkeypatch.setattr(contract, "_MAX_TENSORS", 2)
    np.testing.assert_equal(len(parse(CONTRACT.to_bytes()).inputs), 2)


@each_case(("content", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = contract_path(tmp_path / "net.onnx")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_contract(tmp_path / "net.onnx")
    np.testing.assert_equal((str(path) in str(caught.value), len(str(caught.value)) < 600), (True, True))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = contract_path(tmp_path / "net.onnx")
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    raises(ValueError, "more than the", lambda: read_contract(tmp_path / "net.onnx"))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    import os

    path = contract_path(tmp_path / "net.onnx")
    path.mkdir()
    raises((ValueError, OSError), r"net\.onnx\.json", lambda: read_contract(tmp_path / "net.onnx"))
    path.rmdir()
    os.mkfifo(path)  # to open it would wait for ever
    raises((ValueError, OSError), r"net\.onnx\.json", lambda: read_contract(tmp_path / "net.onnx"))


def test_files_damaged_anywhere_are_read_or_refused() -> None:
    whole, rng = CONTRACT.to_bytes(), random.Random(0)
    refused = 0
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            parse(bytes(damaged))
        except ValueError:
            refused += 1
    np.testing.assert_equal(refused > 30, True)


def test_batch_axes() -> None:
    contract = Contract(
        (ContractTensor("x", "x", (2, "n", 3), "float32"),),
        (ContractTensor("y", "y", (3,), "float32"), ContractTensor("z", "z", ("n",), "float32")),
        batch="n",
    )
    np.testing.assert_equal(contract.axes(), {"x": 1, "y": None, "z": 0})
    np.testing.assert_equal(Contract(contract.inputs, contract.outputs).axes(), {})
