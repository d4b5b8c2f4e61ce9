"""What transforms refuse is what TorchRL's refuse, with the same class of error."""

import numpy as np
import pytest
from helpers.cases import each_case
from parity.transform_cases import IMAGE, LITE, LOC, OBS, REWARD, TORCH, batch, counting

pytestmark = pytest.mark.filterwarnings("ignore")

ERRORS = {
    "norm without keys": lambda b: b.e.ObservationNorm(0.0, 1.0),
    "norm of half": lambda b: b.e.ObservationNorm(loc=1.0, in_keys=["x"]),
    "a missing entry": lambda b: b.e.RewardClipping(-1, 1)(batch(b, {"x": OBS})),
    "clip nothing": lambda b: b.e.ClipTransform(["x"]),
    "clip an array": lambda b: b.e.ClipTransform(["x"], low=np.zeros(2)),
    "rename of two to one": lambda b: b.e.RenameTransform(["a", "b"], ["c"]),
    "target": lambda b: b.e.TargetReturn(1.0, mode="x"),
    "target alone": lambda b: b.e.TargetReturn(1.0, in_keys=["reward"])(batch(b, {"reward": REWARD})),
    "to go without an end": lambda b: b.e.Reward2GoTransform().inv(batch(b,
        {"next": {"reward": REWARD, "done": REWARD > 9}})),
    "to go in an environment": lambda b: b.e.TransformedEnv(counting(b), b.e.Reward2GoTransform()),
    "not finite": lambda b: b.e.FiniteTensorDictCheck()(batch(b, {"n": {"x": OBS / 0}})),
    "skip": lambda b: b.e.FrameSkipTransform(0),
    "skip alone": lambda b: b.e.FrameSkipTransform(2)(batch(b, {"x": OBS})),
    "no-ops of two": lambda b: b.e.TransformedEnv(counting(b, (2,)), b.e.NoopResetEnv()).reset(),
    "no-ops of too many": lambda b: b.e.TransformedEnv(counting(b),
        b.e.NoopResetEnv(9, random=False)).reset(),
    "mask": lambda b: b.e.ActionMask(action_key=1),
    "mask alone": lambda b: b.e.ActionMask()(batch(b, {"action_mask": OBS > 0})),
    "mask of numbers": lambda b: b.e.TransformedEnv(counting(b), b.e.ActionMask(mask_key="x")).reset(),
    "scaling of half": lambda b: b.e.ActionScaling(loc=1.0),
    "scaling of two": lambda b: b.e.ActionScaling(["a", "b"]),
    "scaling by zero": lambda b: b.e.ActionScaling(loc=1.0, scale=0.0),
    "scaling alone": lambda b: b.e.ActionScaling().inv(batch(b, {"action": OBS})),
    "scaling of another size": lambda b: b.e.ActionScaling(loc=b.of(LOC),
        scale=b.of(LOC + 2)).inv(batch(b, {"action": OBS[:, :2]})),
    "scaling of both statistics": lambda b: b.e.ActionScaling.from_stats(mean=0, std=1, low=0, high=1),
    "projection": lambda b: b.e.DiscreteActionProjection(3, 2),
    "projection of another size": lambda b: b.e.DiscreteActionProjection(2,
        3).inv(batch(b, {"action": OBS[:, :2]})),
    "discretizer alone": lambda b: b.e.ActionDiscretizer(3).inv(batch(b, {"action": OBS})),
    "crop of none": lambda b: b.e.RandomCropTensorDict(2)(batch(b, {"x": OBS}, ())),
    "burn in a number": lambda b: b.e.BurnInTransform([3], 1),
    "frozen too early": lambda b: b.e.VecNormV2(["x"]).frozen_copy(),
    "frozen too early, too": lambda b: b.e.VecNorm(["x"]).frozen_copy(),
    "unsqueeze": lambda b: b.e.UnsqueezeTransform(0, in_keys=["x"]),
    "permute": lambda b: b.e.PermuteTransform((0, 1), in_keys=["x"]),
    "permute too many": lambda b: b.e.PermuteTransform((-1, -3, -2), in_keys=["x"])(batch(b, {"x": OBS})),
    "flatten": lambda b: b.e.FlattenObservation(0, -1),
    "flatten what is not there": lambda b: b.e.FlattenObservation(-2, -1, ["x"])(batch(b, {"x": OBS[0]}, ())),
    "frames along dim": lambda b: b.e.CatFrames(2, 0),
    "frames without a batch": lambda b: b.e.CatFrames(2, -1, ["x"])(batch(b, {"x": OBS}, ())),
    "grey of four": lambda b: b.e.GrayScale(["x"])(batch(b, {"x": IMAGE})),
    "counter": lambda b: b.e.StepCounter(0),
    "sum": lambda b: b.e.RewardSum(["reward"], ["a", "b"]),
    "truncation at 0": lambda b: b.e.RandomTruncationTransform(0, 2),
    "truncation by no chance": lambda b: b.e.RandomTruncationTransform(1, 2, 1.5),
    "no batch size": lambda b: b.e.BatchSizeTransform(),
    "two batch sizes": lambda b: b.e.BatchSizeTransform(batch_size=[2], reshape_fn=lambda td: td),
    "init": lambda b: b.e.InitTracker(("a", "b")),
    "primer": lambda b: b.e.TensorDictPrimer({"a": b.d.Unbounded(1)}, random=True, default_value=1.0),
    "compose a number": lambda b: b.e.Compose(3),
    "compose with words": lambda b: b.e.Compose(b.e.RewardSum(), other=1),
    "insert too far": lambda b: b.e.Compose().insert(2, b.e.RewardSum()),
    "transform is no transform": lambda b: b.e.TransformedEnv(counting(b), 3),
    "in two environments": lambda b: [b.e.TransformedEnv(env,
        t) for t in [b.e.RewardSum()] for env in [counting(b), counting(b)]],
    "a key without a spec": lambda b: (b.e.TransformedEnv(counting(b),
        b.e.Transform(["x"], ["z"])).output_spec),
}  # fmt: skip


@each_case("name", ERRORS)
def test_errors(name):
    kinds = []
    for b in (LITE, TORCH):
        with pytest.raises(Exception, match="") as caught:
            ERRORS[name](b)
        kinds.append(caught.type.__name__)
    assert kinds[0] == kinds[1]
