"""Environments beside torchrl's: rollouts of the same seeds, `step_mdp`, specs, checks of specs."""

from itertools import product

import gymnasium
import numpy as np
import pytest
import tensordict
import torch
import torchrl.data as their_specs
import torchrl.envs as theirs
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.cases import each_case
from helpers.compared import assert_same_entries
from torchrl.envs.utils import make_composite_from_td as their_composite
from torchrl.envs.utils import terminated_or_truncated as their_end

import lite.data as our_specs
import lite.envs as ours
from lite import TensorDict

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


def actions_of(env, count, batch=()):
    """Values of the action spec, for both."""
    return env.action_spec.rand((count,), rng=0)


def rolled(mine, other, actions, seed=7, **words):
    assert mine.set_seed(seed) == other.set_seed(seed)
    theirs_too = [torch.as_tensor(action) for action in actions]
    count = len(actions)
    return mine.rollout(count, actions=list(actions), **words), other.rollout(
        count, actions=theirs_too, **words
    )


@each_case(
    ("name", "words", "options"),
    [
        ("CartPole-v1", {}, {}),
        ("CartPole-v1", {}, {"break_when_any_done": False}),
        ("CartPole-v1", {"categorical_action_encoding": True}, {"set_truncated": True}),
        ("Pendulum-v1", {}, {"set_truncated": True}),
        ("Pendulum-v1", {"frame_skip": 3}, {}),
        ("MountainCarContinuous-v0", {}, {}),
        ("FrozenLake-v1", {}, {"break_when_any_done": False}),
    ],
)
def test_rollouts(name, words, options):
    mine, other = ours.GymEnv(name, **words), theirs.GymEnv(name, **words)
    td, wanted = rolled(mine, other, actions_of(mine, 40), **options)
    assert_same_entries(td, wanted)
    assert td.names == wanted.names


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("stop", [True, False])
def test_rollouts_of_vectors(mode, stop):
    def vector():
        makes = [lambda i=i: gymnasium.make("CartPole-v1", max_episode_steps=9 + i) for i in range(3)]
        return SyncVectorEnv(makes, autoreset_mode=mode)

    mine, other = ours.GymWrapper(vector()), theirs.GymWrapper(vector())
    actions = mine.action_spec.rand((25,), rng=0)
    td, wanted = rolled(mine, other, actions, break_when_any_done=stop)
    assert_same_entries(td, wanted)


def test_frames_that_an_environment_observes_by_itself():
    def camera():
        frames = gymnasium.spaces.Box(0, 255, (4, 5, 3), np.uint8)
        cart = gymnasium.make("CartPole-v1")
        return gymnasium.wrappers.TransformObservation(
            cart, lambda x: np.full((4, 5, 3), 90 + 9 * x[0], np.uint8), frames
        )

    for make in (camera, lambda: SyncVectorEnv([camera] * 2, autoreset_mode=AutoresetMode.DISABLED)):
        mine, other = ours.GymWrapper(make()), theirs.GymWrapper(make())
        td, wanted = rolled(mine, other, mine.action_spec.rand((5,), rng=0))
        assert_same_entries(td, wanted)


def cart_pole(library):
    return library.GymEnv("CartPole-v1", max_episode_steps=12)


@pytest.mark.parametrize(
    "options",
    [{}, {"break_when_any_done": False}, {"break_when_all_done": True}, {"return_contiguous": True}],
)
def test_rollouts_of_several(options):
    mine = ours.SerialEnv(3, lambda: cart_pole(ours))
    other = theirs.SerialEnv(3, lambda: cart_pole(theirs))
    td, wanted = rolled(mine, other, mine.action_spec.rand((30,), rng=1), **options)
    assert_same_entries(td, wanted)


@pytest.mark.parametrize("vector", [False, True])
def test_statistics_around_several(vector):
    makes = [lambda i=i: gymnasium.make("CartPole-v1", max_episode_steps=4 + 3 * i) for i in range(3)]

    def normed(library):
        if vector:
            env = library.GymWrapper(SyncVectorEnv(makes, autoreset_mode=AutoresetMode.DISABLED))
        else:
            env = library.SerialEnv(3, [lambda make=make: library.GymWrapper(make()) for make in makes])
        return library.TransformedEnv(env, library.VecNorm(["observation"]))

    mine, other = normed(ours), normed(theirs)
    actions = mine.action_spec.rand((30,), rng=1)
    td, wanted = rolled(mine, other, actions, break_when_any_done=False)
    assert_same_entries(td, wanted)


