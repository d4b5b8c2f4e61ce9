"""SAC and its kin, DDPG, TD3, IQL and CQL against torchrl's, with the same random numbers."""

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
SOFT_CASES = (*SOFT, "FirstSACLoss", "DiscreteSACLoss")
IMPLICIT = ("IQLLoss", "DiscreteIQLLoss")
OFFLINE = (*IMPLICIT, "CQLLoss", "DiscreteCQLLoss")
NAMES = (*SOFT_CASES, "DDPGLoss", "TD3Loss", "TD3BCLoss", *OFFLINE)


def several(make, count=2):
    """Critics."""
    return lambda s: [make(s) for _ in range(count)]


def values_of(key):
    return lambda s: s.TensorDictModule(mlp(s, 4, 3), ["observation"], [key])


def normed(s):
    """A critic with batch norms."""
    net = s.nn.Sequential(
        s.nn.BatchNorm1d(6), s.nn.Linear(6, 8), s.nn.ReLU(), s.nn.BatchNorm1d(8), s.nn.Linear(8, 1)
    )
    joined = Joined if s is LITE else TorchJoined
    return s.ValueOperator(joined(net), in_keys=["observation", "action"])


def networks_of(name, space, distribution, options):
    """Functions of a side that give the networks of a loss; the first SAC has values of states, too."""
    kind = "Categorical" if space == "categorical" else "OneHotCategorical"
    count = options.get("num_qvalue_nets", 2)
    critics = options.pop("critic", q_network)
    return {
        **dict.fromkeys(
            (*SOFT, "FirstSACLoss", "CQLLoss"), (lambda s: gaussian(s, distribution), several(critics, count))
        ),
        "DiscreteSACLoss": (lambda s: categorical(s, kind), several(values_of("action_value"))),
        "DDPGLoss": (deterministic, q_network),
        **dict.fromkeys(("TD3Loss", "TD3BCLoss"), (deterministic, several(q_network))),
        "IQLLoss": (gaussian, several(q_network, count)),
        "DiscreteIQLLoss": (lambda s: categorical(s, kind), several(values_of("state_action_value"), count)),
        "DiscreteCQLLoss": (lambda s: s.QValueActor(mlp(s, 4, 3), action_space=space),),
    }[name] + ((critic,) if name in ("FirstSACLoss", *IMPLICIT) else ())


