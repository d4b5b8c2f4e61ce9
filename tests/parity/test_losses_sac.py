"""SACLoss and its kin, DDPGLoss and TD3Loss against torchrl's, with the same random numbers."""

import numpy as np
import pytest
from parity.losses import (
    LITE,
    Joined,
    TorchJoined,
    categorical,
    compare,
    critic,
    default_dtype,
    deterministic,
    gaussian,
    mlp,
    q_network,
    steps,
    torch_draws_from,
)

import lite.nn.losses as ours
from lite.data import Bounded

SEED = 11


@pytest.fixture
def same_noise(monkeypatch):
    """torch draws from the generator that lite's losses are given."""
    torch_draws_from(monkeypatch, np.random.default_rng(SEED))


SOFT = ("SACLoss", "REDQLoss", "CrossQLoss")


def twins(make):
    """Two critics."""
    return lambda s: [make(s), make(s)]


def normed(s):
    """A critic with batch norms."""
    net = s.nn.Sequential(
        s.nn.BatchNorm1d(6), s.nn.Linear(6, 8), s.nn.ReLU(), s.nn.BatchNorm1d(8), s.nn.Linear(8, 1)
    )
    joined = Joined if s is LITE else TorchJoined
    return s.ValueOperator(joined(net), in_keys=["observation", "action"])


def values(s):
    return s.TensorDictModule(mlp(s, 4, 3), ["observation"], ["action_value"])


def run(name, dtype="float64", **options):
    rng = np.random.default_rng(5)
    shape = options.pop("shape", (6,))
    data = steps(rng, dtype, shape) | options.pop("extra", {})
    estimator = options.pop("estimator", None)
    distribution = options.pop("distribution", None)
    delayed = options.pop("delayed", name != "CrossQLoss")
    first_paper = name.startswith("First")
    name = name.removeprefix("First")
    data["action"] = np.tanh(rng.normal(size=(*shape, 2))).astype(dtype)
    networks = (gaussian, twins(q_network))
    if name == "REDQLoss":
        networks = (gaussian, lambda s: [q_network(s) for _ in range(5)])
        options.setdefault("num_qvalue_nets", 5)
    mine = {"generator": np.random.default_rng(SEED)}
    if critic_of_batches := options.pop("critic", None):
        networks = (gaussian, twins(critic_of_batches))
    if name in SOFT:
        networks = ((lambda s: gaussian(s, distribution or "TanhNormal")), networks[1])
        networks += (critic,) if first_paper else ()
        options.setdefault("target_entropy", -2.0)
    elif name == "DiscreteSACLoss":
        ids = rng.integers(0, 3, shape)
        space = options.setdefault("action_space", "categorical")
        data["action"] = ids if space == "categorical" else np.eye(3, dtype=np.int64)[ids]
        kind = "Categorical" if space == "categorical" else "OneHotCategorical"
        networks = ((lambda s: categorical(s, kind)), twins(values))
        if "target_entropy" not in options:
            options["num_actions"] = 3
        mine = {}
    elif name == "DDPGLoss":
        networks = (deterministic, q_network)
        mine = {}
    else:
        networks = (deterministic, networks[1])
        options.setdefault("bounds", (-0.9, 0.8))

    def prepare(side, loss, td):
        if estimator:
            loss.make_value_estimator(getattr(side.losses.ValueEstimators, estimator[0]), **estimator[1])
        if delayed:
            side.losses.SoftUpdate(loss, eps=0.9)
            for key, params in loss.named_children():
                if key.startswith("target_"):
                    for _, leaf in params.items(True, True):
                        leaf *= 1.1

    with default_dtype(dtype):
        # torchrl's SACLoss leaves the parameters of the distribution in the batch.
        leave_out = ("params", "loc", "scale") if name in SOFT else ()
        return compare(name, networks, data, shape, dtype, prepare, leave_out=leave_out, mine=mine, **options)


NAMES = [
    "SACLoss", "FirstSACLoss", "DiscreteSACLoss", "REDQLoss", "CrossQLoss", "DDPGLoss", "TD3Loss", "TD3BCLoss"
]  # fmt: skip


