"""Evaluator: results computed by hand, weights, threads, videos."""

import threading
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.drawn_env import DrawnEnv
from helpers.evaluated import policy
from helpers.teams_env import Teams

from lite import TensorDict, nn
from lite.data import Collector, Evaluator, Logger, PixelRenderTransform, VideoRecorder
from lite.envs import Compose, EnvBase, GymEnv, RewardSum, Transform, TransformedEnv, VecNormV2

SHORT = {"num_trajectories": 1, "frames_per_batch": 4}


class Growing(DrawnEnv):
    """Each episode is a step longer than the one before."""

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        self.length += 1
        return super()._reset(tensordict, **kwargs)


def test_results() -> None:
    evaluator = Evaluator(Growing(length=0), policy(), num_trajectories=3, frames_per_batch=4)
    result = evaluator.evaluate()
    fps = result.pop("eval/fps")
    assert fps > 0
    assert result == {
        "eval/reward": 1.0,  # episodes of 1, 2 and 3 steps, half a point each
        "eval/reward_std": 0.5,
        "eval/num_episodes": 3,
        "eval/episode_length": 2.0,
        "eval/step": 0,
    }
    assert evaluator.evaluate()["eval/step"] == 1


def test_truncated_episodes_and_sums_of_rewards() -> None:
    for batch in ((), (3,)):

        def scaled(td: Any) -> Any:  # RewardSum saw the others
            return td.set("reward", 10 * td["reward"]) if "reward" in td else td

        env = TransformedEnv(DrawnEnv(batch, length=50), Compose(RewardSum(), scaled))
        evaluator = Evaluator(
            env, policy(), num_trajectories=2, max_steps=6, log_prefix="test",
            metrics_fn=lambda td: {"n": td.numel()},
        )  # fmt: skip
        result = evaluator.evaluate(step=9)
        assert result["test/reward"] == 3.0
        assert result["test/reward_std"] == 0.0
        assert (result["test/episode_length"], result["test/step"], result["test/n"]) == (6.0, 9, 12)


def test_rewards_of_all_agents_count() -> None:
    reward = ("agents", "reward")
    summed = TransformedEnv(Teams(), RewardSum(in_keys=[reward], out_keys=["episode_reward"]))
    for env, options in ((Teams(), {"reward_keys": ("next", *reward)}), (summed, {})):
        evaluator = Evaluator(
            env, lambda td: td.set("action", np.zeros((3, 1), np.float32)), **SHORT, **options
        )
        assert evaluator.evaluate()["eval/reward"] == 4.0  # two steps of two agents


def test_weights_and_modes() -> None:
    own, other = policy(0.5), policy(2.0)
    evaluator = Evaluator(DrawnEnv(), own, **SHORT)
    assert evaluator.evaluate()["eval/reward"] == 2.0
    assert evaluator.evaluate(other)["eval/reward"] == 8.0
    assert evaluator.evaluate()["eval/reward"] == 8.0
    assert evaluator.evaluate(Evaluator.extract_weights(policy(1.0)))["eval/reward"] == 4.0
    assert set(own.module.modes) == {False}
    assert own.training


class Added(Transform):
    """Adds its parameter to rewards."""

    def __init__(self) -> None:
        super().__init__(["reward"], ["reward"])
        self.by = nn.Parameter(np.zeros(1, np.float32))

    def _apply_transform(self, value: Any) -> Any:
        return value + np.asarray(self.by)


def test_weights_of_a_transform() -> None:
    env = TransformedEnv(DrawnEnv(), Compose(Added()))
    evaluator = Evaluator(env, policy(), **SHORT, collector_kwargs={"seed": 3})
    weights = TensorDict({"by": np.full(1, 10, np.float32)}, [])
    assert evaluator.evaluate(weights_dict={"env.transform[0]": weights})["eval/reward"] == 42.0
    with pytest.raises(TypeError, match="must be a Module to take weights, got int"):
        evaluator.evaluate(weights_dict={"frames_per_batch": weights})


def test_statistics_of_an_environment_that_it_makes_are_frozen() -> None:
    trained = TransformedEnv(DrawnEnv(length=9), VecNormV2(["observation"]))
    trained.rollout(9)
    made = []

    def make() -> EnvBase:
        norm = VecNormV2(["observation"])
        norm.load_state_dict(trained.state_dict())
        made.append((norm, norm.state_dict()))
        return TransformedEnv(DrawnEnv(), norm)

    evaluator = Evaluator(make, policy_factory=lambda env: env.rand_action, **SHORT)
    assert not made
    for _ in range(2):
        evaluator.evaluate()
    ((norm, state),) = made
    assert norm.frozen
    for name, value in norm.state_dict().items():
        np.testing.assert_array_equal(value, state[name])


def test_deterministic_unless_told_otherwise() -> None:
    seen = []

    def act(td: Any) -> Any:
        seen.append(nn.interaction_type())
        return td.set("action", np.zeros(1, np.float32))

    Evaluator(DrawnEnv(), act, **SHORT).evaluate()
    Evaluator(DrawnEnv(), act, **SHORT, exploration_type="random").evaluate()
    assert seen == [nn.InteractionType.DETERMINISTIC] * 4 + [nn.InteractionType.RANDOM] * 4


def test_in_a_thread() -> None:
    results: list[Any] = []
    evaluator = Evaluator(DrawnEnv(), policy(), **SHORT, on_result=results.append, busy_policy="queue")
    assert evaluator.poll() is evaluator.wait() is None
    assert all(evaluator.trigger_eval(policy(value), step=i) for i, value in enumerate((1.0, 2.0)))
    found = [evaluator.wait(60), evaluator.poll(timeout=60)]
    assert [(r["eval/step"], r["eval/reward"]) for r in found if r] == [(0, 4.0), (1, 8.0)]
    assert [float(td["eval/reward"]) for td in results] == [4.0, 8.0]
    assert not evaluator.pending
    assert evaluator.state_dict() == {"step_counter": 0}
    evaluator.shutdown()
    assert evaluator.env.is_closed
    raises(RuntimeError, "was shut down", lambda: evaluator.trigger_eval())


