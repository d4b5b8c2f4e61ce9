"""Transforms in environments as TorchRL's."""

import numpy as np
import pytest
from helpers.cases import each_case
from parity.transform_cases import LITE, TORCH, batch, counting, flat, same, same_specs, state

import lite
import lite.data
import lite.envs

pytestmark = pytest.mark.filterwarnings("ignore")

ENVIRONMENTS = {
    "none": lambda b: None,
    "of one's own": lambda b: type("Own", (b.e.ObservationTransform,), {
        "_apply_transform": lambda self, obs: obs + 1})(["x"], ["x"]),
    "norm": lambda b: b.e.ObservationNorm(1.0, 2.0, ["x"], ["z"]),
    "norm of actions": lambda b: b.e.ObservationNorm(0.5, 2.0, [], in_keys_inv=["action"],
        out_keys_inv=["action"], standard_normal=True),
    "rewards": lambda b: b.e.Compose(b.e.RewardScaling(1, 2), b.e.RewardClipping(-3, 3), b.e.RewardSum()),
    "float": lambda b: b.e.DoubleToFloat(),
    "float of actions": lambda b: b.e.DTypeCastTransform(b.dtype("float32"), b.dtype("float64"), ["x"],
        in_keys_inv=["action"]),
    "rename": lambda b: b.e.RenameTransform(["x", "reward"], ["z", "r"], ["action"], ["a"]),
    "exclude": lambda b: b.e.ExcludeTransform("pixels", "y"),
    "select": lambda b: b.e.SelectTransform("x"),
    "unsqueeze": lambda b: b.e.Compose(b.e.UnsqueezeTransform(-1, in_keys=["x", "reward"]),
        b.e.SqueezeTransform(-1, in_keys=["y"])),
    "images": lambda b: b.e.Compose(b.e.ToTensorImage(), b.e.GrayScale(), b.e.CatFrames(3, -3),
        b.e.FlattenObservation(-2, -1)),
    "permute": lambda b: b.e.PermuteTransform((-1, -3, -2), ["pixels"]),
    "cat": lambda b: b.e.Compose(b.e.DoubleToFloat(["y"]), b.e.CatTensors(["x", "y"], "z")),
    "frames": lambda b: b.e.CatFrames(3, -1, ["x"], ["z"]),
    "frames constant": lambda b: b.e.CatFrames(2, -1, ["x"], padding="constant", padding_value=9),
    "counter": lambda b: b.e.StepCounter(),
    "counter to a limit": lambda b: b.e.StepCounter(2, step_count_key="steps"),
    "counter not done": lambda b: b.e.StepCounter(2, update_done=False),
    "sum": lambda b: b.e.Compose(b.e.StepCounter(4), b.e.RewardSum(), b.e.InitTracker()),
    "counter as a float": lambda b: b.e.Compose(b.e.StepCounter(),
        b.e.DTypeCastTransform(b.dtype("int64"), b.dtype("float32"), ["step_count"])),
    "first steps in frames": lambda b: b.e.Compose(b.e.InitTracker(), b.e.CatFrames(2, -1, ["is_init"])),
    "sum of sums": lambda b: b.e.Compose(b.e.RewardSum(reward_spec=True), b.e.RewardSum()),
    "sum in place": lambda b: b.e.RewardSum(["reward"], ["reward"]),
    "sum as a reward": lambda b: b.e.RewardSum(reward_spec=True),
    "sum with reset keys": lambda b: b.e.RewardSum(["reward"], ["sum"], ["_reset"]),
    "numbers": lambda b: b.e.TrajCounter(),
    "numbers of truncated ones": lambda b: b.e.Compose(b.e.StepCounter(2), b.e.TrajCounter("episode")),
    "truncated at once": lambda b: b.e.Compose(b.e.StepCounter(), b.e.RandomTruncationTransform(1, 1)),
    "truncated elsewhere": lambda b: b.e.Compose(b.e.StepCounter(step_count_key="steps"),
        b.e.RandomTruncationTransform(1, 1, 1.0, step_count_key="steps", truncated_key="late")),
    "primer": lambda b: b.e.TensorDictPrimer({"memory": b.d.Unbounded((3,), dtype=b.dtype("float32"))},
        default_value=2.0, expand_specs=True),
    "clip": lambda b: b.e.Compose(b.e.ClipTransform(["x"], low=-2), b.e.SignTransform(["reward"])),
    "target": lambda b: b.e.TargetReturn(20.0),
    "target constant": lambda b: b.e.TargetReturn(20.0, mode="constant", out_keys=["goal"]),
    "finite": lambda b: b.e.FiniteTensorDictCheck(),
    "skip": lambda b: b.e.Compose(b.e.RewardScaling(1, 2), b.e.FrameSkipTransform(2)),
    "skip of frames": lambda b: b.e.Compose(b.e.CatFrames(3, -1, ["x"], ["z"]),
        b.e.TimeMaxPool(["y"], T=2), b.e.FrameSkipTransform(2)),
    "max pool": lambda b: b.e.TimeMaxPool(["x"], ["z"], T=2),
    "scaled actions": lambda b: b.e.ActionScaling(standard_normal=False),
    "scaled actions by numbers": lambda b: b.e.ActionScaling(loc=0.5, scale=2.0),
    "vec norm": lambda b: b.e.VecNorm(["x", "reward"], ["z", "reward"], decay=0.9),
    "vec norm v2": lambda b: b.e.VecNormV2(["x", "reward"], ["z", "reward"], decay=0.9),
    "vec norm v2 of all": lambda b: b.e.VecNormV2(["x"], decay=1.0, reduce_batch_dims=True),
    "vec norm v2 of batches": lambda b: b.e.VecNormV2(["x"], decay=0.8, reduce_batch_dims=True),
}  # fmt: skip
# What is another on purpose: the dtype of a spec is that of the values.
OTHER_SPECS = {"clip"}
# Refused by both: as a state, the entry has the spec that it has before the other transforms.
REFUSED = {"rewards", "counter as a float"}


