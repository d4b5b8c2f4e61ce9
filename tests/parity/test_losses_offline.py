"""IQL and CQL, continuous and discrete, against torchrl's, with the same random numbers."""

import numpy as np
import pytest
from parity.losses import (
    categorical,
    compare,
    critic,
    default_dtype,
    gaussian,
    mlp,
    q_network,
    steps,
    torch_draws_from,
)

SEED = 11
NAMES = ["IQLLoss", "DiscreteIQLLoss", "CQLLoss", "DiscreteCQLLoss"]


@pytest.fixture
def same_noise(monkeypatch):
    """torch draws from the generator that lite's losses are given."""
    torch_draws_from(monkeypatch, np.random.default_rng(SEED))


def values(s):
    return s.TensorDictModule(mlp(s, 4, 3), ["observation"], ["state_action_value"])


def run(name, dtype="float64", **options):
    rng = np.random.default_rng(5)
    shape = options.pop("shape", (6,))
    data = steps(rng, dtype, shape) | options.pop("extra", {})
    estimator = options.pop("estimator", None)
    moved = options.pop("moved", name != "DiscreteCQLLoss")  # see DIFFERENCES.md
    discrete = name.startswith("Discrete")
    count = options.get("num_qvalue_nets", 2)
    own = {}
    if discrete:
        space = options.setdefault("action_space", "categorical")
        ids = rng.integers(0, 3, shape)
        data["action"] = ids if space == "categorical" else np.eye(3, dtype=np.int64)[ids]
        kind = "Categorical" if space == "categorical" else "OneHotCategorical"
    else:
        data["action"] = np.tanh(rng.normal(size=(*shape, 2))).astype(dtype)
    if name == "CQLLoss":
        options = {"target_entropy": -2.0, "num_random": 3, **options}
        own = {"generator": np.random.default_rng(SEED)}
        networks = ((lambda s: gaussian(s, "TanhNormal")), lambda s: [q_network(s), q_network(s)])
    elif name == "DiscreteCQLLoss":
        networks = (lambda s: s.QValueActor(mlp(s, 4, 3), action_space=space),)
    elif discrete:
        networks = ((lambda s: categorical(s, kind)), (lambda s: [values(s) for _ in range(count)]), critic)
    else:
        networks = (gaussian, (lambda s: [q_network(s) for _ in range(count)]), critic)

    def prepare(side, loss, td):
        if estimator:
            loss.make_value_estimator(getattr(side.losses.ValueEstimators, estimator[0]), **estimator[1])
        if options.get("delay_qvalue", options.get("delay_value", True)):
            side.losses.SoftUpdate(loss, eps=0.9)
            for key, params in loss.named_children():
                if key.startswith("target_") and moved:
                    for _, leaf in params.items(True, True):
                        leaf *= 1.1

    with default_dtype(dtype):
        # torchrl leaves the parameters of the distribution in the batch.
        leave_out = ("params", "loc", "scale", "logits")
        return compare(name, networks, data, shape, dtype, prepare, leave_out=leave_out, mine=own, **options)


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
    def test_reductions_and_masks(self, name, reduction, mask):
        extra = {"priority_weight": np.linspace(0.1, 1, 6)}
        if mask and "IQL" not in name:  # see DIFFERENCES.md
            extra["collector", "mask"] = np.array([1, 1, 0, 1, 0, 1], bool)
        options = {}
        if reduction == "none" and name != "DiscreteCQLLoss":
            options["torchs"] = {"scalar_output_mode": "exclude"}
        run(name, extra=extra, reduction=reduction, **options)

    @pytest.mark.parametrize("loss_function", ["l1", "smooth_l1"])
    @pytest.mark.parametrize("name", NAMES)
    def test_distances(self, name, loss_function):
        run(name, loss_function=loss_function)

    @pytest.mark.parametrize(
        ("name", "estimator"),
        list(zip(NAMES, ["TD0", "TD1", "TDLambda", "TD0"], strict=True)),
    )
    def test_estimators(self, name, estimator):
        run(name, shape=(2, 5), estimator=(estimator, {"gamma": 0.5}))

    @pytest.mark.parametrize("name", ["CQLLoss", "DiscreteCQLLoss"])
    def test_discounts_of_n_steps(self, name):
        run(name, extra={"steps_to_next_obs": np.array([[1], [2], [3], [3], [2], [1]])})

    @pytest.mark.parametrize("name", ["DiscreteIQLLoss", "DiscreteCQLLoss"])
    def test_one_hot(self, name):
        run(name, action_space="one-hot")

    @pytest.mark.parametrize("name", ["IQLLoss", "DiscreteIQLLoss"])
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

    def test_without_delay(self):
        run("DiscreteCQLLoss", delay_value=False)
