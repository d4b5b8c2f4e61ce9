"""Log-probs of a linear layer and their gradients are torch's."""

import numpy as np
import pytest
import torch

from lite import value_and_grad
from lite.nn import functional as F


@pytest.mark.parametrize(("learning", "temperature"), [((0,), 0.7), ((0, 1, 2), 1.0)])
def test_values_and_gradients(learning, temperature):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 9, 16), (5000, 16), (5000,))]
    ids, mask = rng.integers(0, 5000, (2, 9)), rng.random((2, 9)) < 0.7
    advantage = np.where(mask, rng.normal(size=(2, 9)), 0).astype(np.float32)

    def loss(x, w, b):
        scores = F.linear_log_probs(x, w, ids, b, mask=mask, temperature=temperature)
        return (np.exp(scores / 10) * advantage).sum()

    value, slopes = value_and_grad(loss, learning)(*arrays)
    x, w, b = (torch.from_numpy(a).requires_grad_(i in learning) for i, a in enumerate(arrays))
    logits = torch.nn.functional.linear(x, w, b) / temperature
    scores = torch.log_softmax(logits, -1).gather(-1, torch.from_numpy(ids)[..., None])[..., 0]
    expected = ((scores / 10).exp() * torch.from_numpy(advantage)).sum()
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    for place, slope in zip(learning, slopes, strict=True):
        other = (x, w, b)[place].grad.numpy()
        np.testing.assert_allclose(slope, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
