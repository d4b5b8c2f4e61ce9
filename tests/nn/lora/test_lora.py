"""Adapters of modules: the formula, what learns, copies, merging."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lora_nets import PATHS, X, adapted, by_hand, filled, graph

from lite import TensorDict, checkpoint, enable_grad, jit, nn, value_and_grad, vmap
from lite.models import embedded_model_path


def learning(net: nn.Module) -> list[str]:
    return [name for name, parameter in net.named_parameters() if parameter.requires_grad]


def test_a_graph_computes_the_formula() -> None:
    net = adapted()
    assert learning(net) == [f"{path}.lora_{x}.weight" for path in PATHS[:2] for x in "AB"]
    np.testing.assert_allclose(net(X), by_hand(net, X, 4.0), rtol=1e-5, atol=1e-6)


def linear_nets() -> dict[str, Any]:
    keyed = nn.TensorDictModule(nn.Sequential(nn.Linear(6, 4, rng=1), nn.Tanh()), ["x"], ["y"])
    return {
        "sequential": nn.Sequential(nn.Linear(6, 4, rng=1), nn.Tanh(), nn.Linear(4, 2, bias=False, rng=2)),
        "linear": nn.Linear(6, 4, rng=1),
        "keyed": keyed,
        "attention": nn.MultiheadAttention(6, 2, rng=1),
        "of a graph": nn.Sequential(nn.from_onnx(graph()), nn.Linear(5, 2, rng=1)),
    }


def run(name: str, net: Any) -> np.ndarray:
    if name == "keyed":
        return net(TensorDict({"x": X}, [2]))["y"]
    return net(X, X, X)[0] if name == "attention" else net(X)


@pytest.mark.parametrize("name", linear_nets())
def test_every_kind_of_module_merges_to_what_it_computed(name: str) -> None:
    """`MultiheadAttention` reads the weight of its layer, which it does not call."""
    base = linear_nets()[name]
    net = filled(nn.lora(base, 2, targets="*", rng=0))
    assert isinstance(net, type(base))
    assert isinstance(net, nn.LoraModule)
    assert all("lora_" in one for one in learning(net))
    merged = net.merge()
    assert type(merged) is type(base)
    assert not learning(merged)
    assert merged.state_dict().keys() == base.state_dict().keys()
    for (_, module), (_, plain) in zip(merged.named_modules(), base.named_modules(), strict=True):
        assert vars(module).keys() == vars(plain).keys()
    np.testing.assert_allclose(run(name, merged), run(name, net), rtol=2e-5, atol=1e-6)
    assert np.abs(run(name, net) - run(name, base)).max() > 0.1
    for clone in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(run(name, clone), run(name, net))
        assert isinstance(clone, nn.LoraModule)
        assert learning(clone) == learning(net)


def loss_of(net: Any) -> Any:
    def loss(params: Any, x: Any) -> Any:
        with params.to_module(net):
            return (net(x) ** 2).mean()

    return loss


@pytest.mark.parametrize("name", ["sequential", "of a graph"])
def test_gradients_in_every_way(name: str) -> None:
    net = filled(nn.lora(linear_nets()[name], 2, 0.5, targets="*", rng=0))
    params = net.adapter_params().data.clone()
    loss = loss_of(net)
    value, grads = value_and_grad(loss)(params, X)
    assert set(grads.keys(True, True)) == set(params.keys(True, True))
    h, checked = 1e-2, 0
    for key, grad in grads.items(True, True):
        at = np.unravel_index(np.abs(grad).argmax(), grad.shape)
        steps = []
        for sign in (h, -h):
            moved = params.clone()
            moved[key][at] += sign
            steps.append(float(loss(moved, X)))
        np.testing.assert_allclose((steps[0] - steps[1]) / (2 * h), grad[at], rtol=0.02)
        checked += 1
    assert checked == len(learning(net))
    with enable_grad():
        (net(X) ** 2).mean().backward()
    for (key, grad), (_, parameter) in zip(
        grads.items(True, True), net.adapter_params().items(True, True), strict=True
    ):
        np.testing.assert_allclose(parameter.grad, grad, rtol=1e-4, atol=1e-6, err_msg=str(key))
    assert all(p.grad is None for _, p in net.named_parameters() if not p.requires_grad)
    traced, traced_grads = jit(lambda p, x: value_and_grad(loss)(p, x))(params, X)
    np.testing.assert_allclose(traced, value, rtol=1e-5)
    kept = value_and_grad(checkpoint(loss))(params, X)[1]
    each = vmap(value_and_grad(loss), (None, 0))(params, X)[1]
    for key, grad in grads.items(True, True):
        np.testing.assert_allclose(kept[key], grad, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(traced_grads[key], grad, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(each[key].mean(0), grad, rtol=1e-4, atol=1e-6)


def test_a_saved_graph_has_the_merged_weights(tmp_path: Any) -> None:
    net = adapted()
    raises(ValueError, r"merge\(\) first", lambda: net.save_onnx(tmp_path / "net.onnx"))
    saved = net.merge().save_onnx(tmp_path / "net.onnx")
    assert saved.stat().st_size == len(graph())
    np.testing.assert_allclose(nn.from_onnx(saved)(X), net(X), rtol=1e-5, atol=1e-6)


@each_case(
    ("options", "message"),
    [
        ({"targets": ["q_proj", "k_proj"]}, r"'k_proj'; there are 'model\.layers\.\*\.self_attn\.q_proj"),
        ({"targets": []}, "targets: it is empty; choose from"),
        ({"rank": 0}, "rank must be a positive integer, got 0"),
        ({"rank": 2.0}, "rank must be a positive integer"),
        ({"alpha": float("nan")}, "alpha must be positive"),
    ],
)
def test_what_it_refuses(options: Any, message: str) -> None:
    raises(ValueError, message, lambda: nn.lora(nn.from_onnx(graph()), **options))


def test_other_things_that_it_refuses() -> None:
    with pytest.raises(TypeError, match="module must be a Module, got str"):
        nn.lora("model.onnx")  # type: ignore[arg-type]
    raises(ValueError, "module has adapters already: merge", lambda: nn.lora(adapted()))
    raises(ValueError, "uninitialized 'weight': call it once", lambda: nn.lora(nn.LazyLinear(3), targets="*"))
    with pytest.raises(ValueError, match="no name is one of attention's projections; choose from '0'"):
        nn.lora(nn.Sequential(nn.Linear(2, 2)))


@pytest.mark.parametrize("qkv", [False, (128, 64, 64)])
def test_adapters_begin_with_those_of_a_file(qkv: Any, tmp_path: Any) -> None:
    """Of onnxruntime, of PEFT, and of PEFT for the three layers that one is made of."""
    base = nn.from_onnx(embedded_model_path() / "model.onnx", trainable=False)
    net = filled(nn.lora(base, 3, 5, ["qkv_proj", "layers.0.*.down_proj"], rng=0))
    if qkv is False:
        file = net.save_adapter(tmp_path / "a.onnx_adapter")
    else:
        file = net.save_adapter(tmp_path / "a", qkv=qkv)
    begun = nn.lora(base, adapter=file, rng=1)
    assert learning(begun) == learning(net)
    for mine, wanted in zip(begun._adapters(), net._adapters(), strict=True):
        np.testing.assert_allclose(mine.product(), wanted.product(), atol=1e-5)
    with pytest.raises(ValueError, match="adapter: the module has no adapter of"):
        nn.lora(base, targets="qkv_proj", adapter=file)
    with pytest.raises(FileNotFoundError, match="adapter: there is no adapter"):
        nn.lora(base, adapter=tmp_path / "missing.onnx_adapter")
    raises(
        ValueError,
        "targets: no layer is called",
        nn.lora,
        nn.Sequential(nn.Linear(2, 2)),
        adapter=file,
    )
