import numpy as np
import pytest

from lite import TensorDict
from lite.data import MultiStepTransform
from lite.data.replay.transforms import Transforms


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, data):
        return data * self.factor

    def inv(self, data):
        return data + self.factor


def test_out_and_in() -> None:
    transforms = Transforms(Scale(2))
    transforms.insert(1, Scale(10))
    transforms.insert(0, lambda x: x - 1)
    assert transforms.out(5) == 80
    order = []
    transforms.insert(3, lambda x: order.append("first") or x, invert=True)
    assert transforms.inv(1) == 13
    assert order == ["first"]
    assert transforms.out(5) == 80
    assert len(transforms) == 4
    assert isinstance(transforms[1], Scale)
    with pytest.raises(TypeError, match="a function, got int"):
        transforms.insert(0, 3)


def frames(start: int, stop: int) -> TensorDict:
    step = np.arange(start, stop)
    return TensorDict({"x": step, "next": {"reward": step * 1.0, "done": step < 0}}, [stop - start])


def test_what_is_withheld_goes_through_the_others() -> None:
    transforms = Transforms(lambda td: td)
    transforms.insert(0, lambda td: td.set("seen", td["x"]), invert=True)
    transforms.insert(2, MultiStepTransform(2, 0.5))
    assert transforms.withholds
    assert transforms.withheld is None
    assert transforms.inv(frames(0, 2)) is None
    assert transforms.withheld["2"]["x"].tolist() == [0, 1]
    (rest,) = transforms.flush()
    assert rest["seen"].tolist() == [0, 1]
    assert transforms.withheld is None
    assert list(transforms.flush()) == []


def test_state() -> None:
    first, second = Transforms(MultiStepTransform(2, 0.5)), Transforms(MultiStepTransform(2, 0.5))
    first.inv(frames(0, 5))
    state = first.state_dict()
    first.inv(frames(5, 9))
    second.load_state_dict(state)
    assert second.withheld["0"]["x"].tolist() == [3, 4]
    with pytest.raises(ValueError, match=r"those that can are \[\]"):
        Transforms(lambda td: td).withheld = state["withheld"]
