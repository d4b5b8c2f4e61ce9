"""Masked classes: those left out have no probability, the others share it."""

import numpy as np
from helpers.cases import each_case, raises

from lite.nn.distributions import MaskedCategorical, MaskedOneHotCategorical

LOGITS = np.log(np.array([0.1, 0.2, 0.3, 0.4]))
MASK = np.array([True, False, True, False])


def test_log_probs() -> None:
    dist = MaskedCategorical(logits=LOGITS, mask=MASK)
    np.testing.assert_allclose(dist.log_prob(np.array(2)), np.log(0.75))
    assert dist.log_prob(np.array(1)) == -np.inf
    assert int(dist.mode) == 2
    assert set(np.unique(dist.sample((200,), rng=0))) == {0, 2}


def test_indices_in_place_of_a_mask() -> None:
    dist = MaskedCategorical(logits=LOGITS, indices=np.array([0, 2]))
    np.testing.assert_allclose(dist.log_prob(np.array(2)), np.log(0.75))


def test_indices_of_a_batch_may_be_padded() -> None:
    logits, indices = np.stack([LOGITS, LOGITS[::-1]]), np.array([[3, 1], [2, -1]])
    mask = np.array([[False, True, False, True], [False, False, True, False]])
    for table in (logits, LOGITS):  # of a batch, or of the indices alone
        dist = MaskedCategorical(logits=table, indices=indices, padding_value=-1)
        of_mask = MaskedCategorical(logits=np.broadcast_to(table, (2, 4)), mask=mask)
        for classes in ([3, 2], [1, 2]):
            np.testing.assert_allclose(dist.log_prob(np.array(classes)), of_mask.log_prob(np.array(classes)))
        assert (dist.sample((20,), rng=0)[:, 1] == 2).all()


def test_errors() -> None:
    raises(ValueError, "", lambda: MaskedCategorical(logits=LOGITS, mask=MASK, indices=np.array([0])))
    raises(ValueError, "", lambda: MaskedCategorical(logits=LOGITS))


@each_case("arguments", [{"mask": np.array([True, False, True])}, {"indices": np.array([0, 2])}])
def test_shares_keep_the_dtype(arguments: dict[str, np.ndarray]) -> None:
    dist = MaskedOneHotCategorical(logits=np.zeros(3, np.float32), **arguments)
    assert dist.mean.dtype == dist.variance.dtype == np.float32
    np.testing.assert_array_equal(dist.mean, [0.5, 0, 0.5])
