"""BatchRenorm1d: its formula, before and after the warm-up."""

from pathlib import Path

import numpy as np
from helpers.cases import raises

from lite import TensorDict, nn
from lite.models import OnnxModule

RNG = np.random.default_rng(0)
X = (3 * RNG.standard_normal((6, 2)) + 1).astype(np.float32)


def test_the_first_batches_are_normalised_by_themselves() -> None:
    layer = nn.BatchRenorm1d(2, momentum=0.1, warmup_steps=2)
    for _ in range(2):
        np.testing.assert_allclose(layer(X), (X - X.mean(0)) / X.std(0), rtol=1e-4, atol=1e-5)
    share = 1 - 0.9**2
    np.testing.assert_allclose(layer.running_mean, share * X.mean(0), rtol=1e-5)
    np.testing.assert_allclose(layer.running_var, 1 - share + share * X.var(0, ddof=1), rtol=1e-5)
    assert layer.num_batches_tracked == 2


def test_later_ones_by_running_averages_within_limits() -> None:
    layer = nn.BatchRenorm1d(2, warmup_steps=1, max_r=100, max_d=100)
    layer(X)
    mean, std = layer.running_mean.copy(), np.sqrt(layer.running_var + 1e-5)
    other = X + 2
    np.testing.assert_allclose(layer(other), (other - mean) / std, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(nn.BatchRenorm1d(2, warmup_steps=0, max_r=100)(X), X, rtol=1e-4, atol=1e-4)
    layer = nn.BatchRenorm1d(2, warmup_steps=1, max_r=1.5, max_d=0.5)
    layer(X)
    normal = (other - other.mean(0)) / other.std(0)
    np.testing.assert_allclose(layer(other), 1.5 * normal + 0.5, rtol=1e-4, atol=1e-4)


def test_half_way_between_them_and_along_a_length() -> None:
    layer = nn.BatchRenorm1d(2, warmup_steps=4, smooth=True, max_r=100, max_d=100)
    layer(X[:4].reshape(2, 2, 2))
    mean, std = layer.running_mean[:, None].copy(), np.sqrt(layer.running_var + 1e-5)[:, None]
    rows = X.reshape(2, 2, 3)
    own_mean, own_std = rows.mean((0, 2))[:, None], rows.std((0, 2))[:, None]
    r, d = 1 + (own_std / std - 1) / 4, (own_mean - mean) / std / 4
    np.testing.assert_allclose(layer(rows), (rows - own_mean) / own_std * r + d, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean[:, None], mean * 0.99 + own_mean * 0.01, rtol=1e-5)


def test_evaluation_and_its_graph(tmp_path: Path) -> None:
    layer = nn.BatchRenorm1d(2, momentum=0.5)
    layer(X)
    layer.eval()
    expected = (X - layer.running_mean) / np.sqrt(layer.running_var + 1e-5)
    np.testing.assert_allclose(layer(X), expected, rtol=1e-5)
    assert layer.num_batches_tracked == 1
    module = nn.TensorDictModule(layer, ["x"], ["y"])
    td = TensorDict(x=X, batch_size=[6])
    module.to_onnx(tmp_path / "a.onnx", td)
    np.testing.assert_allclose(OnnxModule(tmp_path / "a.onnx")(td.clone())["y"], expected, rtol=1e-5)


def test_what_is_refused() -> None:
    layer = nn.BatchRenorm1d(2)
    raises(ValueError, "at least 2 dimensions", layer, X[0])
    raises(RuntimeError, "num_features=2", layer, X.T)


def test_further_dimensions_are_more_of_the_batch() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32)
    rows = x.swapaxes(1, 2).reshape(-1, 3)
    for training in (True, False):
        wide, flat = (nn.BatchRenorm1d(3).train(training) for _ in range(2))
        np.testing.assert_allclose(wide(x).swapaxes(1, 2).reshape(-1, 3), flat(rows), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(wide.running_mean.data, flat.running_mean.data, rtol=1e-5)
