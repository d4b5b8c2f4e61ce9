"""Optimisers beside torch's, over many steps, and their state dicts in both directions."""

import numpy as np
import pytest
import torch
from helpers.cases import each_case

from lite import TensorDict, nn, optim

SHAPES = [(4, 3), (5,), (), (2, 1, 3), (0, 2)]
LARGE = [(130, 131), (3,), (0, 2)]  # compiled
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.02, "amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.02}),
    ("AdamW", {"lr": 0.02, "weight_decay": 0.3, "amsgrad": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.02, "alpha": 0.9, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.02, "centered": True}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.8}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.8, "centered": True, "weight_decay": 0.1}),
]
TOLERANCES = {"float32": 1e-6, "float64": 1e-12}
ids = [f"{name} {options}" for name, options in CASES]


def arrays(shapes, dtype, seed):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def close(ours, theirs, tolerance):
    expected = theirs.detach().float().numpy() if theirs.dtype == torch.bfloat16 else theirs.detach().numpy()
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(
        np.asarray(ours, expected.dtype), expected, rtol=tolerance, atol=tolerance * scale
    )


class Pair:
    """Equal parameters here and in torch, with equal gradients."""

    def __init__(self, shapes, dtype="float32"):
        start = arrays(shapes, dtype, 0)
        self.shapes, self.dtype = shapes, dtype
        self.ours = [nn.Parameter(array.copy()) for array in start]
        self.theirs = [torch.nn.Parameter(torch.tensor(array)) for array in start]

    def gradients(self, seed, skip=()):
        for i, array in enumerate(arrays(self.shapes, self.dtype, seed)):
            self.ours[i].grad = None if i in skip else array
            self.theirs[i].grad = None if i in skip else torch.tensor(array)

    def compare(self, tolerance):
        for mine, other in zip(self.ours, self.theirs, strict=True):
            assert mine.dtype.name == self.dtype
            close(mine.data, other, tolerance)


def compare_states(ours, theirs, tolerance):
    assert set(ours["state"]) == set(theirs["state"])
    for number, entries in theirs["state"].items():
        assert set(ours["state"][number]) == set(entries)
        for name, value in entries.items():
            assert ours["state"][number][name].dtype.name == str(value.dtype).removeprefix("torch.")
            close(ours["state"][number][name], value, tolerance)
    for mine, other in zip(ours["param_groups"], theirs["param_groups"], strict=True):
        how = {"foreach", "fused", "capturable", "differentiable"}  # torch computes, which nobody here asks
        assert {name: other[name] for name in mine if name not in how} == {
            name: value for name, value in mine.items() if name not in how
        }


@each_case(("shapes", "dtype"), [(SHAPES, "float32"), (SHAPES, "float64"), (LARGE, "float32")])
@pytest.mark.parametrize(("name", "options"), CASES, ids=ids)
def test_many_steps(name, options, shapes, dtype):
    pair = Pair(shapes, dtype)
    mine = getattr(optim, name)(pair.ours, **options)
    other = getattr(torch.optim, name)(pair.theirs, **options)
    for step in range(20):
        # One parameter misses steps, so that its bias corrections are its own.
        pair.gradients(step + 1, skip=(1,) if step in (0, 1, 7) else ())
        assert mine.step() is None
        other.step()
    tolerance = TOLERANCES[dtype]
    pair.compare(tolerance)
    compare_states(mine.state_dict(), other.state_dict(), tolerance)


@each_case("dtype", ["float16", "bfloat16"])
@each_case(("name", "options"), CASES)
def test_sixteen_bits(name, options, dtype):
    """The state has the parameter's dtype, as in torch, which rounds within a step, too."""
    options = {"lr": 0.01, "eps": 1e-3, **options} if name != "SGD" else {**options, "lr": 0.01}
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.float16
    start, gradients = arrays([(40,)], "float32", 0)[0], arrays([(40,)] * 5, "float32", 1)
    mine, other = (
        nn.Parameter(start.astype(kind)),
        torch.nn.Parameter(torch.tensor(start).to(getattr(torch, dtype))),
    )
    ours, theirs = getattr(optim, name)([mine], **options), getattr(torch.optim, name)([other], **options)
    for gradient in gradients:
        mine.grad, other.grad = gradient.astype(kind), torch.tensor(gradient).to(other.dtype)
        ours.step()
        theirs.step()
    tolerance = 0.01 if dtype == "float16" else 0.06
    close(mine.data, other, tolerance)
    compare_states(ours.state_dict(), theirs.state_dict(), tolerance)