def test_specs_of_environments():
    for name, words in (
        ("CartPole-v1", {}),
        ("Pendulum-v1", {}),
        ("FrozenLake-v1", {"categorical_action_encoding": True}),
    ):
        mine, other = ours.GymEnv(name, **words), theirs.GymEnv(name, **words)
        assert_same_entries(mine.fake_tensordict(), other.fake_tensordict())
        for keys in (
            "action_keys",
            "reward_keys",
            "done_keys",
            "observation_keys",
            "state_keys",
            "reset_keys",
        ):
            assert getattr(mine, keys) == getattr(other, keys)
        for spec in ("action_spec", "reward_spec"):
            one, two = getattr(mine, spec), getattr(other, spec)
            assert type(two).__name__.startswith(type(one).__name__)
            assert one.shape == tuple(two.shape)
        assert_same_entries(mine.reset(seed=3), other.reset(seed=3))


def step_of(library, array):
    """A step with entries at two levels."""
    made = library.TensorDict
    one, yes = array(np.ones(1)), array(np.ones(1, np.bool_))
    below = made({"obs": one, "action": one + 1, "done": yes}, [])
    after = made({"obs": one + 2, "reward": one + 3, "done": yes}, [])
    following = made({"obs": one + 4, "reward": one + 5, "done": ~yes, "agents": after, "new": one}, [])
    return made(
        {"obs": one, "action": one, "done": yes, "extra": one, "agents": below, "next": following}, []
    )


OPTIONS = ("keep_other", "exclude_reward", "exclude_done", "exclude_action")


@each_case("options", list(product([True, False], repeat=4)))
def test_step_mdp(options):
    import lite

    words = dict(zip(OPTIONS, options, strict=True))
    given, wanted = step_of(lite, np.asarray), step_of(tensordict, torch.as_tensor)
    assert_same_entries(ours.step_mdp(given, **words), theirs.step_mdp(wanted, **words))
    keys = {
        "reward_keys": ["reward", ("agents", "reward")],
        "action_keys": [("agents", "action")],
        "done_keys": ("agents", "done"),
    }
    assert_same_entries(ours.step_mdp(given, **words, **keys), theirs.step_mdp(wanted, **words, **keys))
    for td in (given, wanted):
        td["empty"], td["next", "also_empty"] = {}, {}
    assert_same_entries(ours.step_mdp(given, **words), theirs.step_mdp(wanted, **words))
    assert {"empty", "also_empty"}.isdisjoint(ours.step_mdp(given).keys())


@each_case("write", [True, False])
@each_case("below", [True, False])
def test_ends(write, below):
    import lite

    def data(library, array):
        inner = library.TensorDict({"truncated": array(np.array([[below], [False]]))}, [2])
        return library.TensorDict({"agents": inner, "other": array(np.zeros(1))}, [])

    given, wanted = data(lite, np.asarray), data(tensordict, torch.as_tensor)
    ended = ours.terminated_or_truncated(given, write_full_false=write)
    assert ended == bool(their_end(wanted, write_full_false=write))
    assert_same_entries(given, wanted)


def test_specs_of_data():
    given = TensorDict({"a": np.zeros(3, np.float32), "n": {"b": np.zeros((), np.int64)}}, [])
    wanted = tensordict.TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros((), dtype=torch.int64)}}, [])
    for words in ({}, {"unsqueeze_null_shapes": False}, {"dynamic_shape": True}):
        spec, other = ours.make_composite_from_td(given, **words), their_composite(wanted, **words)
        assert {key: leaf.shape for key, leaf in spec.items(True, True)} == {
            key: tuple(leaf.shape) for key, leaf in other.items(True, True)
        }


def both_specs(source):
    """A spec of each library from one expression."""
    ours_too = {name: getattr(our_specs, name) for name in our_specs.__all__} | {"int64": np.int64}
    names = {name: getattr(their_specs, name) for name in their_specs.__all__} | {"int64": torch.int64}
    return eval(source, ours_too), eval(source, names)