def test_while_another_one_runs() -> None:
    go = threading.Event()

    def act(td: Any) -> Any:
        go.wait(60)
        return td.set("action", np.zeros(1, np.float32))

    skipping, strict = (Evaluator(DrawnEnv(), act, busy_policy=busy, **SHORT) for busy in ("skip", "error"))
    for evaluator in (skipping, strict):
        assert evaluator.trigger_eval()
        assert evaluator.pending
        assert evaluator.poll(0.01) is None
    assert not skipping.trigger_eval()
    raises(RuntimeError, "runs already", lambda: strict.trigger_eval())
    raises(RuntimeError, "its result was not taken", lambda: strict.state_dict())
    go.set()
    for evaluator in (skipping, strict):
        assert evaluator.wait() is not None
        evaluator.shutdown()


def test_what_a_thread_raises_is_raised_here() -> None:
    def fail(td: Any) -> Any:
        raise ValueError("no")

    evaluator = Evaluator(DrawnEnv(), fail, **SHORT)
    evaluator.trigger_eval()
    raises(ValueError, "no", lambda: evaluator.wait())
    evaluator.shutdown()


def test_an_environment_that_cannot_be_made() -> None:
    def make() -> EnvBase:
        raise OSError("no display")

    evaluator = Evaluator(make, policy(), **SHORT)
    for _ in range(2):
        raises(OSError, "no display", lambda: evaluator.evaluate())
    evaluator.shutdown()


def test_as_a_hook_of_a_collector() -> None:
    steps = []
    evaluator = Evaluator(DrawnEnv(), policy(), **SHORT, on_result=lambda td: steps.append(td["eval/step"]))
    hook = evaluator.every(25, policy(2.0))
    for _ in Collector(DrawnEnv(), policy(), frames_per_batch=10, total_frames=60, post_collect_hook=hook):
        pass
    assert steps == [30, 50]
    evaluator.load_state_dict({"step_counter": 4})
    assert evaluator.evaluate()["eval/step"] == 4


def test_a_hook_that_does_not_wait() -> None:
    free = threading.Event()

    def act(td: Any) -> Any:
        assert free.wait(60)
        return policy()(td)

    evaluator = Evaluator(DrawnEnv(), act, **SHORT)
    hook, batch = evaluator.every(20, wait=False), TensorDict(batch_size=[10])
    assert [hook(batch) for _ in range(5)] == [None] * 5  # the second evaluation is skipped
    free.set()
    while evaluator.pending:
        pass
    found = hook(TensorDict(batch_size=[1]))
    assert found is not None
    assert found["eval/step"] == 20
    assert hook(batch) is None  # it began another one
    found = evaluator.wait()
    assert found is not None
    assert found["eval/step"] == 61
    evaluator.shutdown()


def test_a_video_of_each_evaluation() -> None:
    videos = []

    class Kept(Logger):
        def _create_experiment(self) -> None:
            return None

        def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
            videos.append((name, video.shape[1], step))

    env = TransformedEnv(
        DrawnEnv(), Compose(PixelRenderTransform(), VideoRecorder(Kept("a", "b"), "test", skip=1))
    )
    evaluator = Evaluator(env, policy(), num_trajectories=2, frames_per_batch=8)
    for step in (10, 20):
        evaluator.evaluate(step=step)
    Evaluator(env, policy(), **SHORT, dump_video=False).evaluate()
    assert videos == [("test", 11, 10), ("test", 11, 20)]


def test_gymnasium() -> None:
    import gymnasium

    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    act = nn.TensorDictModule(lambda obs: np.ones(len(obs), np.int64), ["observation"], ["action"])
    result = Evaluator(vector, act, num_trajectories=4, frames_per_batch=20).evaluate()
    assert result["eval/num_episodes"] == 4
    assert result["eval/reward"] == result["eval/episode_length"] < 12
    single = Evaluator(
        GymEnv("CartPole-v1"),
        lambda td: td.set("action", np.array([0, 1])),
        num_trajectories=2,
        frames_per_batch=20,
    )
    assert single.evaluate()["eval/reward"] < 12


def test_errors() -> None:
    with pytest.raises(KeyError, match=r"reward_keys must name the reward, got .*; .*agents.*reward"):
        Evaluator(Teams(), lambda td: td.set("action", np.zeros((3, 1), np.float32)), **SHORT).evaluate()
    for words, message in (
        ({"busy_policy": "wait"}, "busy_policy must be one of"),
        ({"backend": "ray"}, "backend must be 'thread' or 'process', got 'ray'"),
        ({"backend": "process"}, "a process needs a function that makes env, got a DrawnEnv"),
        ({"policy_factory": lambda env: env.rand_action}, "policy or policy_factory, and not both"),
    ):
        raises(ValueError, message, Evaluator, DrawnEnv(), policy(), **words)
    raises(ValueError, "frames must be at least 1, got 0", lambda: Evaluator(DrawnEnv(), policy()).every(0))

    for name in ("policy", "policy_factory"):
        raises(TypeError, f"{name} must be callable, got int", Evaluator, None, **{name: 3})

    def fail(td: Any) -> None:
        raise KeyError("loss")

    with pytest.warns(RuntimeWarning, match="on_result raised KeyError: 'loss'"):
        Evaluator(DrawnEnv(), policy(), **SHORT, on_result=fail).evaluate()