def run(name, dtype="float64", **options):
    rng = np.random.default_rng(5)
    shape = options.pop("shape", (6,))
    data = steps(rng, dtype, shape) | options.pop("extra", {})
    estimator = options.pop("estimator", None)
    distribution = options.pop("distribution", "TanhNormal")
    delayed = name != "CrossQLoss" and options.get("delay_qvalue", options.get("delay_value", True))
    moved = name != "DiscreteCQLLoss"  # see DIFFERENCES.md
    space, generators = None, {"generator": np.random.default_rng(SEED)}
    if name.startswith("Discrete"):
        ids = rng.integers(0, 3, shape)
        space, generators = options.setdefault("action_space", "categorical"), {}
        data["action"] = ids if space == "categorical" else np.eye(3, dtype=np.int64)[ids]
    else:
        data["action"] = np.tanh(rng.normal(size=(*shape, 2))).astype(dtype)
    defaults = {
        **{soft: {"target_entropy": -2.0} for soft in (*SOFT, "FirstSACLoss")},
        "REDQLoss": {"target_entropy": -2.0, "num_qvalue_nets": 5},
        "CQLLoss": {"target_entropy": -2.0, "num_random": 3},
        "DiscreteSACLoss": {} if "target_entropy" in options else {"num_actions": 3},
        **{twin: {"bounds": (-0.9, 0.8)} for twin in ("TD3Loss", "TD3BCLoss")},
    }
    options = {**defaults.get(name, {}), **options}
    networks = networks_of(name, space, distribution, options)

    def prepare(side, loss, td):
        if estimator:
            loss.make_value_estimator(getattr(side.losses.ValueEstimators, estimator[0]), **estimator[1])
        if delayed:
            side.losses.SoftUpdate(loss, eps=0.9)
            for key, params in loss.named_children():
                if key.startswith("target_") and moved:
                    for _, leaf in params.items(True, True):
                        leaf *= 1.1

    # torchrl leaves the parameters of the distribution in the batch.
    leave_out = ("params", "loc", "scale") if name in (*SOFT, "FirstSACLoss", *OFFLINE) else ()
    leave_out += ("logits",) if name in OFFLINE else ()
    own = generators if name not in ("DDPGLoss", "IQLLoss") else {}
    with default_dtype(dtype):
        return compare(
            name.removeprefix("First"), networks, data, shape, dtype, prepare, leave_out=leave_out, mine=own,
            **options,
        )  # fmt: skip


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
        if mask and name not in IMPLICIT:  # see DIFFERENCES.md
            extra["collector", "mask"] = np.array([1, 1, 0, 1, 0, 1], bool)
        options = {}
        if reduction == "none" and name in (*SOFT_CASES, *IMPLICIT, "CQLLoss"):
            options["torchs"] = {"scalar_output_mode": "exclude"}
        run(name, extra=extra, reduction=reduction, **options)

    @pytest.mark.parametrize("loss_function", ["l1", "smooth_l1"])
    @pytest.mark.parametrize("name", NAMES)
    def test_distances(self, name, loss_function):
        run(name, loss_function=loss_function)

    @pytest.mark.parametrize(
        ("name", "estimator"),
        [
            *((name, ("TDLambda", {"lmbda": 0.5})) for name in NAMES if name not in OFFLINE),
            *zip(
                OFFLINE, [(kind, {"gamma": 0.5}) for kind in ("TD0", "TD1", "TDLambda", "TD0")], strict=True
            ),
            *(("SACLoss", estimator) for estimator in [("TD0", {"gamma": 0.5}), ("TD1", {})]),
        ],
        ids=str,
    )
    def test_estimators(self, name, estimator):
        run(name, shape=(2, 5), estimator=estimator)

    @pytest.mark.parametrize("name", [name for name in NAMES if name not in ("REDQLoss", *IMPLICIT)])
    def test_discounts_of_n_steps(self, name):  # see DIFFERENCES.md
        run(name, extra={"steps_to_next_obs": np.array([[1], [2], [3], [3], [2], [1]])})

    @pytest.mark.parametrize("name", [*SOFT_CASES, "DDPGLoss", "TD3Loss", "TD3BCLoss", "DiscreteCQLLoss"])
    def test_without_delay(self, name):
        by_name = {
            "CrossQLoss": {},
            **{one: {"delay_value": False} for one in ("DDPGLoss", "DiscreteCQLLoss")},
            **{twin: {"delay_qvalue": False, "delay_actor": False} for twin in ("TD3Loss", "TD3BCLoss")},
            "FirstSACLoss": {"delay_qvalue": False, "delay_value": False},
        }
        run(name, **by_name.get(name, {"delay_qvalue": False}))

    @pytest.mark.parametrize("name", ["SACLoss", "FirstSACLoss", "DDPGLoss", "TD3Loss", "TD3BCLoss"])
    def test_delayed_actors(self, name):
        run(name, delay_actor=True)

    @pytest.mark.parametrize("name", SOFT_CASES)
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

    @pytest.mark.parametrize("name", ["DiscreteSACLoss", "DiscreteIQLLoss", "DiscreteCQLLoss"])
    def test_one_hot(self, name):
        run(name, action_space="one-hot")

    @pytest.mark.parametrize("name", [*SOFT, "FirstSACLoss"])
    def test_gaussian_without_tanh(self, name):
        run(name, distribution="IndependentNormal")

    @pytest.mark.parametrize("name", ["TD3Loss", "TD3BCLoss"])
    def test_bounds_and_noise(self, name):
        run(name, bounds=(-0.2, 0.2), policy_noise=2.0, noise_clip=0.1)

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_how_near_to_the_data(self, alpha):
        run("TD3BCLoss", alpha=alpha)

    @pytest.mark.parametrize("name", IMPLICIT)
    @pytest.mark.parametrize(
        "options",
        [
            {"temperature": 30.0},
            {"expectile": 0.9},
            {"num_qvalue_nets": 1},
            {"num_qvalue_nets": 3},
            {"separate_losses": True},
        ],
        ids=str,
    )
    def test_options_of_iql(self, name, options):
        run(name, **options)

    @pytest.mark.parametrize(
        "options",
        [
            {"alpha_init": 0.3, "min_alpha": 0.5},
            {"alpha_init": 3.0, "max_alpha": 2.0},
            {"fixed_alpha": True, "temperature": 0.5, "min_q_weight": 3.0},
            {"delay_qvalue": False, "deactivate_vmap": True},
            {"delay_actor": True, "deterministic_backup": False},
            {"max_q_backup": True},
            {"max_q_backup": True, "shape": (2, 3)},
            {"with_lagrange": True, "lagrange_thresh": 2.0},
        ],
        ids=str,
    )
    def test_options_of_cql(self, options):
        run("CQLLoss", **options)

    def test_lagrange_of_a_mask(self):
        extra = {("collector", "mask"): np.array([1, 1, 0, 1, 0, 1], bool)}
        run("CQLLoss", with_lagrange=True, extra=extra)


def test_target_entropy_of_a_spec():
    make = LITE.nn
    with default_dtype("float32"):
        policy, critic = gaussian(LITE, "TanhNormal"), q_network(LITE)
    assert make is not None
    loss = ours.SACLoss(policy, critic, action_spec=Bounded(-1, 1, (2,)), generator=0)
    assert float(loss.target_entropy) == -2.0
