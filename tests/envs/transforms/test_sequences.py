import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.envs import BurnInTransform, RandomCropTensorDict
from lite.nn import TensorDictModule


def test_burn_in():
    x = np.arange(10.0).reshape(2, 5, 1)
    td = TensorDict({"x": x}, [2, 5])
    module = TensorDictModule(lambda x: np.cumsum(x, 1), ["x"], [("next", "h")])
    burn = BurnInTransform(module, 2, out_keys=[("next", "h")])
    assert (burn.in_keys, burn.out_keys) == (["x"], ["h"])
    out = burn(td)
    np.testing.assert_array_equal(out["x"], x[:, 2:])
    np.testing.assert_array_equal(out["h"][..., 0], [[1, 0, 0], [11, 0, 0]])
    assert "next" not in td
    td["h"] = np.full((2, 5, 1), 9.0)
    np.testing.assert_array_equal(BurnInTransform([module], 2)(td)["h"][..., 0], [[1, 9, 9], [11, 9, 9]])
    assert (td["h"] == 9).all()
    assert BurnInTransform(module, 0)(td) is td
    raises(ValueError, "modules must be TensorDictModules, got function", BurnInTransform, lambda td: td, 2)
    raises(RuntimeError, "for replay buffers, not for environments", burn._call, td)


def test_crops():
    td = TensorDict({"t": np.tile(np.arange(9), (200, 1))}, [200, 9])
    td["mask"] = td["t"] < 6
    for keywords, last in (({}, 5), ({"mask_key": "mask"}, 2)):
        out = RandomCropTensorDict(3, generator=0, **keywords)(td)["t"]
        assert set(out[:, 0]) == set(range(last + 1))
        np.testing.assert_array_equal(out, out[:, :1] + np.arange(3))
    with pytest.raises(RuntimeError, match="sequences must have at least 7 steps, got 6"):
        RandomCropTensorDict(7, mask_key="mask")(td)
    with pytest.raises(ValueError, match="the mask must have the shape"):
        RandomCropTensorDict(2, mask_key="m")(td.set("m", np.ones((200, 9, 1), bool)))
    assert RandomCropTensorDict(9)(td)["t"].shape == (200, 9)
