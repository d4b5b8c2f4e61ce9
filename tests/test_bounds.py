"""Numbers at the edge of what arguments take: the last that are taken, the first that are refused by name."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.nn.transitions import categorical, critic, gaussian, q_network

import lite
from lite import NonTensorData, data, envs, nn, optim
from lite._files import consolidated, read
from lite._files.onnx import adapters, model
from lite.cli import output_files, score
from lite.models import GenerationConfig
from lite.models.comparison import logged
from lite.models.decoder.scoring import checked_sampling
from lite.models.graph import model_config, summary
from lite.models.text import template_sandbox, to_html, tokenizer_rules
from lite.nn import functional, losses
from lite.nn._export import contract
from lite.nn._lora import projections

LITTLE = 1e-6
X = np.ones((2, 3), np.float32)
PAIR, GRID = lite.TensorDict({"a": X}, [2]), lite.TensorDict({"a": X}, [2, 3])
REFUSALS = (ValueError, RuntimeError, AssertionError, IndexError)


def sgd() -> Any:
    return optim.SGD([nn.Parameter(np.ones(2))], lr=0.1)


def adam(beta: float) -> Any:
    return optim.Adam([nn.Parameter(np.ones(2))], betas=(beta, 0.9))


def collector(frames_per_batch: int = 4) -> Any:
    env = envs.GymEnv("CartPole-v1")
    return data.Collector(env, None, total_frames=8, frames_per_batch=frames_per_batch)


def her(her_ratio: float) -> Any:
    return data.HERReplayBuffer(abs, storage=data.LazyTensorStorage(4), her_ratio=her_ratio)


def ensemble(**options: Any) -> Any:
    buffers = [data.ReplayBuffer(storage=data.ListStorage(2)) for _ in range(2)]
    return data.ReplayBufferEnsemble(*buffers, **options)


def generation(name: str) -> Callable[[Any], Any]:
    return lambda x: GenerationConfig.from_kwargs({name: x})


# Argument: (call, numbers that are taken, numbers that are refused).
BOUNDS: dict[str, tuple[Callable[[Any], Any], Sequence[Any], Sequence[Any]]] = {
    "embed_dim": (lambda x: nn.MultiheadAttention(x, 1), [1], [0]),
    "num_heads": (lambda x: nn.MultiheadAttention(2, x), [1], [0]),
    "groups": (lambda x: nn.Conv1d(2, 2, 1, groups=x), [1], [0]),
    "in1_features": (lambda x: nn.Bilinear(x, 2, 2), [1], [0]),
    "dropout": (lambda x: nn.LSTM(2, 2, 2, dropout=x), [0, 1.0], [-LITTLE, 1 + LITTLE]),
    "proj_size": (lambda x: nn.LSTM(2, 3, proj_size=x), [0, 2], [-1, 3]),
    "p": (nn.Dropout, [0, 1], [-LITTLE, 1 + LITTLE]),
    "p of ConsistentDropout": (nn.ConsistentDropout, [0, 1], [-LITTLE, 1 + LITTLE]),
    "std": (lambda x: nn.init.normal_(nn.Parameter(np.zeros(2)), std=x), [0], [-LITTLE]),
    "beta": (lambda x: functional.smooth_l1_loss(X, X, beta=x), [0], [-LITTLE]),
    "delta": (lambda x: functional.huber_loss(X, X, delta=x), [LITTLE], [0]),
    "label_smoothing": (lambda x: functional.cross_entropy(X, np.array([0, 2]), label_smoothing=x), [0, 1],
        [-LITTLE, 1 + LITTLE]),
    "kernel_size": (lambda x: nn.MaxPool2d(x)(np.ones((1, 2, 2))), [1], [0]),
    "output_size": (lambda x: nn.AdaptiveAvgPool2d(x)(np.ones((1, 2, 2))), [0, 1], [-1]),
    "alpha_init": (lambda x: losses.SACLoss(gaussian(), q_network(), target_entropy=-1.0, alpha_init=x),
        [LITTLE], [0]),
    "max_importance_ratio": (lambda x: losses.ClipPPOLoss(gaussian(), critic(), max_importance_ratio=x),
        [LITTLE], [0]),
    "increment": (lambda x: losses.KLPENPPOLoss(gaussian(), critic(), increment=x), [1], [1 - LITTLE]),
    "decrement": (lambda x: losses.KLPENPPOLoss(gaussian(), critic(), decrement=x), [1], [1 + LITTLE]),
    "eps": (lambda x: losses.SoftUpdate(losses.DQNLoss(q_network(), action_space="one-hot"), eps=x),
        [0, 1], [-LITTLE, 1 + LITTLE]),
    "quantiles": (lambda x: nn.PercentileValueNorm(quantiles=x), [(0, 0.5), (0.5 - LITTLE, 0.5), (0.5, 1)],
        [(-LITTLE, 0.5), (0.5, 0.5), (0.5, 1 + LITTLE)]),
    "rate": (lambda x: nn.PercentileValueNorm(rate=x), [0, 1], [-LITTLE, 1 + LITTLE]),
    "min_scale": (lambda x: nn.PercentileValueNorm(min_scale=x), [LITTLE], [0]),
    "rank": (lambda x: nn.lora(nn.Linear(2, 2), x, targets="*"), [1], [0]),
    "alpha": (lambda x: nn.lora(nn.Linear(2, 2), 1, x, targets="*"), [LITTLE], [0]),
    "expectile": (lambda x: losses.DiscreteIQLLoss(categorical(), q_network(), critic(),
        action_space="one-hot", expectile=x), [1 - LITTLE], [1]),
    "beta of dpo_loss": (lambda x: losses.dpo_loss(X[0], X[1], X[0], X[1], beta=x), [LITTLE], [0]),
    "label_smoothing of robust": (lambda x: losses.dpo_loss(X[0], X[1], X[0], X[1], loss_type="robust",
        label_smoothing=x), [0, 0.5 - LITTLE], [-LITTLE, 0.5]),
    "label_smoothing of exo_pair": (lambda x: losses.dpo_loss(X[0], X[1], X[0], X[1], loss_type="exo_pair",
        label_smoothing=x), [LITTLE, 1 - LITTLE], [0, 1]),
    "frames_per_batch": (collector, [1], [0]),
    "seed": (lambda x: collector().set_seed(x), [0], [-1]),
    "her_ratio": (her, [0, 1], [-LITTLE, 1 + LITTLE]),
    "dim_extend": (lambda x: data.ReplayBuffer(storage=data.LazyTensorStorage(4, ndim=2), dim_extend=x),
        [0], [-1]),
    "max_frames": (lambda x: data.VideoRecorder(None, None, max_frames=x), [1], [0]),
    "discount": (lambda x: data.DensifyReward(discount=x), [0, 1], [-LITTLE, 1 + LITTLE]),
    "n_steps": (lambda x: data.MultiStepTransform(x, 0.9), [1], [0]),
    "gamma": (lambda x: data.MultiStepTransform(1, x), [LITTLE, 1], [0, 1 + LITTLE]),
    "max_steps": (data.StepCounter, [1], [0]),
    "num_workers": (lambda x: envs.SerialEnv(x, lambda: envs.GymEnv("CartPole-v1")), [1], [0]),
    "N": (lambda x: envs.CatFrames(N=x, dim=-1, in_keys=["a"]), [1], [0]),
    "dim": (lambda x: envs.CatFrames(N=1, dim=x, in_keys=["a"]), [-1], [0]),
    "frame_skip": (envs.FrameSkipTransform, [1], [0]),
    "T": (lambda x: envs.TimeMaxPool(in_keys=["a"], T=x), [1], [0]),
    "betas": (adam, [0, 1 - LITTLE], [-LITTLE, 1]),
    "factor": (lambda x: optim.ConstantLR(sgd(), factor=x), [0, 1], [-LITTLE, 1 + LITTLE]),
    "start_factor": (lambda x: optim.LinearLR(sgd(), start_factor=x), [LITTLE, 1], [0, 1 + LITTLE]),
    "end_factor": (lambda x: optim.LinearLR(sgd(), end_factor=x), [0, 1], [-LITTLE, 1 + LITTLE]),
    "tau": (lambda x: optim.soft_update(nn.Linear(1, 1), nn.Linear(1, 1), tau=x), [0, 1],
        [-LITTLE, 1 + LITTLE]),
    "n": (data.Categorical, [1], [0]),
    "grpo_size": (data.MCAdvantage, [1], [0]),
    "max_combinations": (lambda x: data.MCAdvantageSelector(max_combinations=x), [1], [0]),
    "max_size": (data.ListStorage, [1], [0]),
    "num_slices": (lambda x: data.SliceSampler(num_slices=x), [1], [0]),
    "alpha of PrioritizedSampler": (lambda x: data.PrioritizedSampler(4, x, 1.0), [0], [-LITTLE]),
    "min_horizon": (lambda x: envs.RandomTruncationTransform(x, 3), [1, 3], [0, 4]),
    "target_kl": (lambda x: optim.KLAdaptiveLR(sgd(), x), [LITTLE], [0, np.inf]),
    "factor of KLAdaptiveLR": (lambda x: optim.KLAdaptiveLR(sgd(), 0.1, factor=x), [1 + LITTLE],
        [1, np.inf]),
    "min_lr": (lambda x: optim.KLAdaptiveLR(sgd(), 0.1, min_lr=x), [LITTLE, 0.01], [0, 0.01 + LITTLE]),
    "a of uniform_": (lambda x: nn.init.uniform_(np.zeros(2), x, 1.0), [1], [1 + LITTLE]),
    "a of trunc_normal_": (lambda x: nn.init.trunc_normal_(np.zeros(2), a=x, b=0.5), [0], [0.5 + LITTLE]),
    "padding_idx": (lambda x: nn.Embedding(3, 2, padding_idx=x), [-3, 2], [-4, 3]),
    "dim of Softmax": (lambda x: nn.Softmax(x)(X), [-2, 1], [-3, 2]),
    "dim of Unflatten": (lambda x: nn.Unflatten(x, (1, -1))(X), [-2, 1], [-3, 2]),
    "dim of a spec": (lambda x: data.Unbounded((2, 3)).unsqueeze(x), [-3, 2], [-4, 3]),
    "argnums": (lambda x: lite.grad(lambda a: (a * a).sum(), argnums=x)(X), [-1, 0], [-2, 1]),
    "out_dims": (lambda x: lite.vmap(lambda a: a, out_dims=x)(X), [-2, 1], [-3, 2]),
    "chunk_size": (lambda x: lite.jacrev(lambda a: a * a, chunk_size=x)(X[0]), [1], [0]),
    "dim of gather": (lambda x: PAIR.gather(x, np.array([0])), [-1, 0], [-2, 1]),
    "start": (lambda x: PAIR.narrow(0, *x), [(0, 2), (-2, 1), (2, 0)], [(-3, 1), (1, 2), (0, -1)]),
    "split": (lambda x: PAIR.split(x), [[0, 2]], [[-1, 3]]),
    "output_size of repeat_interleave": (lambda x: PAIR.repeat_interleave(3, output_size=x), [6], [5]),
    "stack_dim": (lambda x: lite.lazy_stack([PAIR, PAIR], x), [-2, 1], [-3, 2]),
    "clip_epsilon": (
        lambda x: losses.ClipPPOLoss(gaussian(), critic(), clip_epsilon=x),
        [(0, 0), (1 - LITTLE, 2)],
        [(-LITTLE, 0), (1, 0), (0, -LITTLE)],
    ),
    "max_alpha": (
        lambda x: losses.SACLoss(gaussian(), q_network(), target_entropy=-1.0, min_alpha=0.5, max_alpha=x),
        [0.5 + LITTLE],
        [0.5],
    ),
    "update_fraction": (
        lambda x: losses.RNDLoss(nn.Linear(1, 1), nn.Linear(1, 1), update_fraction=x),
        [0, 1],
        [-LITTLE, 1 + LITTLE],
    ),
    "replan_interval": (
        lambda x: nn.MultiStepActorWrapper(gaussian(), n_steps=3, replan_interval=x),
        [1, 3],
        [0, 4],
    ),
    "p of an ensemble": (lambda x: ensemble(p=x), [(0, 1)], [(0, 0), (-LITTLE, 1), (1, np.inf)]),
    "num_buffer_sampled": (lambda x: ensemble(num_buffer_sampled=x), [1], [0]),
    "low": (lambda x: envs.ClipTransform(low=x, high=1.0), [1 - LITTLE], [1]),
    "offline_fraction": (
        lambda x: data.OfflineToOnlineReplayBuffer(
            data.ReplayBuffer(storage=data.ListStorage(2)), online_capacity=2, offline_fraction=x
        ),
        [LITTLE, 1 - LITTLE],
        [0, 1],
    ),
    "index": (lambda x: envs.Compose(envs.StepCounter()).insert(x, envs.InitTracker()), [-1, 1], [-2, 2]),
    "feature_dims": (lambda x: data.NonTensor((2, 3), feature_dims=x), [0, 2], [-1, 3]),
    "keep_return_bounds": (
        lambda x: data.MCAdvantage(2, trajectory_return="sum", keep_return_bounds=x),
        [(0, LITTLE)],
        [(0, 0)],
    ),
    "pct_start": (
        lambda x: optim.OneCycleLR(sgd(), 0.2, total_steps=4, pct_start=x),
        [0, 1],
        [-LITTLE, 1 + LITTLE],
    ),
    "total_steps": (lambda x: optim.OneCycleLR(sgd(), 0.2, total_steps=x), [1], [0, 1.5]),
    "epoch": (lambda x: optim.CosineAnnealingWarmRestarts(sgd(), 4).step(x), [0], [-LITTLE]),
    "factor of ReduceLROnPlateau": (lambda x: optim.ReduceLROnPlateau(sgd(), factor=x), [1 - LITTLE], [1]),
    "num_prints": (lambda x: data.timeit.printevery(x, 1), [1], [0]),
    "stride": (lambda x: nn.Conv1d(2, 2, 1, stride=x)(X), [1], [0]),
    "output_padding": (lambda x: nn.ConvTranspose1d(2, 2, 3, stride=2, output_padding=x)(X), [0, 1], [2]),
    "divisor_override": (lambda x: nn.AvgPool2d(1, divisor_override=x)(X[None]), [1], [0]),
    "hidden_size": (lambda x: nn.GRU(2, x), [1], [0]),
    "var": (lambda x: functional.gaussian_nll_loss(X, X, X * x), [0], [-LITTLE]),
    "target of cross_entropy": (lambda x: functional.cross_entropy(X, np.array([0, x])), [2], [-1, 3]),
    "index of a ParameterList": (lambda x: nn.ParameterList([X, X])[x], [-2, 1], [-3, 2]),
    "nvec": (lambda x: data.MultiCategorical([2, x]), [1], [0]),
    "chunks": (lambda x: PAIR.chunk(x), [1], [0]),
    "dim0": (lambda x: GRID.transpose(x, 0), [-2, 1], [-3, 2]),
    "dims": (lambda x: GRID.permute(x, 0), [-1, 1], [-3, 2]),
    "batch_size": (lambda x: lite.TensorDict({}, [x]), [0], [-1]),
    "index of a TensorDict": (lambda x: PAIR[x], [-2, 1], [-3, 2]),
    "order": (lambda x: lite.vmap(lambda a: np.diff(a, x))(X), [0], [-1]),
    "ind": (lambda x: lite.vmap(lambda a: np.linalg.tensorinv(a, x))(np.eye(3)[None]), [1], [0]),
    "max_lr": (lambda x: optim.KLAdaptiveLR(sgd(), 0.1, max_lr=x), [1], [np.inf]),
    "num_workers of a collector": (
        lambda x: data.MultiSyncCollector([sgd], None, total_frames=4, frames_per_batch=2, num_workers=x),
        [],
        [0],
    ),
    "top_k": (generation("top_k"), [1, 0, -1], [-2]),
    "agents": (
        lambda x: nn.MultiAgentMLP(1, 1, 2, centralized=False, share_params=True)(np.ones(x)),
        [(2, 1)],
        [(2,), (1, 1)],
    ),
    "temperature of score": (
        lambda x: checked_sampling(x, None, [1], 4),
        [2.0**-126, 2.0**100],
        [2.0**-127, 2.0**101],
    ),
    "temperature": (generation("temperature"), [0], [-LITTLE]),
    "top_p": (generation("top_p"), [0, 1], [-LITTLE, 1 + LITTLE]),
    "min_p": (generation("min_p"), [0, 1], [-LITTLE, 1 + LITTLE]),
    "typical_p": (generation("typical_p"), [LITTLE, 1], [0, 1 + LITTLE]),
    "repetition_penalty": (generation("repetition_penalty"), [LITTLE], [0]),
    "num_beams": (generation("num_beams"), [1], [0]),
    "max_new_tokens": (generation("max_new_tokens"), [0], [-1]),
    "no_repeat_ngram_size": (generation("no_repeat_ngram_size"), [0], [-1]),
    "presence_penalty": (generation("presence_penalty"), [-2, 2], [-2 - LITTLE, 2 + LITTLE]),
    "min_new_tokens": (generation("min_new_tokens"), [0, 64], [-1, 65]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:eps=0.0 keeps little")
@each_case("argument", BOUNDS)
def test_the_last_that_are_taken_and_the_first_that_are_not(argument: str) -> None:
    call, taken, refused = BOUNDS[argument]
    for number in taken:
        call(number)
    for number in refused:
        with pytest.raises(REFUSALS, match=f"(?i){argument.split()[0]}"):
            call(number)


def attention(*shapes: tuple[int, ...]) -> Any:
    return nn.MultiheadAttention(3, 1)(*map(np.ones, shapes))


# What is said: calls of which each is wrong in another way.
WRONG: dict[str, Sequence[Callable[[], Any]]] = {
    "query, key and value must all have 3 dimensions": (
        lambda: attention((2, 3), (1, 2, 3), (2, 3)),
        lambda: attention((1, 2, 3), (1, 2, 3), (2, 3)),
        lambda: attention(*[(1, 1, 2, 3)] * 3),
    ),
    "input1 and input2 must have dimensions and agree": (
        lambda: nn.Bilinear(3, 3, 1)(X[0, 0], X),
        lambda: nn.Bilinear(3, 3, 1)(X, X[0, 0]),
        lambda: nn.Bilinear(3, 3, 1)(X, X[:1]),
    ),
    "the input must be .*C, H, W": [
        lambda shape=shape: nn.MaxPool2d(1)(np.ones(shape)) for shape in ((2, 3), (1, 0, 2), (1,) * 5)
    ],
    "dropout must be a probability": [lambda p=p: nn.LSTM(2, 2, 2, dropout=p) for p in (True, "0.5")],
    "ids of classes must be integers": [
        lambda ids=ids: functional.nll_loss(X, np.array(ids)) for ids in ([0.0, 1.0], [0])
    ],
    "in_keys and out_keys must be those of the input and the mask": [
        lambda keys=keys: nn.ConsistentDropoutModule(0.5, *map(list, keys))
        for keys in (("a", "ab"), ("ab", "abc"))
    ],
    "nvec must have integers of at least 1": [
        lambda sizes=sizes: data.MultiCategorical(sizes) for sizes in ([1.5], [], [0])
    ],
    "got 0 to 3": (lambda: nn.distributions.Categorical(logits=X).log_prob(np.array([0, 3])),),
    "got -1 to 2": (lambda: nn.distributions.Categorical(logits=X).log_prob(np.array([-1, 2])),),
}


@each_case("said", WRONG)
def test_every_way_to_be_wrong_is_refused(said: str) -> None:
    for call in WRONG[said]:
        with pytest.raises(REFUSALS, match=said):
            call()


def test_texts_are_cut_where_they_get_too_long() -> None:
    for shown, longest, around in (
        (output_files._short, 160, 2),
        (score._short, 80, 2),
        (logged._short, 40, 2),
        (contract._shown, 80, 2),
        (to_html._text, 2000, 0),
        (lambda text: repr(NonTensorData(text)), 200, 0),
        (lambda text: projections._listing([f"x{i}" for i in range(len(text))]), 40, 0),
    ):
        assert "..." not in shown("x" * (longest - around))
        assert "..." in shown("x" * (longest - around + 1))


TURN = {"role": "user", "content": "a"}


def nested(levels: int) -> Any:
    return lite.TensorDict({"a": X} if levels == 1 else {"a": nested(levels - 1)})


def saved(folder: Any, levels: int) -> Any:
    nested(levels).memmap(folder)
    return folder


def consolidated_file(path: Any, levels: int) -> Any:
    nested(levels).consolidate(path)
    return path


def branches(depth: int) -> bytes:
    """A model of so many conditions, one in the other."""
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Identity", ["x"], ["y0"])]
    for i in range(depth):
        out = helper.make_tensor_value_info(f"y{i}", TensorProto.BOOL, None)
        graph = helper.make_graph(nodes, "g", [], [out])
        nodes = [helper.make_node("If", ["x"], [f"y{i + 1}"], then_branch=graph, else_branch=graph)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("x", f"y{depth}"))
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y])).SerializeToString()


def named(length: int) -> bytes:
    """A model whose producer has so long a name."""
    return b"\x12" + bytes([length]) + b"x" * length + branches(0)


def file_of(folder: Any, content: bytes) -> Any:
    (folder / "file").write_bytes(content)
    return folder / "file"


def told(html: str) -> None:
    """ValueError if a page leaves something out."""
    if "more" in html:
        raise ValueError("more")


def rules(**parts: Any) -> str:
    return json.dumps({"model": {}, **parts})


# Limit: (its module, its value in the test, a call that takes numbers up to that, what is said of one more).
LIMITS: dict[str, tuple[Any, int, Callable[[int, Any], Any], str]] = {
    "MAX_ADDED_TOKENS": (tokenizer_rules, 3,
        lambda n, _: tokenizer_rules.check_rules(rules(added_tokens=[{}] * n)),
        "allowed are 3"),
    "MAX_ID": (tokenizer_rules, 9, lambda n, _: tokenizer_rules.check_rules(rules(added_tokens=[{"id": n}])),
        "at most 9"),
    "MAX_RULE_CHARS": (tokenizer_rules, 60,
        lambda n, _: tokenizer_rules.check_rules("{}".ljust(n)), "more than 60"),
    "MAX_LINE_BYTES": (logged, 9, lambda n, at: list(logged._lines(file_of(at, b"x" * n))), "longer than 9"),
    "MAX_CONFIG_BYTES": (model_config, 9, lambda n, at: model_config.read_text(file_of(at, b"x" * n),
        max_bytes=model_config.MAX_CONFIG_BYTES), "at most 9"),
    "MAX_DIMENSIONS": (adapters, 3,
        lambda n, _: adapters.read_adapter(adapters.adapter_bytes({"a": np.ones((1,) * n)})),
        "at most 3"),
    "MAX_BYTES": (adapters, 139,
        lambda n, _: adapters.adapter_bytes({"a": np.ones(n - 129, np.int8)}), "need 140"),
    "_MAX_DEPTH of read": (read, 3, lambda n, at: lite.load_memmap(saved(at / f"{n}", n + 2)),
        "more than 3"),
    "_MAX_DEPTH of consolidated": (consolidated, 3, lambda n, at: lite.from_consolidated(
        consolidated_file(at / "file", n + 1)), "more than 3"),
    "MAX_DEPTH of graphs": (model, 2, lambda n, _: model.read_model(branches(n)), "deeper than 2"),
    "MAX_DEPTH of a summary": (summary, 2, lambda n, _: summary.scan_bytes(branches(n)), "deeper than 2"),
    "MAX_NAME_BYTES": (summary, 9, lambda n, _: summary.scan_bytes(named(n)), "a name of 10 bytes"),
    "MAX_TEMPLATE_CHARS": (template_sandbox, 9, lambda n, _: template_sandbox._compile("a" * n), "at most 9"),
    "_MAX_BITS": (template_sandbox, 9, lambda n, _: template_sandbox.size(2**n - 1), "too large"),
    "MAX_SPELLED": (template_sandbox, 9, lambda n, _: template_sandbox._strftime_now("a" * n), "too long"),
    "_MAX_WEIGHT": (template_sandbox, 99, lambda n, _: template_sandbox.weigh(["a" * (n - 16)]), "too much"),
    "_MAX_WEIGHT of parts": (template_sandbox, 96,
        lambda n, _: template_sandbox.weigh([""] * (n - 90)), "too much"),
    "_MAX_DEPTH of weigh": (template_sandbox, 3,
        lambda n, _: template_sandbox.weigh([[["a"]]] if n > 3 else [["a"]]),
        "too much"),
    "_MOST_TOKENS": (to_html, 3, lambda n, _: told("".join(to_html._field("ids", [n], [""]))), "more"),
    "_MOST_ROWS": (to_html, 3, lambda n, _: told("".join(to_html._field("ids", [1] * n, [""] * n))), "more"),
    "_MOST_ROWS of chats": (to_html, 3, lambda n, _: told(to_html.history_html((n,), [[TURN]] * n)), "more"),
    "_MOST_TURNS": (to_html, 3, lambda n, _: told(to_html.history_html((), [TURN] * n)), "more"),
}  # fmt: skip


@each_case("name", LIMITS)
def test_limits_are_the_largest_that_is_taken(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    module, value, call, said = LIMITS[name]
    monkeypatch.setattr(module, name.split()[0], value)
    call(value, tmp_path)
    with pytest.raises((*REFUSALS, template_sandbox.SecurityError), match=said):
        call(value + 1, tmp_path)