@each_case(
    ("source", "classes", "value"),
    [
        ("OneHot(4)", [2, 0], [0.1, 0.7, 0.2, 0.0]),
        ("OneHot(4, dtype=int64)", 3, [0.1, 0.7, 0.2, 0.0]),
        ("MultiOneHot([2, 3])", [1, 2], [0.1, 0.9, 0.3, 0.4, 0.1]),
        ("MultiCategorical([2, 3])", [1, 2], [4, -1]),
        ("Categorical(3)", 2, 7),
        ("Bounded(-1, 1, (2,))", [0.5, 0.25], [3.0, -3.0]),
        ("UnboundedDiscrete(2)", [3, 4], [3, 4]),
    ],
)
def test_specs(source, classes, value):
    mine, other = both_specs(source)
    assert mine.shape == tuple(other.shape)
    encoded, wanted = mine.encode(classes), other.encode(classes)
    np.testing.assert_array_equal(encoded, wanted.numpy())
    assert encoded.dtype == wanted.numpy().dtype
    np.testing.assert_array_equal(mine.to_numpy(encoded), other.to_numpy(wanted))
    assert mine.is_in(encoded) == bool(other.is_in(wanted)) is True
    near, nearest = mine.project(np.asarray(value)), other.project(torch.as_tensor(value))
    assert bool(other.is_in(torch.as_tensor(near))) == mine.is_in(nearest.numpy()) is True
    if "OneHot" not in source:  # torchrl draws the place of the one
        np.testing.assert_array_equal(near, nearest.numpy())
    np.testing.assert_array_equal(mine.zero(), other.zero().numpy())
    if source.startswith(("OneHot", "Multi", "Categorical")):
        np.testing.assert_array_equal(mine.to_categorical(encoded), other.to_categorical(wanted).numpy())
        changed, expected = mine.to_categorical_spec(), other.to_categorical_spec()
        assert (type(changed).__name__, changed.shape) == (type(expected).__name__, tuple(expected.shape))
        assert (
            mine.to_one_hot_spec().shape == tuple(other.to_one_hot_spec().shape)
            if hasattr(mine, "to_one_hot_spec")
            else True
        )
        assert mine.cardinality() == int(other.cardinality())


def counting(library, specs, td, zeros, spec):
    """An environment of each library that observes how many steps it has made."""

    class Counting(library.EnvBase):
        def __init__(self):
            super().__init__()
            self.observation_spec = spec
            self.action_spec = specs.Bounded(-1, 1, (1,))
            self.reward_spec = specs.Unbounded((1,))
            self.count = zeros(1)

        def _reset(self, tensordict, **words):
            self.count = self.count * 0
            return td({"observation": self.count}, [])

        def _step(self, tensordict):
            self.count = self.count + 1
            return td({"observation": self.count, "reward": tensordict["action"], "done": self.count > 4}, [])

        def _set_seed(self, seed):
            pass

    return Counting()


@each_case(
    ("spec", "fails"),
    [
        ("Unbounded((1,))", None),
        ("Bounded(0, 3, (1,))", None),
        ("Unbounded((3,))", AssertionError),
        ("Unbounded((1,), dtype=int64)", AssertionError),
        ("Bounded(5, 6, (1,))", AssertionError),
        ("Composite(observation=Unbounded((1,)), more=Unbounded((1,)))", AssertionError),
        ("Composite()", AssertionError),
    ],
)
def test_checks_of_specs(spec, fails):
    import lite

    one, two = both_specs(spec)
    mine = counting(ours, our_specs, lite.TensorDict, lambda n: np.zeros(n, np.float32), one)
    other = counting(theirs, their_specs, tensordict.TensorDict, torch.zeros, two)
    for library, env in ((ours, mine), (theirs, other)):
        if fails is None:
            library.check_env_specs(env, seed=0)
        else:
            with pytest.raises((fails, RuntimeError) if library is theirs else fails):
                library.check_env_specs(env)
    if fails is None:
        steps = [np.full(1, 0.5, np.float32)] * 8
        assert_same_entries(*rolled(mine, other, steps))
        assert_same_entries(*rolled(mine, other, steps, break_when_any_done=False))


class Telling(gymnasium.Wrapper):
    """Tells of steps how many there were, and of resets nothing."""

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=4))

    def reset(self, **keywords):
        self.steps = 0
        return super().reset(**keywords)

    def step(self, action):
        *rest, _ = super().step(action)
        self.steps += 1
        return *rest, {"steps": np.array(self.steps), "pair": np.full(2, self.steps, np.float32), "_own": 1}


class Torque(gymnasium.Wrapper):
    def __init__(self, most):
        super().__init__(gymnasium.make("Pendulum-v1"))
        self.action_space = gymnasium.spaces.Box(-most, most, (1,), np.float32)


def test_environments_of_other_shapes():
    def batch(library):
        names = ("Pendulum-v1", "MountainCarContinuous-v0")
        return library.SerialEnv(2, [lambda name=name: library.GymEnv(name) for name in names])

    mine, other = batch(ours), batch(theirs)
    for name in ("full_observation_spec", "full_action_spec", "full_done_spec"):
        specs = getattr(mine, name), getattr(other, name)
        assert specs[0].keys(True, True) == list(specs[1].keys(True, True))
        assert [spec.shape for spec in specs[0].values()] == [tuple(spec.shape) for spec in specs[1].values()]
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 2, 1)).astype(np.float32)
    for td, wanted in zip(*(td.unbind(0) for td in rolled(mine, other, actions)), strict=True):
        assert_same_entries(td, wanted)


