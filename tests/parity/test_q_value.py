"""QValueActor and ValueOperator against torchrl's."""

import numpy as np
import pytest
import torch
from parity.losses import both, mlp


@pytest.mark.parametrize("space", ["categorical", "one-hot", "one_hot"])
@pytest.mark.parametrize("masked", [False, True])
def test_actors(space, masked):
    mask_key = "mask" if masked else None
    ours, theirs = both(lambda s: s.QValueActor(mlp(s, 4, 3), action_space=space, action_mask_key=mask_key))
    observation = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    mask = np.random.default_rng(1).random((7, 3)) < 0.7
    mask[:, 0] = True
    entries = {"observation": observation, **({"mask": mask} if masked else {})}
    found = ours(**entries)
    with torch.no_grad():
        expected = theirs(**{key: torch.from_numpy(value) for key, value in entries.items()})
    assert ours.in_keys == list(theirs.in_keys)
    assert ours.out_keys == list(theirs.out_keys)
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.numpy().dtype
        np.testing.assert_allclose(mine, other.numpy(), 1e-6, 1e-6)


def test_values():
    for keys in (None, ["observation", "action"]):
        ours, theirs = both(lambda s, keys=keys: s.ValueOperator(mlp(s, 4, 1), in_keys=keys))
        assert ours.in_keys == list(theirs.in_keys)
        assert ours.out_keys == list(theirs.out_keys)
