"""gymnasium's environments as `EnvBase`; `tests/parity/test_envs.py` compares rollouts with torchrl's."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.cases import raises
from helpers.data.environments import Counting

from lite import TensorDict
from lite.data import Composite, OneHot, Unbounded
from lite.envs import (
    EnvError,
    FrameSkipTransform,
    GymEnv,
    GymWrapper,
    TransformedEnv,
    VecNormV2,
    check_env_specs,
    set_gym_backend,
)


def vector(mode, count=3):
    makes = [lambda i=i: gymnasium.make("CartPole-v1", max_episode_steps=4 + i) for i in range(count)]
    return SyncVectorEnv(makes, autoreset_mode=mode)


def test_specs_and_a_step():
    env = GymEnv("CartPole-v1")
    assert env.action_spec == OneHot(2, dtype=np.int64)
    assert env.reward_spec == Unbounded((1,), dtype=np.float32)
    assert env.done_keys == ["done", "terminated", "truncated"]
    env.set_seed(0)
    td = env.step(env.reset().set("action", np.array([0, 1])))
    assert td["next", "observation"][3] < 0  # pushed to the right, the pole falls to the left
    assert (env.env_name, env.spec.id) == ("CartPole-v1", "CartPole-v1")
    assert repr(env) == "GymEnv(env=CartPole-v1, batch_size=())"
    env.close()
    assert env.is_closed
    raises(AttributeError, "nothing_like_it", lambda: env.nothing_like_it)


def test_vectors_of_all_modes_are_alike():
    for mode in list(AutoresetMode):
        env, other = GymWrapper(vector(mode)), GymWrapper(vector(AutoresetMode.DISABLED))
        actions = np.eye(2, dtype=np.int64)[np.random.default_rng(0).integers(0, 2, (12, 3))]
        env.set_seed(1)
        other.set_seed(1)
        td, wanted = (e.rollout(12, actions=list(actions), break_when_any_done=False) for e in (env, other))
        assert td["next", "truncated"].sum() == 3 + 2 + 2
        for key in ("observation", "done", ("next", "observation"), ("next", "done"), ("next", "truncated")):
            np.testing.assert_array_equal(td[key], wanted[key])
        assert env.batch_size == (3,)


def test_vectors_that_start_anew_by_themselves_only_are_refused():
    raises(RuntimeError, "SAME_STEP", GymWrapper, gymnasium.make_vec("CartPole-v1", 2, "vector_entry_point"))


def test_frames_are_skipped_up_to_the_end_of_the_episode():
    env = GymWrapper(gymnasium.make("CartPole-v1", max_episode_steps=5), frame_skip=3)
    env.set_seed(0)
    td = env.rollout(9, lambda td: td.set("action", np.array([1, 0])))
    np.testing.assert_array_equal(td["next", "reward"].ravel(), [3.0, 2.0])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_what_restarts_by_itself_in_the_midst_of_repeated_steps_starts_at_its_first_one(mode):
    vector = SyncVectorEnv([lambda i=i: Counting(i, (5 + 7 * i,)) for i in range(2)], autoreset_mode=mode)
    td = TransformedEnv(GymWrapper(vector), FrameSkipTransform(4)).rollout(5, break_when_any_done=False)
    np.testing.assert_array_equal(td["observation"][..., 2], [[0, 4, 0, 4, 0], [0, 4, 8, 0, 4]])
    np.testing.assert_array_equal(td["next", "observation"][..., 2], [[4, 5, 4, 5, 4], [4, 8, 12, 4, 8]])
    np.testing.assert_array_equal(
        td["next", "done"][..., 0], np.array([[0, 1, 0, 1, 0], [0, 0, 1, 0, 0]], bool)
    )


class Dicts(gymnasium.Env):
    """Observes a dict, acts with one, and reuses its memory."""

    observation_space = gymnasium.spaces.Dict(
        state=gymnasium.spaces.Box(-9, 9, (2,)), at=gymnasium.spaces.Dict(row=gymnasium.spaces.Discrete(9))
    )
    action_space = gymnasium.spaces.Dict(
        go=gymnasium.spaces.Discrete(4), by=gymnasium.spaces.Box(-1, 1, (2,))
    )

    def __init__(self, fails_at=None):
        self.memory, self.fails_at = np.zeros(2, np.float32), fails_at

    def _seen(self):
        return {"state": self.memory, "at": {"row": int(self.memory[0])}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.memory[:] = 0
        return self._seen(), {}

    def step(self, action):
        self.memory += 1
        if self.memory[0] == self.fails_at:
            raise ValueError("no road")
        assert 0 <= action["go"] < 4
        return self._seen(), float(action["by"].sum()), False, False, {}


def test_dicts():
    env = GymWrapper(Dicts())
    assert env.observation_keys == ["observation", ("at", "row")]
    assert env.action_keys == [("action", "by"), ("action", "go")]
    assert isinstance(env.action_spec, Composite)
    check_env_specs(env)
    td = env.rollout(3)
    np.testing.assert_array_equal(td["next", "observation"][:, 0], [1, 2, 3])
    np.testing.assert_array_equal(td["next", "at", "row"].argmax(-1), [1, 2, 3])


def test_where_some_of_a_vector_restart_the_others_are_as_they_were():
    makes = [lambda: gymnasium.make("CartPole-v1")] * 2
    for mode in AutoresetMode:
        norm = VecNormV2(["observation"], ["normed"], decay=1.0, reduce_batch_dims=True)
        env = TransformedEnv(GymWrapper(SyncVectorEnv(makes, autoreset_mode=mode)), norm)
        before = env.step(env.rand_action(env.reset(seed=0)))
        after = env.step_mdp(before).set("_reset", np.array([[True], [False]]))
        np.testing.assert_array_equal(env.reset(after)["observation"][1], before["next", "observation"][1])
        # The statistics, which see all rows, saw no row of zeros.
        seen = [before["observation"], before["next", "observation"], after["observation"]]
        np.testing.assert_allclose(norm.loc["observation"], np.concatenate(seen).mean(0), rtol=1e-5)


def test_failures_name_the_step():
    env = GymWrapper(Dicts(fails_at=2))
    with pytest.raises(EnvError, match=r"environment 0 failed at step 1: .*no road") as caught:
        env.rollout(5)
    assert (caught.value.index, caught.value.step) == (0, 1)
    raises(TypeError, "gymnasium environment", lambda: GymWrapper(TensorDict()))
    raises(ValueError, "render_mode", lambda: GymWrapper(gymnasium.make("CartPole-v1"), from_pixels=True))


class Drawn(gymnasium.Wrapper):
    render_mode = "rgb_array"

    def render(self):
        return np.full((4, 5, 3), 7, np.uint8)


def test_pixels():
    made = Drawn(gymnasium.make("CartPole-v1"))
    env = GymWrapper(made, from_pixels=True, pixels_only=True)
    assert env.observation_spec["pixels"] == Unbounded((4, 5, 3), dtype=np.uint8)
    assert env.reset()["pixels"].sum() == 7 * 60
    both = GymWrapper(made, from_pixels=True)
    assert both.observation_keys == ["observation", "pixels"]
    check_env_specs(both)


def test_frames_that_an_environment_observes_by_itself():
    class Camera(gymnasium.ObservationWrapper):
        render_mode = "rgb_array"

        def __init__(self, space):
            super().__init__(gymnasium.make("CartPole-v1"))
            self.observation_space = space

        def observation(self, observation):
            frame = np.full((4, 5, 3), 9, np.uint8)
            return {"pixels": frame} if isinstance(self.observation_space, spaces.Dict) else frame

    frames = spaces.Box(0, 255, (4, 5, 3), np.uint8)
    for space in (frames, spaces.Dict(pixels=frames)):
        for words in ({}, {"from_pixels": True}, {"from_pixels": True, "pixels_only": True}):
            env = GymWrapper(Camera(space), **words)
            assert (env.observation_keys, env.from_pixels) == (["pixels"], True)
            assert env.rollout(2)["next", "pixels"].max() == 9  # not what is drawn of CartPole
    grey = spaces.Box(0, 255, (4, 5, 1), np.uint8)
    assert GymWrapper(Camera(grey)).observation_keys == ["observation"]


def test_processes():
    env = GymEnv("CartPole-v1", num_envs=2)
    td = env.rollout(3)
    assert td.shape[0] == 2
    env.close()


def test_an_action_that_is_missing_or_of_another_shape() -> None:
    for action, error, message in (
        (None, KeyError, "the action 'action' is missing"),
        (np.int64(1), ValueError, r"'action' must have shape \(2,\), got \(\)"),
    ):
        env = GymEnv("CartPole-v1")
        td = env.reset()
        if action is not None:
            td["action"] = action
        raises(error, message, env.step, td)


def test_the_library_is_gymnasium():
    @set_gym_backend(lambda: gymnasium)
    def made():
        return GymEnv("CartPole-v1")

    set_gym_backend("gymnasium").set()
    with set_gym_backend(gymnasium):
        assert made().action_spec.shape == (2,)
    raises(ValueError, "backend must be 'gymnasium', got 'gym'", lambda: set_gym_backend("gym"))


def test_names_of_environments():
    assert {"CartPole-v1", "Pendulum-v1"} <= set(GymEnv.available_envs)
    env = GymEnv("CartPole-v1")
    assert env.available_envs == GymEnv.available_envs
    assert not env.from_pixels
