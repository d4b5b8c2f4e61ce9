"""PixelRenderTransform."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.drawn_env import DrawnEnv

from lite.data import NonTensor, PixelRenderTransform, Unbounded
from lite.envs import Compose, TransformedEnv, check_env_specs


def rendered(*batch: int, **words: Any) -> Any:
    return TransformedEnv(DrawnEnv(batch), PixelRenderTransform(**words))


def test_frames_of_steps_and_resets() -> None:
    env = rendered(out_keys="image", bright=10)
    assert env.observation_spec["image"] == Unbounded((6, 8, 3), dtype=np.uint8)
    check_env_specs(env)
    td = env.rollout(10)
    np.testing.assert_array_equal(td["image"][:, 0, 0, 0], [10, 11, 12, 13])
    np.testing.assert_array_equal(td["next", "image"][:, 0, 0, 0], [11, 12, 13, 14])


def test_a_frame_for_each_environment() -> None:
    env = rendered(2, preproc=lambda image: image[..., :4, :, :])
    check_env_specs(env)
    assert env.rollout(3)["pixels"].shape == (2, 3, 4, 8, 3)


def test_one_frame_of_a_batch() -> None:
    env = TransformedEnv(DrawnEnv((2,), one_image=True), PixelRenderTransform())
    assert isinstance(env.observation_spec["pixels"], NonTensor)
    check_env_specs(env)
    td = env.step(env.rand_action(env.reset()))
    np.testing.assert_array_equal(td["next", "pixels"], np.ones((6, 8, 3)))


def test_another_method_that_sees_the_entries() -> None:
    env = rendered(render_method="draw", pass_tensordict=True)
    np.testing.assert_array_equal(env.rollout(2)["next", "pixels"][:, 0, 0, 0], [1, 2])


def test_it_is_turned_off_and_on() -> None:
    env = rendered()
    render = env.transform
    assert env.observation_spec["pixels"].shape == (6, 8, 3)
    render.switch()
    assert not render.enabled
    assert "pixels" not in env.rollout(2)
    for mode, on in (("on", True), (False, False), (None, True), ("off", False), (True, True)):
        render.switch(mode)
        assert render.enabled is on
    assert "pixels" in env.rollout(2)
    raises(ValueError, "mode must be 'on', 'off' or a bool, got 'maybe'", lambda: render.switch("maybe"))


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"out_keys must be one key, got \['a', 'b'\]"):
        PixelRenderTransform(out_keys=["a", "b"])
    raises(ValueError, "must have the method 'paint'", lambda: rendered(render_method="paint"))
    with pytest.raises(ValueError, match="must have the method 'paint'"):
        TransformedEnv(DrawnEnv(), Compose(PixelRenderTransform(render_method="paint")))
    alone = PixelRenderTransform(render_method="paint")
    raises(ValueError, "must have the method 'paint'", lambda: TransformedEnv(DrawnEnv(), alone))
    assert alone.parent is None
    env = TransformedEnv(DrawnEnv((2,), one_image=True), PixelRenderTransform(as_non_tensor=False))
    raises(
        RuntimeError, r"a frame of shape \(6, 8, 3\) does not fit the batch size \(2,\)", lambda: env.reset()
    )