@pytest.mark.usefixtures("same_noise")
class TestValues:
    @pytest.mark.parametrize("name", NAMES)
    def test_single_precision_and_keys(self, name):
        (mine, other), _ = run(name, "float32")
        assert set(mine.state_dict()) == set(other.state_dict())
        assert set(mine.in_keys) == set(other.in_keys)
        assert set(mine.out_keys) == set(other.out_keys)

    @pytest.mark.parametrize(("reduction", "mask"), [("mean", True), ("sum", False), ("none", True)])
    @pytest.mark.parametrize("name", NAMES)
    def test_reductions_masks_and_weights(self, name, reduction, mask):
        extra = {"priority_weight": np.linspace(0.1, 1, 6)}
        if mask:
            extra["collector", "mask"] = np.array([1, 1, 0, 1, 0, 1], bool)
        options = {}
        if reduction == "none" and name.removeprefix("First") in (*SOFT, "DiscreteSACLoss"):
            options["torchs"] = {"scalar_output_mode": "exclude"}
        run(name, extra=extra, reduction=reduction, **options)

    @pytest.mark.parametrize("loss_function", ["l1", "smooth_l1"])
    @pytest.mark.parametrize("name", NAMES)
    def test_distances(self, name, loss_function):
        run(name, loss_function=loss_function)

    @pytest.mark.parametrize("name", NAMES)
    def test_estimators(self, name):
        run(name, shape=(2, 5), estimator=("TDLambda", {"lmbda": 0.5}))

    @pytest.mark.parametrize("estimator", [("TD0", {"gamma": 0.5}), ("TD1", {})], ids=str)
    def test_other_estimators(self, estimator):
        run("SACLoss", shape=(2, 5), estimator=estimator)

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "REDQLoss"])  # see DIFFERENCES.md
    def test_discounts_of_n_steps(self, name):
        run(name, extra={"steps_to_next_obs": np.array([[1], [2], [3], [3], [2], [1]])})

    @pytest.mark.parametrize("name", NAMES)
    def test_without_delay(self, name):
        off = {"DDPGLoss": {"delay_value": False}, "CrossQLoss": {}}.get(name, {"delay_qvalue": False})
        if name in ("TD3Loss", "TD3BCLoss"):
            off["delay_actor"] = False
        if name == "FirstSACLoss":
            off["delay_value"] = False
        run(name, delayed=False, **off)

    @pytest.mark.parametrize("name", ["SACLoss", "FirstSACLoss", "DDPGLoss", "TD3Loss", "TD3BCLoss"])
    def test_delayed_actors(self, name):
        run(name, delay_actor=True)

    @pytest.mark.parametrize("name", [*SOFT, "FirstSACLoss", "DiscreteSACLoss"])
    @pytest.mark.parametrize(
        "options",
        [
            {"alpha_init": 0.3, "min_alpha": 0.5},
            {"alpha_init": 3.0, "max_alpha": 2.0},
            {"fixed_alpha": True},
            {"target_entropy": -0.5},
            {"skip_done_states": True},
            {"deactivate_vmap": True, "separate_losses": True},
        ],
        ids=str,
    )
    def test_options(self, name, options):
        if "skip_done_states" not in options or "SAC" in name:
            run(name, **options)

    @pytest.mark.parametrize("sub_sample_len", [1, 3, 9])
    def test_how_many_critics_value_next_states(self, sub_sample_len):
        run("REDQLoss", sub_sample_len=sub_sample_len)

    def test_batch_norms_of_critics(self):
        """They see both steps, count once, and are constants to the policy."""
        (mine, other), _ = run("CrossQLoss", critic=normed)
        state = {key: value.numpy() for key, value in other.state_dict().items()}
        for key, value in mine.state_dict().items():
            np.testing.assert_allclose(value, state[key], 1e-9, err_msg=key)

    def test_one_hot(self):
        run("DiscreteSACLoss", action_space="one-hot")

    @pytest.mark.parametrize("name", [*SOFT, "FirstSACLoss"])
    def test_gaussian_without_tanh(self, name):
        run(name, distribution="IndependentNormal")

    @pytest.mark.parametrize("name", ["TD3Loss", "TD3BCLoss"])
    def test_bounds_and_noise(self, name):
        run(name, bounds=(-0.2, 0.2), policy_noise=2.0, noise_clip=0.1)

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_how_near_to_the_data(self, alpha):
        run("TD3BCLoss", alpha=alpha)


def test_target_entropy_of_a_spec():
    make = LITE.nn
    with default_dtype("float32"):
        policy, critic = gaussian(LITE, "TanhNormal"), q_network(LITE)
    assert make is not None
    loss = ours.SACLoss(policy, critic, action_spec=Bounded(-1, 1, (2,)), generator=0)
    assert float(loss.target_entropy) == -2.0