@each_case(("name", "options"), CASES)
def test_state_dicts_go_both_ways(name, options):
    pair = Pair(SHAPES, "float64")
    mine, other = (
        getattr(optim, name)(pair.ours, **options),
        getattr(torch.optim, name)(pair.theirs, **options),
    )
    for step in range(5):
        pair.gradients(step)
        mine.step()
        other.step()
    again = getattr(torch.optim, name)(pair.theirs, lr=123.0)
    again.load_state_dict(mine.state_dict(as_torch=True))
    back = getattr(optim, name)(pair.ours, lr=123.0)
    back.load_state_dict(other.state_dict())
    for step in range(5):
        pair.gradients(step + 5, skip=(2,))
        again.step()
        back.step()
    pair.compare(1e-12)
    compare_states(back.state_dict(), again.state_dict(), 1e-12)


@each_case(
    ("name", "wrong"),
    [
        ("Adam", {"lr": -1.0}), ("Adam", {"betas": (1.0, 0.9)}), ("Adam", {"betas": (0.9, -0.1)}),
        ("Adam", {"eps": -1.0}), ("Adam", {"weight_decay": -1.0}), ("SGD", {"lr": -1.0}),
        ("SGD", {"momentum": -1.0}), ("SGD", {"nesterov": True}), ("SGD", {"weight_decay": -0.1}),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}), ("RMSprop", {"alpha": -1.0}),
        ("RMSprop", {"eps": -1.0}), ("RMSprop", {"momentum": -1.0}), ("AdamW", {"lr": -1e-9}),
    ],
)  # fmt: skip
def test_errors_are_of_the_same_class(name, wrong):
    for module, param in (
        (optim, nn.Parameter(np.ones(2))),
        (torch.optim, torch.nn.Parameter(torch.ones(2))),
    ):
        with pytest.raises(ValueError):
            getattr(module, name)([param], **wrong)


@each_case("bad", [[], [np.ones(2)], "params", {1, 2}, np.ones(2), 3j], ids=repr)
def test_what_is_not_to_be_optimised(bad):
    found = []
    for module in (optim, torch.optim):
        with pytest.raises((TypeError, ValueError)) as caught:
            module.Adam(bad)
        found.append(caught.type)
    assert found[0] is found[1]


# -- schedules ---------------------------------------------------------------------------------------

SCHEDULES = {
    "constant": lambda m, o: m.ConstantLR(o, factor=0.3, total_iters=4),
    "linear": lambda m, o: m.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=6),
    "linear, of the defaults": lambda m, o: m.LinearLR(o),
    "cosine": lambda m, o: m.CosineAnnealingLR(o, T_max=5, eta_min=0.01),
    "lambda": lambda m, o: m.LambdaLR(o, lambda step: 0.9**step),
    "steps": lambda m, o: m.StepLR(o, step_size=3, gamma=0.7),
    "exponential": lambda m, o: m.ExponentialLR(o, gamma=0.9),
    "warm-up, steps": lambda m, o: m.SequentialLR(o, [m.LinearLR(o, 0.1), m.StepLR(o, 3)], [5]),
    "warm-up, cosine": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1, total_iters=4), m.CosineAnnealingLR(o, T_max=9)], milestones=[4]
    ),
    "milestones": lambda m, o: m.MultiStepLR(o, [4, 9, 9, 30], gamma=0.5),
    "restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 5, eta_min=0.01),
    "longer restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, T_mult=2),
    "warm-up, restarts": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1), m.CosineAnnealingWarmRestarts(o, 3, T_mult=2), m.MultiStepLR(o, [2])],
        milestones=[5, 20],
    ),
    "one cycle": lambda m, o: m.OneCycleLR(o, [0.3, 0.8], 60),
    "one cycle in lines": lambda m, o: m.OneCycleLR(
        o, 0.3, epochs=10, steps_per_epoch=5, pct_start=0.25, anneal_strategy="linear",
        base_momentum=0.5, max_momentum=[0.9, 0.7], div_factor=10, final_div_factor=100,
    ),
    "one cycle of three": lambda m, o: m.OneCycleLR(o, 0.3, 50, three_phase=True, cycle_momentum=False),
    "one cycle of three, mostly up": lambda m, o: m.OneCycleLR(o, 0.3, 50, pct_start=0.7, three_phase=True),
    "one cycle, down alone": lambda m, o: m.OneCycleLR(o, 0.3, 50, pct_start=0.0),
    "warm-up, one cycle": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1), m.OneCycleLR(o, [0.3, 0.8], 60)], milestones=[5]
    ),
    "three": lambda m, o: m.SequentialLR(
        o, [m.ConstantLR(o, 0.5, 2), m.LambdaLR(o, lambda s: 1 / (1 + s)), m.LinearLR(o, 0.5)],
        milestones=[3, 6],
    ),
}  # fmt: skip


