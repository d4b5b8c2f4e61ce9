"""The arrays of a `GymWrapper`."""

import gymnasium
import numpy as np

from lite.envs import GymEnv, GymWrapper


def test_classes_are_vectors():
    faces = GymEnv("FrozenLake-v1", is_slippery=False).encoded
    (seen,) = faces.reset(0)
    assert seen.argmax() == 0
    outcome = faces.step([np.array([0, 1, 0, 0])])
    assert outcome.reached[0].tolist() == np.eye(16)[4].tolist()
    assert outcome.present is outcome.reached
    assert faces.observation.spec((2,)).shape == (2,)
    faces.close()


def test_what_steps_in_another_way_has_none():
    class Mine(GymEnv):
        pass

    assert Mine("CartPole-v1").encoded is None
    assert GymWrapper(gymnasium.make("CartPole-v1"), frame_skip=2).encoded is None
