"""Inputs of wrong shapes: torch's class of error, and a message that says what was got; or torch's result."""

import pytest
import torch
from helpers.cases import each_case
from helpers.layer_cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.layers import assert_agree, flat, matched, to_torch, torch_fast_path

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning"),
]
# Only the layer that is looked at: others would change what comes out of it.
SINGLE = [
    case
    for case in CASES
    if case.title.split(",")[0].split()[0]
    not in ("DdpgCnnQNet", "DdpgMlpQNet", "Dropout", "Embedding", "Identity", "MLP", "ModuleList")
    and case.title != "GroupNorm without weight"  # torch's takes any number of channels then
]


@pytest.fixture(scope="module", autouse=True)
def one_path():
    with torch_fast_path(False):
        yield


@st.composite
def other_shape(draw, shape):
    """A shape with one dimension more, or less, or of another size."""
    sizes = list(shape)
    change = draw(st.sampled_from(["size", "less", "more"]))
    at = draw(st.integers(0, max(0, len(sizes) - (change != "more"))))
    if change == "more":
        sizes.insert(at, draw(st.integers(1, 4)))
    elif sizes:
        at = min(at, len(sizes) - 1)
        if change == "less":
            del sizes[at]
        else:
            sizes[at] = draw(st.integers(0, 9))
    return tuple(sizes)


@st.composite
def wrong_inputs(draw, case):
    """Shapes of which one or two differ from those of the case."""
    shapes = list(case.inputs)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(shapes) - 1))
        given = shapes[at]
        if isinstance(given[0] if given else None, tuple):
            part = draw(st.integers(0, 1))
            given = tuple(draw(other_shape(s)) if i == part else s for i, s in enumerate(given))
        else:
            given = draw(other_shape(given))
        shapes[at] = given
    return tuple(shapes)


@each_case("case", SINGLE, ids=[case.title for case in SINGLE])
@settings(max_examples=5)
@given(data=st.data())
def test_wrong_shapes(case, data):
    given_case = case._replace(inputs=data.draw(wrong_inputs(case)))
    ours, theirs = case.make(nn), case.make(torch.nn)
    matched(ours, theirs, low=0.1 if list(ours.buffers()) else -0.4)
    arrays = given_case.arrays()
    try:
        with torch.no_grad():
            expected = theirs(*map(to_torch, arrays), **to_torch(case.options))
    except Exception as err:
        if not all(x.size for x in flat(arrays)):  # convolutions of nothing but padding are defined here
            return
        with pytest.raises(CLASSES.get(type(err), type(err)), match=r"got"):
            ours(*arrays, **case.options)
        return
    try:
        got = ours(*arrays, **case.options)
    except (ValueError, RuntimeError):
        if all(x.size for x in flat(arrays)):  # torch takes any features where there is nothing to compute
            raise
    else:
        assert_agree(got, expected, 1e-4)


# torch looks for a dimension that is not there, or knows no such padding: which says little of what is wrong
CLASSES = {
    IndexError: (IndexError, ValueError, RuntimeError, AssertionError),
    NotImplementedError: RuntimeError,
}
