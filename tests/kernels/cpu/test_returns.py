"""The compiled recursions: the same result whichever of them a call takes."""

import numpy as np

from lite.kernels import discounted_return, gae, td_lambda_return

TYPES = ("float64",)
FACTORS = [(0.99, 0.95), (0.0, 0.5), (1.0, 0.0), (0.9, 1.0), (0.3, 0.77)]


def test_few_sequences_are_to_the_bit_what_they_are_in_a_large_batch(rng):
    dtype = np.float64
    for shape in ((1, 128), (8, 16), (20, 50), (1, 1), (300, 1)):
        reward, value, following = (rng.normal(size=shape).astype(dtype) for _ in range(3))
        done = rng.random(shape) < 0.1
        stop = done & (rng.random(shape) < 0.5)
        reward[rng.random(shape) < 0.02], following[rng.random(shape) < 0.02] = np.nan, np.inf
        few = reward, value, following, done, stop
        many = [np.concatenate([array] * (5000 // array.size + 1)) for array in few]
        for gamma, lmbda in FACTORS:
            got, expected = (
                (
                    *gae(r, v, n, d, s, gamma=gamma, lmbda=lmbda),
                    td_lambda_return(r, n, d, s, gamma=gamma, lmbda=lmbda),
                    discounted_return(r, d, gamma=gamma),
                )
                for r, v, n, d, s in (few, many)
            )
            for ours, large in zip(got, expected, strict=True):
                assert ours.dtype == dtype
                np.testing.assert_array_equal(ours, large[: shape[0]])
