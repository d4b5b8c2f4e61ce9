"""From a file to a policy that learns: keys, contracts, and the path through losses and steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.onnx_nodes import model_of

from lite import TensorDict, jit, nn, optim, value_and_grad
from lite._files.onnx import writer
from lite.nn._export.contract import Contract, ContractTensor, contract_path
from lite.nn.losses import DQNLoss

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def exported(folder: Path, contract: bool = False) -> tuple[nn.Module, Path]:
    net = nn.Sequential(nn.Linear(4, 8, rng=0), nn.Tanh(), nn.Linear(8, 2, rng=1))
    return net, net.to_onnx(folder / "net.onnx", X, contract=contract)


def test_a_file_or_its_bytes(tmp_path: Path) -> None:
    net, path = exported(tmp_path)
    for model in (path, str(path), path.read_bytes()):
        np.testing.assert_allclose(nn.from_onnx(model)(X), net(X), rtol=1e-6)
    raises(FileNotFoundError, "there is no ONNX file", lambda: nn.from_onnx(tmp_path / "other.onnx"))
    with pytest.raises(TypeError, match="a path or bytes, got int"):
        nn.from_onnx(3)  # type: ignore[arg-type]
    (tmp_path / "no.onnx").write_bytes(b"hello")
    raises(ValueError, r"no\.onnx: not a", lambda: nn.from_onnx(tmp_path / "no.onnx"))


def test_keys_by_list_and_by_name(tmp_path: Path) -> None:
    net, path = exported(tmp_path)
    for in_keys, out_keys in (([("agent", "obs")], ["q"]), ({"input": ("agent", "obs")}, {"output": "q"})):
        module = nn.from_onnx(path, in_keys=in_keys, out_keys=out_keys)
        td = module(TensorDict({"agent": {"obs": X}}, [5]))
        np.testing.assert_allclose(td["q"], net(X), rtol=1e-6)
    raises(ValueError, r"in_keys names \['z'\]", lambda: nn.from_onnx(path, in_keys={"z": "obs"}))
    raises(ValueError, "out_keys has 2 keys for the 1 of the graph", nn.from_onnx, path, out_keys=["a", "b"])


def test_a_contract_has_the_keys(tmp_path: Path) -> None:
    policy = nn.TensorDictModule(nn.Linear(4, 2, rng=0), [("agent", "obs")], ["action"])
    td = TensorDict({"agent": {"obs": X}}, [5])
    path = policy.to_onnx(tmp_path / "policy.onnx", td)
    again = nn.from_onnx(path)
    assert (again.in_keys, again.out_keys) == ([("agent", "obs")], ["action"])
    np.testing.assert_allclose(again(td.clone())["action"], policy(td.clone())["action"], rtol=1e-6)


def test_an_input_that_is_given_back_has_a_key_of_its_own_there(tmp_path: Path) -> None:
    path, after = tmp_path / "step.onnx", ("next", "obs")
    path.write_bytes(model_of([writer.node("Relu", "node", ["x"], ["y"], {})], {"x": X}, ["y", "x"]))
    x, y = ContractTensor("x", "obs", (None, None), "float32"), ContractTensor("y", "act", (5, 4), "float32")
    contract_path(path).write_bytes(Contract((x,), (y, replace(x, key=after))).to_bytes())
    td = nn.from_onnx(path)(TensorDict(obs=X, batch_size=[5]))
    np.testing.assert_array_equal(td[after], X)


def test_an_exported_actor_goes_on_learning_in_a_graph(tmp_path: Path) -> None:
    net, path = exported(tmp_path)
    rng = np.random.default_rng(1)
    batch = TensorDict(observation=X, action=rng.integers(0, 2, 5), batch_size=[5])
    after = TensorDict(observation=X + 1, reward=np.ones((5, 1), np.float32), batch_size=[5])
    after["done"] = after["terminated"] = rng.integers(0, 2, (5, 1)).astype(bool)
    batch["next"] = after

    def learned(net: nn.Module, wrap: Any) -> list[float]:
        actor = nn.QValueActor(net, action_space="categorical")
        loss = DQNLoss(actor, delay_value=False)
        params = TensorDict.from_module(loss).select("value_network_params").data.clone()
        adam = optim.Adam(1e-2)
        state = adam.init(params)

        def update(params: Any, state: Any, batch: Any) -> Any:
            def objective(params: Any) -> Any:
                with params.to_module(loss):
                    return loss(batch)["loss"]

            value, grads = value_and_grad(objective)(params)
            return value, *adam.update(params, grads, state)

        run, losses = wrap(update), []
        for _ in range(4):
            value, params, state = run(params, state, batch.clone())
            losses.append(float(value))
        return losses

    plain = learned(net, lambda fn: fn)
    assert plain[-1] < plain[0]
    np.testing.assert_allclose(learned(nn.from_onnx(path), lambda fn: fn), plain, rtol=1e-5)
    np.testing.assert_allclose(learned(nn.from_onnx(path), jit), plain, rtol=1e-4)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Also where the damage is met late: in a node, or in the numbers of a weight."""
    file = nn.Linear(64, 64).to_onnx(tmp_path / "net.onnx", np.zeros((1, 64), np.float32), contract=False)
    whole, rng = Path(file).read_bytes(), np.random.default_rng(0)
    for at in rng.integers(0, 600, 300):
        at = int(at) if at < 300 else len(whole) - int(at)
        Path(file).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
        said = "net.onnx"
        try:
            nn.from_onnx(file)
        except (ValueError, NotImplementedError, FileNotFoundError) as error:
            said = str(error)
        assert "net.onnx" in said, at