def rolled(b, name, size, stop):
    # Steps that are repeated end with their episode here, and go on behind it there.
    lengths = (4, 6) if name.startswith("skip") else (3, 5)
    env = b.e.TransformedEnv(counting(b, size, lengths), ENVIRONMENTS[name](b))
    given = iter(np.linspace(-1, 1, 8))
    key = env.action_keys[0]

    def policy(td):
        spec = env.full_action_spec[key]
        value = np.full(tuple(spec.shape), next(given))
        action = b.of(value.astype(str(spec.dtype).replace("torch.", "")))
        return td.set(key, action)

    out = env.rollout(8, policy, break_when_any_done=stop)
    return env, {name: value for name, value in flat(out).items() if name.split(".")[-1] != "_reset"}


@pytest.mark.parametrize("name", ENVIRONMENTS)
@each_case(("size", "stop"), [((), True), ((2,), False)])
def test_in_an_environment(name, size, stop):
    stop = stop or name == "select"  # the entries that a reset needs are not selected
    (mine, ours), (their, theirs) = (rolled(b, name, size, stop) for b in (LITE, TORCH))
    same(ours, theirs)
    if name not in OTHER_SPECS:
        for kind in ("observation", "reward", "done", "action", "state"):
            same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))
        same(*(flat(env.fake_tensordict()) for env in (mine, their)))


@each_case("before", [False, True])
def test_a_primer_of_the_environments_shape(before):
    def primed(b):
        drawn = iter(np.arange(40.0, dtype=np.float32).reshape(-1, 2, 1))
        spec = b.d.Composite(level=b.d.Unbounded((2, 1), dtype=b.dtype("float32")), shape=(2,))
        words = {"default_value": {"level": lambda: b.of(next(drawn))}, "call_before_env_reset": before}
        env = b.e.TransformedEnv(counting(b, (2,)), b.e.TensorDictPrimer(spec, **words))
        inner = env.base_env._reset

        def reset(tensordict=None, **kwargs):
            out = inner(tensordict, **kwargs)
            return out.set("level", tensordict.get("level") * 2) if before else out

        env.base_env._reset = reset

        def policy(td):
            return td.set("action", b.of(np.zeros((2, 2), np.float32)))

        return env, flat(env.rollout(8, policy, break_when_any_done=False))

    (mine, ours), (their, theirs) = primed(LITE), primed(TORCH)
    same(ours, theirs)
    for kind in ("observation", "state"):
        same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))