def two_groups(module, parameter, cls="SGD", **options):
    """An optimiser of lite or torch with two groups."""
    groups = [{"params": [parameter(size)], **more} for size, more in ((2, {}), (1, {"lr": 0.5}))]
    return getattr(module, cls)(groups, lr=0.1, **options)


def two_sides(cls="SGD", **options):
    return (
        two_groups(optim, lambda size: nn.Parameter(np.ones(size)), cls, **options),
        two_groups(torch.optim, lambda size: torch.nn.Parameter(torch.ones(size)), cls, **options),
    )


def assert_same_rates(mine, other, ours, theirs):
    for name in ("lr", "momentum", "betas"):
        if name in other.param_groups[0]:
            values = [np.array(group[name]) for group in other.param_groups]
            np.testing.assert_allclose(
                [group[name] for group in mine.param_groups], values, rtol=1e-12, atol=1e-15
            )
    np.testing.assert_allclose(ours.get_last_lr(), theirs.get_last_lr(), rtol=1e-12, atol=1e-15)


@each_case("cls", ["SGD", "AdamW"])
@each_case("name", SCHEDULES)
def test_schedules(name, cls):
    make = SCHEDULES[name]
    mine, other = two_sides(cls)
    ours, theirs = make(optim.lr_scheduler, mine), make(torch.optim.lr_scheduler, other)
    for step in range(50):
        assert_same_rates(mine, other, ours, theirs)
        if step == 7 and cls == "SGD":  # goes on from what torch has saved
            ours = make(optim.lr_scheduler, mine)
            mine.load_state_dict(other.state_dict())
            ours.load_state_dict(theirs.state_dict())
        if step == 13 and cls == "SGD":  # torch goes on from what was saved
            theirs = make(torch.optim.lr_scheduler, other)
            other.load_state_dict(mine.state_dict())
            theirs.load_state_dict(ours.state_dict())
        other.step()
        mine.step()
        ours.step()
        theirs.step()


def test_places_of_restarts():
    for mult in (1, 2):
        mine, other = two_sides()
        ours = optim.CosineAnnealingWarmRestarts(mine, 3, T_mult=mult)
        theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(other, 3, T_mult=mult)
        for place in (0.5, 2.9, None, 3, 8.5, None, None, 21, 1, None):
            for schedule in (ours, theirs):
                schedule.step(place)
            assert_same_rates(mine, other, ours, theirs)
            assert (ours.last_epoch, ours.T_cur, ours.T_i) == (theirs.last_epoch, theirs.T_cur, theirs.T_i)


@each_case("mode", ["min", "max"])
@each_case("threshold_mode", ["rel", "abs"])
@each_case("more", [{}, {"cooldown": 3, "min_lr": [0.02, 0.1]}, {"patience": 0, "min_lr": 1e-3, "eps": 0.01}])
def test_plateaus(more, threshold_mode, mode):
    options = {"patience": 2, "factor": 0.5, "threshold": 0.05, **more}
    options |= {"mode": mode, "threshold_mode": threshold_mode}
    mine, other = two_sides()
    ours = optim.lr_scheduler.ReduceLROnPlateau(mine, **options)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(other, **options)
    walk = np.random.default_rng(0).normal(size=50).cumsum() * (0.1 if mode == "max" else -0.1)
    walk[20:23] = np.nan, np.inf, -np.inf
    for step, metric in enumerate(walk):
        ours.step(metric)
        theirs.step(metric)
        assert_same_rates(mine, other, ours, theirs)
        saved = theirs.state_dict()
        assert ours.state_dict() == saved
        if step == 7:  # each goes on from what the other has saved
            theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(other)
            theirs.load_state_dict(ours.state_dict())
            ours = optim.lr_scheduler.ReduceLROnPlateau(mine)
            ours.load_state_dict(saved)


