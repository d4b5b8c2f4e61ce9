"""`Linear` with an adapter: half precision, ensembles, the weight that others read."""

from typing import Any

import numpy as np
from helpers.cases import each_case

from lite import TensorDict, nn, vmap
from lite.nn._lora.linear import Adapter, LoraLinear, low_rank

X = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)


@each_case("dtype", [np.float32, np.float16])
def test_the_adapter_has_the_dtype_of_the_layer(dtype: type) -> None:
    net = nn.lora(nn.Linear(6, 4, rng=0, dtype=dtype), 2, targets="*", rng=0)
    assert {parameter.dtype for parameter in net.parameters()} == {np.dtype(dtype)}
    net.get_submodule("lora_B").weight.data[...] = 1
    want = X @ net._tensor("weight").astype(np.float32).T + net.get_parameter("bias").data
    out = net(X.astype(dtype))
    assert out.dtype == dtype
    np.testing.assert_allclose(out, want, rtol=1e-5 if dtype == np.float32 else 2e-2, atol=2e-2)


def test_an_ensemble_of_layers_with_adapters() -> None:
    nets: list[Any] = [
        nn.lora(nn.Sequential(nn.Linear(6, 4, rng=i)), 2, targets="*", rng=i) for i in range(3)
    ]
    for i, net in enumerate(nets):
        net.get_submodule("0.lora_B").weight.data[...] = i
    assert type(nets[0][0]) is LoraLinear
    params = TensorDict.from_modules(*nets).data

    def call(params: TensorDict) -> Any:
        with params.to_module(nets[0]):
            return nets[0](X)

    for out, net in zip(vmap(call)(params), nets, strict=True):
        np.testing.assert_allclose(out, net(X), rtol=1e-5, atol=1e-6)


def test_the_sum_of_both_ways(rng: np.random.Generator) -> None:
    """x with the merged matrix is the product with one matrix after the other, also for stacked ones."""
    x, a, b = rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 6, 2))
    np.testing.assert_allclose(low_rank(x, a, b, 3.0), x @ (3 * b @ a).swapaxes(-1, -2))
    one, other = nn.Linear(4, 2, bias=False, rng=0), nn.Linear(2, 6, bias=False, rng=1)
    adapter = Adapter("", "", (one, "weight"), (other, "weight"), 3.0)
    merged = adapter.product()
    assert merged.shape == (6, 4)
    np.testing.assert_allclose(merged, 3 * other.weight.data @ one.weight.data, rtol=1e-5, atol=1e-7)