@each_case("name", [name for name in ENVIRONMENTS if name not in OTHER_SPECS | REFUSED])
def test_an_environment_does_what_its_specs_say(name):
    env = lite.envs.TransformedEnv(counting(LITE, (2,)), ENVIRONMENTS[name](LITE))
    lite.envs.check_env_specs(env)


@each_case("name", ["norm", "frames", "max pool", "rewards", "target"])
def test_state_dicts_in_the_middle_of_a_rollout(name):
    (mine, _), (their, _) = (rolled(b, name, (2,), False) for b in (LITE, TORCH))
    theirs = {key: value.numpy() for key, value in their.state_dict().items()}
    same(mine.state_dict(), theirs)
    mine.load_state_dict(theirs)
    their.load_state_dict({key: TORCH.of(value) for key, value in mine.state_dict().items()})


@each_case("name", ["max pool", "clip", "primer"])
def test_integers_without_dimensions(name):
    def rolled(b):
        transform = {
            "max pool": lambda: b.e.TimeMaxPool(["observation"], T=2),
            "clip": lambda: b.e.ClipTransform(["observation"], low=-0.5, high=2.5),
            "primer": lambda: b.e.TensorDictPrimer(
                {"level": b.d.Unbounded((), dtype=b.dtype("float32"))}, default_value=2.0
            ),
        }[name]()
        env = b.e.GymEnv("FrozenLake-v1", is_slippery=False, categorical_action_encoding=True)
        env = b.e.TransformedEnv(env, transform)
        env.set_seed(0)
        actions = iter([2, 2, 1, 1, 1, 0, 2, 2])
        words = {"break_when_any_done": False}
        return env, flat(env.rollout(8, lambda td: td.set("action", b.of(next(actions))), **words))

    (mine, ours), (_, theirs) = (rolled(b) for b in (LITE, TORCH))
    same(ours, theirs)
    lite.envs.check_env_specs(mine)


@pytest.mark.parametrize("size", [(), (2,)])
def test_another_batch_size(size):
    def made(b):
        summed = b.e.BatchSizeTransform(reshape_fn=lambda td: td.unsqueeze(0))
        env = b.e.TransformedEnv(counting(b, size), b.e.Compose(b.e.RewardSum(), summed))
        action = b.of(np.ones((1, *size, 2), np.float32))
        return env, flat(env.rollout(8, lambda td: td.set("action", action)))

    (mine, ours), (their, theirs) = made(LITE), made(TORCH)
    same(ours, theirs)
    assert mine.batch_size == tuple(their.batch_size) == (1, *size)
    for kind in ("observation", "reward", "done", "action", "state"):
        same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))
    lite.envs.check_env_specs(mine)


@pytest.mark.parametrize("reset", [None, "made", "made of the environment"])
def test_a_batch_size_for_an_environment_of_any(reset):
    def made(b):
        class Drawn(b.e.EnvBase):
            batch_locked = False

            def __init__(self):
                super().__init__()
                f32 = b.dtype("float32")
                self.observation_spec = b.d.Composite(x=b.d.Bounded(-1, 1, shape=(3,), dtype=f32))
                self.reward_spec = b.d.Unbounded((1,), dtype=f32)
                self.action_spec = b.d.Unbounded((2,), dtype=f32)

            def _reset(self, tensordict, **kwargs):
                size = () if tensordict is None else tuple(tensordict.batch_size)
                return self.observation_spec.zero(size).update(self.full_done_spec.zero(size))

            def _step(self, tensordict):
                size = tuple(tensordict.batch_size)
                out = self.observation_spec.one(size).update(self.full_done_spec.zero(size))
                return out.update(self.full_reward_spec.one(size))

            def _set_seed(self, seed):
                pass

        def first(tensordict, tensordict_reset, env=None):
            assert (env is None) is (reset == "made")
            entries = {"x": np.full((5, 3), 0.5, np.float32)}
            entries |= {name: np.zeros((5, 1), np.bool_) for name in ("done", "terminated")}
            return batch(b, entries, (5,))

        given = {} if reset is None else {"reset_func": first, "env_kwarg": reset != "made"}
        env = b.e.TransformedEnv(Drawn(), b.e.BatchSizeTransform(batch_size=[5], **given))
        zeros = b.of(np.zeros((5, 2), np.float32))
        return env, flat(env.rollout(4, lambda td: td.set("action", zeros)))

    (mine, ours), (their, theirs) = made(LITE), made(TORCH)
    same(ours, theirs)
    for kind in ("observation", "reward", "done", "action", "state"):
        same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))