def test_parts_of_batches():
    mine, other = (
        library.SerialEnv(3, lambda library=library: library.GymEnv("Pendulum-v1"))
        for library in (ours, theirs)
    )
    for index in (slice(0, 3, 2), 1, -1, np.array([2, 1])):
        parts = mine[index], other[index]
        assert parts[0].batch_size == parts[1].batch_size
        actions = np.random.default_rng(0).uniform(-1, 1, (5, *parts[0].batch_size, 1)).astype(np.float32)
        assert_same_entries(*rolled(*parts, actions))


def test_environments_of_other_bounds():
    mine, other = (
        library.SerialEnv(2, [lambda m=most: library.GymWrapper(Torque(m)) for most in (1.0, 2.0)])  # noqa: B023
        for library in (ours, theirs)
    )
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 2, 1)).astype(np.float32)
    assert_same_entries(*rolled(mine, other, actions))
    for low, high in ((-1.0, 1.0), (-1.0, 2.0), (-2.0, 1.0)):
        value = np.array([[low], [high]], np.float32)
        assert mine.action_spec.is_in(value) == bool(other.action_spec.is_in(torch.as_tensor(value)))


class Framed(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, high=255):
        self.observation_space = gymnasium.spaces.Box(0, high, (4, 5, 3), np.uint8)

    def reset(self, **keywords):
        return np.full((4, 5, 3), 7, np.uint8), {}

    def step(self, action):
        return np.full((4, 5, 3), 8, np.uint8), 1.0, False, False, {}


@each_case("high", [255, 254])
def test_frames(high):
    mine, other = ours.GymWrapper(Framed(high)), theirs.GymWrapper(Framed(high))
    assert_same_entries(*rolled(mine, other, actions_of(mine, 3)))
    assert mine.from_pixels == other.from_pixels


@each_case("many", [False, True])
@each_case("how", ["all", "keys", "specs", "registered"])
def test_info_dicts(many, how):
    made = []
    for library, specs in ((ours, our_specs), (theirs, their_specs)):
        vector = SyncVectorEnv([Telling] * 2, autoreset_mode=AutoresetMode.DISABLED) if many else None
        env = library.GymWrapper(vector or Telling())
        shape = (2,) if many else ()
        whole = (
            np.int64 if library is ours else torch.int64,
            np.float32 if library is ours else torch.float32,
        )
        given = [specs.Unbounded(shape, dtype=whole[0]), specs.Unbounded((*shape, 2), dtype=whole[1])]
        if how == "registered":
            env = env.auto_register_info_dict()
        else:
            reader = {
                "all": library.default_info_dict_reader(),
                "keys": library.default_info_dict_reader(["pair"], given[1:]),
                "specs": library.default_info_dict_reader(["steps", "pair"], given),
            }[how]
            assert env.set_info_dict_reader(reader) is env
            assert set(reader.info_spec.keys()) == {"keys": {"pair"}}.get(how, {"steps", "pair"})
        made.append(env)
    mine, other = made
    assert mine.observation_keys == other.observation_keys
    assert_same_entries(mine.fake_tensordict(), other.fake_tensordict())
    actions = mine.action_spec.rand((6,), rng=0)
    for stop in (True, False):
        td, wanted = rolled(mine, other, actions, break_when_any_done=stop)
        assert_same_entries(td, wanted)


@pytest.mark.parametrize("decay", [0.9999, 0.5])
def test_creators_share_statistics(decay):
    counts = []
    for library in (ours, theirs):

        def make(env_name, library=library):
            norm = library.VecNorm(in_keys=["observation"], decay=decay)
            return library.TransformedEnv(library.GymEnv(env_name), library.Compose(norm))

        creator = library.EnvCreator(make, env_name="Pendulum-v1")
        first, second = creator(), creator()
        first.rollout(10)
        there = creator.make_variant(env_name="MountainCarContinuous-v0").create_env_kwargs
        shared = [np.asarray(env.transform[0]._td["observation_count"]) for env in (first, second)]
        np.testing.assert_array_equal(*shared)
        counts.append((shared[0], there))
    np.testing.assert_allclose(counts[0][0], counts[1][0], rtol=1e-6)
    assert counts[0][1] == counts[1][1]


def test_locks_of_batch_size():
    found = []
    for library in (ours, theirs):
        env = library.GymEnv("Pendulum-v1")
        wrong, got = env.reset().expand(2), [env.batch_locked]
        for attempt in (
            lambda env=env, wrong=wrong: env.rand_step(wrong),
            lambda env=env, wrong=wrong: env.step(wrong),
            lambda env=env, wrong=wrong: env.reset(wrong),
        ):
            with pytest.raises(Exception) as caught:
                attempt()
            got.append(caught.type)
        found.append(got)
    assert found[0] == found[1]
    assert found[0][0]
