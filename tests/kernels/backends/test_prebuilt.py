"""Libraries compiled beforehand."""

from lite.kernels.backends import prebuilt


def test_a_level_that_nobody_made_is_not_found() -> None:
    assert prebuilt.find("x86-64-v0") is None