@pytest.mark.parametrize("first", [None, 1.0])
def test_lengths_of_truncated_episodes(first):
    """The first one is random, and with `first` the second; those after it are as long as may be."""

    def lengths(b):
        truncation = b.e.RandomTruncationTransform(1, 4, 0.0, first)
        env = b.e.TransformedEnv(counting(b, (), (99,)), b.e.Compose(b.e.StepCounter(), truncation))
        ends = np.flatnonzero(flat(env.rollout(30, break_when_any_done=False))["next.truncated"])
        return np.diff(ends)[1 if first else 0 :][:5].tolist()

    assert lengths(LITE) == lengths(TORCH) == [4] * 5


def test_numbers_go_on_over_resets_and_in_state_dicts():
    def made(b):
        counter = b.e.TrajCounter()
        env = b.e.TransformedEnv(counting(b, (2,)), counter)
        seen = [flat(env.reset())["traj_count"].tolist() for _ in range(2)]
        clone = b.e.TransformedEnv(counting(b, (2,)), counter.clone())
        seen.append(flat(clone.reset())["traj_count"].tolist())
        state = counter.state_dict()
        other = b.e.TrajCounter()
        other.load_state_dict(state)
        seen.append(flat(b.e.TransformedEnv(counting(b, (2,)), other).reset())["traj_count"].tolist())
        return seen, {key: int(value) for key, value in state.items()}

    assert made(LITE) == made(TORCH)


@each_case(
    ("strategy", "categorical", "size"),
    [("MEDIAN", True, ()), ("MEDIAN", False, (2,)), ("LOW", True, (2,)), ("HIGH", False, ())],
)
def test_discrete_actions(strategy, categorical, size):
    def made(b):
        cls = b.e.ActionDiscretizer
        return b.e.TransformedEnv(
            counting(b, size), cls(4, "action", "choice", cls.SamplingStrategy[strategy], categorical)
        )

    mine, their = made(LITE), made(TORCH)
    drawn = mine.rand_action(mine.reset())
    assert mine.full_action_spec.is_in(drawn.select("choice"))
    given = {"choice": drawn["choice"]}
    same(*(flat(env.transform.inv(batch(b, given, size))) for env, b in ((mine, LITE), (their, TORCH))))
    for kind in ("action", "state"):
        same_specs(*(getattr(env, f"full_{kind}_spec") for env in (mine, their)))
    lite.envs.check_env_specs(mine)


def test_random_steps_first():
    def started(b):
        made = b.e.Compose(b.e.StepCounter(), b.e.NoopResetEnv(2, random=False))
        return flat(b.e.TransformedEnv(counting(b), made).reset())

    same(*(started(b) for b in (LITE, TORCH)))


def test_lives():
    def rolled(b):
        env = counting(b, lengths=(4,))
        env.left = lambda: 3 - int(env.count[0]) // 2
        env = b.e.TransformedEnv(env, b.e.EndOfLifeTransform(eol_attribute="left"))
        return flat(env.rollout(9, lambda td: td.set("action", b.of(np.zeros(2, np.float32)))))

    same(*(rolled(b) for b in (LITE, TORCH)))


def test_statistics_of_an_environment():
    def found(b, **keywords):
        norm = b.e.ObservationNorm(in_keys=["x"], standard_normal=keywords.pop("standard", True))
        env = b.e.TransformedEnv(counting(b, (2,)), b.e.Compose(b.e.DoubleToFloat(["y"]), norm))
        env.transform[1].init_stats(7, **keywords)
        return state(env.transform)

    for keywords in (
        {"reduce_dim": (0, 1), "cat_dim": 1},
        {"reduce_dim": (0, 1), "cat_dim": 1, "standard": False},
        {"reduce_dim": (0, 1), "cat_dim": 0, "keep_dims": (1,)},
    ):
        same(*(found(b, **keywords) for b in (LITE, TORCH)))