WRONG_SCHEDULES = {
    "one cycle, optimiser": lambda m, o: m.OneCycleLR("adam", 0.1, 10),
    "one cycle, no steps": lambda m, o: m.OneCycleLR(o, 0.1),
    "one cycle, half of the steps": lambda m, o: m.OneCycleLR(o, 0.1, epochs=3),
    "one cycle, total_steps": lambda m, o: m.OneCycleLR(o, 0.1, 0),
    "one cycle, total_steps of floats": lambda m, o: m.OneCycleLR(o, 0.1, 9.5),
    "one cycle, epochs": lambda m, o: m.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3),
    "one cycle, steps_per_epoch": lambda m, o: m.OneCycleLR(o, 0.1, epochs=3, steps_per_epoch=-1),
    "one cycle, pct_start": lambda m, o: m.OneCycleLR(o, 0.1, 10, pct_start=1.5),
    "one cycle, anneal_strategy": lambda m, o: m.OneCycleLR(o, 0.1, 10, anneal_strategy="sin"),
    "one cycle, max_lr": lambda m, o: m.OneCycleLR(o, [0.1], 10),
    "one cycle, max_momentum": lambda m, o: m.OneCycleLR(o, 0.1, 10, max_momentum=[0.1]),
    "one cycle, last step": lambda m, o: [s := m.OneCycleLR(o, 0.1, 2), *(s.step() for _ in range(3))],
    "restarts, T_0": lambda m, o: m.CosineAnnealingWarmRestarts(o, 0),
    "restarts, T_0 of floats": lambda m, o: m.CosineAnnealingWarmRestarts(o, 1.5),
    "restarts, T_mult": lambda m, o: m.CosineAnnealingWarmRestarts(o, 2, 0),
    "restarts, eta_min": lambda m, o: m.CosineAnnealingWarmRestarts(o, 2, eta_min="a"),
    "restarts, place": lambda m, o: m.CosineAnnealingWarmRestarts(o, 2).step(-1),
    "milestones": lambda m, o: m.MultiStepLR(o, 3),
    "plateau, optimiser": lambda m, o: m.ReduceLROnPlateau("adam"),
    "plateau, factor": lambda m, o: m.ReduceLROnPlateau(o, factor=1.0),
    "plateau, mode": lambda m, o: m.ReduceLROnPlateau(o, "least"),
    "plateau, threshold_mode": lambda m, o: m.ReduceLROnPlateau(o, threshold_mode="least"),
    "plateau, min_lr": lambda m, o: m.ReduceLROnPlateau(o, min_lr=[0.1]),
    "plateau, metric": lambda m, o: m.ReduceLROnPlateau(o).step("low"),
    "plateau without a metric": lambda m, o: m.ReduceLROnPlateau(o).step(),
    "a plateau in a sequence": lambda m, o: m.SequentialLR(o, [m.ReduceLROnPlateau(o)], []),
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@each_case("name", WRONG_SCHEDULES)
def test_errors_of_schedules(name):
    raised = []
    for module, optimizer in zip((optim, torch.optim), two_sides(), strict=True):
        with pytest.raises((TypeError, ValueError)) as caught:
            WRONG_SCHEDULES[name](module.lr_scheduler, optimizer)
        raised.append(caught.type)
    assert raised[0] is raised[1]


# -- clipping ----------------------------------------------------------------------------------------


@each_case("norm_type", [2.0, 1.0, 3.0, 0.5, float("inf")])
@each_case("max_norm", [0.5, 1e3, float("inf")])
@each_case("dtype", ["float32", "float64"])
def test_clip_grad_norm(dtype, max_norm, norm_type):
    pair = Pair(SHAPES[:-1], dtype)
    pair.gradients(3, skip=(2,))
    grads = TensorDict({str(i): p.grad.copy() for i, p in enumerate(pair.ours) if p.grad is not None})
    norm = optim.clip_grad_norm_(pair.ours, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(pair.theirs, max_norm, norm_type)
    tolerance = TOLERANCES[dtype]
    close(norm, expected, tolerance)
    assert norm.dtype.name == dtype
    new, same = optim.clip_grad_norm(grads, max_norm, norm_type)
    assert same == norm
    for i, (mine, other) in enumerate(zip(pair.ours, pair.theirs, strict=True)):
        assert (mine.grad is None) == (other.grad is None)
        if mine.grad is not None:
            close(mine.grad, other.grad, tolerance)
            close(new[str(i)], other.grad, tolerance)
