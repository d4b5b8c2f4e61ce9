"""What a vector does at the end of an episode, and how failures are told."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from helpers.cases import raises
from helpers.data.environments import Counting, Faulty, NativeCounting, Spaces, makers

from lite import jit
from lite.envs.environments import Environments, Fault

MODES = list(AutoresetMode)


def test_an_environment_alone_has_no_batch():
    envs = Environments(Counting(7, (2,)))
    assert (envs.batch, envs.count, envs.resets_some, envs.skips) == ((), 1, True, False)
    np.testing.assert_array_equal(envs.reset()[0], [7, 0, 0])
    out = envs.step([np.array(0)])
    np.testing.assert_array_equal(out.reached[0], [7, 0, 1])
    assert out.autoreset is None
    np.testing.assert_array_equal(envs.reset_some(np.array(True))[0], [7, 1, 0])


def test_a_graph_does_not_keep_what_an_environment_gave():
    for make in (lambda: Counting(7, (2,)), lambda: SyncVectorEnv(makers())):
        envs = Environments(make())
        with pytest.raises(NotImplementedError, match="reads an environment: pass what it gives"):
            jit(lambda x, envs=envs: x + envs.reset()[0].sum())(np.ones(2))
    fallen = jit(lambda x: x + envs.reset()[0].sum(), fallback=True)
    with pytest.warns(UserWarning, match="reads an environment"):
        assert fallen(np.ones(2)).shape == (2,)


def test_which_vectors_start_anew_when_asked():
    for mode in MODES:
        envs = Environments(SyncVectorEnv(makers(), autoreset_mode=mode))
        assert (envs.batch, envs.resets_some, envs.skips) == ((4,), True, False)
        wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(
            SyncVectorEnv(makers(), autoreset_mode=mode)
        )
        assert Environments(wrapped).resets_some
        if mode != AutoresetMode.DISABLED:
            native = Environments(NativeCounting(mode))
            assert (native.resets_some, native.skips) == (False, mode == AutoresetMode.NEXT_STEP)


def test_the_last_observation_is_reached():
    lengths = [(1,), (3,)]
    vectors = [(mode, SyncVectorEnv(makers(lengths), autoreset_mode=mode)) for mode in MODES]
    vectors += [(mode, NativeCounting(mode, lengths)) for mode in MODES if mode != AutoresetMode.DISABLED]
    for mode, vector in vectors:
        if isinstance(vector, SyncVectorEnv):  # as later vectors of gymnasium 1.1 and 1.2 do
            vector.metadata["autoreset_mode"] = AutoresetMode.DISABLED
        envs = Environments(vector)
        envs.reset()
        out = envs.step([np.zeros(2, np.int64)])
        np.testing.assert_array_equal(out.reached[0], [[0, 0, 1], [1, 0, 1]])
        same = mode == AutoresetMode.SAME_STEP
        np.testing.assert_array_equal(out.present[0], [[0, 1, 0] if same else [0, 0, 1], [1, 0, 1]])
        assert (out.autoreset is not None) == same
        if envs.resets_some and not same:
            np.testing.assert_array_equal(envs.reset_some(np.array([True, False]))[0][0], [0, 1, 0])
            out = envs.step([np.zeros(2, np.int64)])
            np.testing.assert_array_equal(out.reached[0], [[0, 1, 1], [1, 0, 2]])


def test_a_vector_that_gives_the_rows_it_was_asked_for():
    class Rows(NativeCounting):
        __module__ = "envpool.counting"

        def reset(self, *, seed=None, options=None):
            if not options:
                return super().reset()
            asked = np.flatnonzero(options["reset_mask"])
            return np.stack([self.envs_of_mine[i].reset()[0] for i in asked]), {}

    envs = Environments(Rows(AutoresetMode.NEXT_STEP))
    envs.reset()
    assert envs.resets_some
    for mask in ([False, True, False, True], [True, False, False, False]):
        got = envs.reset_some(np.array(mask))[0]
        assert got.shape == (4, 3)
        np.testing.assert_array_equal(got[mask, 0], np.flatnonzero(mask))
        np.testing.assert_array_equal(got[mask, 1:], [[1, 0]] * sum(mask))


def test_seeds():
    env = SyncVectorEnv([functools.partial(gymnasium.make, "CartPole-v1")] * 2)
    envs = Environments(env)
    first = envs.reset(3)[0].copy()
    np.testing.assert_array_equal(envs.reset([3, 4])[0], first)
    np.testing.assert_array_equal(envs.reset([4, 3])[0], first[::-1])


def test_faults_of_a_vector_name_the_environment():
    for number, fault in ((0, "raise"), (2, "shape")):
        makes = makers([(9,)] * 3)
        makes[number] = functools.partial(Faulty, number, fault, 2)
        envs = Environments(SyncVectorEnv(makes))
        envs.reset()
        envs.step([np.zeros(3, np.int64)])
        with pytest.raises(Fault) as caught:
            envs.step([np.zeros(3, np.int64)])
        assert caught.value.index == number
        if fault == "raise":
            assert str(caught.value) == "step raised OSError: the motor is off"
            assert isinstance(caught.value.cause, OSError)


@pytest.mark.filterwarnings("ignore:.*ERROR:UserWarning")  # gymnasium tells of them
@pytest.mark.parametrize("fault", ["raise", "shape"])
def test_faults_of_processes_name_the_environment(fault):
    makes = [*makers([(9,)] * 2), functools.partial(Faulty, 2, fault, 1)]
    envs = Environments(AsyncVectorEnv(makes, context="fork"))
    envs.reset()
    with pytest.raises(Fault) as caught:
        envs.step([np.zeros(3, np.int64)])
    assert caught.value.index == 2
    envs.env.close(terminate=True)


def test_faults_of_an_environment_alone():
    envs = Environments(Faulty(0, "shape", 1))
    envs.reset()
    with pytest.raises(
        Fault, match=r"observation of shape \(2,\) for \('observation',\), expected \(3,\)"
    ) as caught:
        envs.step([np.array(0)])
    assert caught.value.index == 0


def test_what_an_environment_alone_gives_for_a_reward_and_instead_of_a_step():
    class Odd(Counting):
        gives, wrong = 1.0, None

        def reset(self, **keywords):
            return super().reset()[0] if self.wrong == "reset" else super().reset()

        def step(self, action):
            observation, _, *rest = super().step(action)
            return (observation, self.gives, *rest)[: 4 if self.wrong == "step" else 5]

    envs = Environments(Odd())
    for gives, wanted in ((np.array([2.0]), 2.0), (None, np.nan), (np.float32(3), 3.0), (4, 4.0)):
        envs.env.gives = gives
        envs.reset()
        reward = envs.step([np.array(0)]).reward
        assert np.shape(reward) == ()
        np.testing.assert_equal(float(reward), wanted)
    for gives, message in (
        (np.ones(2), r"gave the reward array\(\[1., 1.\]\), expected a number"),
        ("much", "gave the reward 'much', expected a number"),
    ):
        envs.env.gives = gives
        with pytest.raises(Fault, match=message) as caught:
            envs.step([np.array(0)])
        assert caught.value.index == 0
    envs.env.wrong = "step"
    raises(Fault, r"step must give \(observation, reward, .*got 4 values", envs.step, [np.array(0)])
    envs.env.wrong = "reset"
    raises(Fault, r"reset must give \(observation, info\), .*got one ndarray", envs.reset)


def test_hanging_environments_are_named():
    for wrap in (False, True):
        Faulty.released.clear()
        makes = [*makers([(9,)] * 2), functools.partial(Faulty, 2, "hang", 1), *makers([(9,)])]
        vector = SyncVectorEnv(makes)
        if wrap:
            vector = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)
        envs = Environments(vector, timeout=0.1)
        envs.reset()
        with pytest.raises(Fault, match=r"step gave no answer within 0\.1 seconds") as caught:
            envs.step([np.zeros(4, np.int64)])
        assert caught.value.index == 2
        Faulty.released.set()
        envs.close()


@pytest.mark.processes
def test_hanging_processes_are_named_and_ended():
    makes = [*makers([(9,)] * 2), functools.partial(Faulty, 2, "sleep", 1), *makers([(9,)])]
    vector = AsyncVectorEnv(makes, context="fork")
    envs = Environments(vector, timeout=1.0)
    envs.reset()
    with pytest.raises(Fault) as caught:
        envs.step([np.zeros(4, np.int64)])
    assert caught.value.index == 2
    envs.close()
    for process in vector.processes:
        process.join(30)
        assert not process.is_alive()


def test_spaces_of_numbers_have_a_dimension():
    env = Spaces(spaces.Box(-1, 1, ()), spaces.Discrete(5, start=3))
    envs = Environments(env)
    assert envs.reset()[0].shape == (1,)
    envs.step([np.array(4)])
    assert type(env.taken[0]) is np.int64


def test_refused_environments():
    with pytest.raises(ValueError, match=r"observations must not be called .*\['reward'\]"):
        Environments(Spaces(spaces.Dict({"reward": spaces.Discrete(2)}), spaces.Discrete(2)))


def test_same_step_without_last_observations():
    class Forgetful(NativeCounting):
        def step(self, actions):
            return *super().step(actions)[:4], {}

    envs = Environments(Forgetful(AutoresetMode.SAME_STEP, [(5,), (1,)]))
    envs.reset()
    with pytest.raises(Fault, match="without final_obs") as caught:
        envs.step([np.zeros(2, np.int64)])
    assert caught.value.index == 1
