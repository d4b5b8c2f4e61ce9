"""EGreedyModule: which actions are replaced, and by what."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict, nn
from lite.data import Categorical, Composite


def explored(spec: Any, action: Any, eps: float = 1.0, batch: Any = None, **entries: Any) -> Any:
    options = {"action_mask_key": "mask"} if "mask" in entries else {}
    module = nn.EGreedyModule(spec, eps, eps, generator=0, **options)
    batch = [len(action)] if batch is None else batch
    return module(TensorDict(action=action, batch_size=batch, **entries))["action"]


@each_case("eps", [0.0, 0.25, 1.0])
def test_share_of_random_actions(eps: float) -> None:
    action = np.full(4000, 7)  # which is not drawn
    action.flags.writeable = False
    got = explored(Categorical(4), action, eps)
    assert abs((got != 7).mean() - eps) < 0.03
    for drawn in range(4 * (eps > 0)):
        assert abs((got == drawn).mean() - eps / 4) < 0.03


def test_specs_with_a_batch() -> None:
    spec = Composite(action=Categorical(3, (4,)), shape=(4,))
    got = explored(spec, np.full((50, 4), 9), 0.5, batch=[50, 4])
    assert {0, 1, 2, 9} == set(np.unique(got))
    with pytest.raises(ValueError, match=r"the action must be of Categorical.*got shape \(3,\)"):
        explored(spec, np.zeros(3, int))


def test_masks() -> None:
    mask = np.zeros((300, 4), bool)
    mask[:, [1, 3]] = True
    ids = explored(Categorical(4), np.zeros(300, int), mask=mask)
    assert set(ids) == {1, 3}
    assert 0.4 < (ids == 1).mean() < 0.6
    with pytest.raises(ValueError, match=r"the mask must have shape \(300, 1\), one flag"):
        explored(Categorical(4), np.zeros(300, int), mask=mask[:, :3][:, :, None])
    with pytest.raises(ValueError, match="the mask 'mask' allows no action in some rows"):
        explored(Categorical(4), np.zeros(300, int), mask=mask & False)
    with pytest.raises(KeyError, match="EGreedyModule reads the entry 'mask', which the TensorDict lacks"):
        nn.EGreedyModule(Categorical(4), action_mask_key="mask")(TensorDict(action=np.zeros(3, int)))


class OneHot(Categorical):
    """A spec of rows of 0 and 1."""


def test_masks_of_rows() -> None:
    mask = np.tile([True, False, True], (100, 1))
    got = explored(OneHot(2, (3,)), np.zeros((100, 3), int), mask=mask)
    np.testing.assert_array_equal(got.sum(1), 1)
    np.testing.assert_array_equal(got.sum(0) > 20, [True, False, True])
