"""A language model that learns: it scores as its wrapper does, and the wrapper gets what it learnt."""

import copy
import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same
from helpers.models.real_models import MODELS
from helpers.tiers import standing_for_all
from helpers.waiting import LONG

import lite
from lite import TensorDict, lazy_stack, optim, value_and_grad
from lite._files.flat import read_safetensors
from lite.data import LLMCollector, group_advantages
from lite.models import ChatHistory, History, OnnxWrapper, Text, Tokens
from lite.nn.losses import GRPOLoss, grpo_loss

LLAMA = MODELS / "genai-llama-fp32"
TEXTS = ["Hi", "Hello there, how are you?", "12 + 30 ="]
GREEDY = {"max_new_tokens": 6, "do_sample": False}


def wrap(mode: str = "text", folder: Any = LLAMA, **options: Any) -> OnnxWrapper:
    return OnnxWrapper(folder, input_mode=mode, num_threads=1, **options)


def batch(mode: str, shape: tuple[int, ...] = (3,)) -> TensorDict:
    if mode == "history":
        chats = [[{"role": "user", "content": t}, {"role": "assistant", "content": t[::-1]}] for t in TEXTS]
        content: Any = ChatHistory(full=History.from_chats(chats), batch_size=[3])
    elif mode == "text":
        content = Text(full=TEXTS, batch_size=[3])
    else:
        content = lazy_stack([Tokens(full=np.arange(5, 7 + 2 * i)) for i in range(3)])
    td = TensorDict({mode: content}, batch_size=[3])
    return td if shape == (3,) else td.reshape(shape)


def rows(td: Any, *key: str) -> list[np.ndarray]:
    return [np.asarray(row) for row in td.get(key, as_list=True)]


@pytest.mark.parametrize(("mode", "padded"), [("history", True), ("text", False), ("tokens", True)])
@pytest.mark.filterwarnings("ignore:no assistant mask")
def test_it_writes_what_the_wrapper_writes(mode: str, padded: bool) -> None:
    wrapper, td = wrap(mode, pad_output=padded), batch(mode)
    policy = wrapper.trainable()
    judge = wrapper.get_new_version(generate=False, inplace=False)
    assert (policy.in_keys, policy.out_keys) == (judge.in_keys, judge.out_keys)
    before = set(td.keys(True))
    ours, theirs = policy(td), judge(td)
    assert set(td.keys(True)) == before
    assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
    for key in (("tokens", "full"), ("masks", "all_attention_mask"), ("log_probs", "full")):
        assert_same(rows(ours, *key), rows(theirs, *key), atol=1e-4, strict=True)


def test_losses_read_the_log_probs_that_it_writes() -> None:
    """As of a wrapper: under its own keys, at its temperature, and without the logits of all tokens."""
    wrapper = wrap("tokens", generate=False, inplace=False, log_probs_key="scores")
    policy = wrapper.trainable(score_kwargs={"temperature": 0.5})
    assert (policy.log_probs_key, policy.tokens_key, policy.generate) == ("scores", "tokens", False)
    assert (policy.input_key, policy.inplace, policy.pad_output) == (("tokens", "full"), False, False)
    raises(AttributeError, "no_option", lambda: policy.no_option)
    td = wrapper(batch("tokens"), temperature=0.5)
    td["advantage"] = np.array([1.0, -1.0, 2.0])
    keys = {"sample_log_prob": ("scores", "full")}
    loss = GRPOLoss(policy, entropy_bonus=False, masking_strategy="generic")
    loss.set_keys(**keys)
    found = loss(td)
    np.testing.assert_allclose([found.ESS, found.kl_approx], [1, 0], atol=1e-3)
    td["text"] = Text(full=TEXTS, batch_size=[3])
    of_texts = GRPOLoss(wrapper.trainable(input_mode="text"), masking_strategy="generic")
    of_texts.set_keys(**keys)
    with pytest.raises(ValueError, match=r"again can give other .*wrapper.trainable\(input_mode='tokens'\)"):
        of_texts(td)


def test_batches_of_any_shape_and_none() -> None:
    policy = wrap("tokens", pad_output=True).trainable()
    td = TensorDict({"tokens": Tokens(full=np.arange(12).reshape(2, 1, 6), batch_size=[2, 1])}, [2, 1])
    assert policy(td)["log_probs", "full"].shape == (2, 1, 6)
    assert policy(td[:0])["log_probs", "full"].shape == (0, 1, 0)
    with pytest.raises(
        TypeError, match=r"takes \['assistant_only', 'kept_ids', 'temperature'\], got \['seed'\]"
    ):
        policy(td, seed=3)
    raises(ValueError, "which is missing: tokens mode", lambda: policy(td, assistant_only=True))


def test_temperatures_are_those_of_scoring() -> None:
    wrapper = wrap("tokens", generate=False, pad_output=True, inplace=False)
    policy, warmth = wrapper.trainable(), np.array([0.5, 1.0, 2.0])
    found = policy(batch("tokens"), temperature=warmth)["log_probs", "full"]
    np.testing.assert_allclose(
        found, wrapper(batch("tokens"), temperature=warmth)["log_probs", "full"], atol=1e-4
    )


def test_only_what_was_generated() -> None:
    wrapper = wrap("tokens", pad_output=True, generate_kwargs=GREEDY)
    prompts = TensorDict({"tokens": Tokens(prompt=np.arange(8).reshape(2, 4), batch_size=[2])}, [2])
    out = wrapper(prompts)
    said = out["masks", "all_assistant_mask"]
    found = wrapper.trainable(assistant_only=True)(out)["log_probs", "full"]
    np.testing.assert_allclose(found[said], out["log_probs", "response"].ravel(), atol=1e-4)
    assert not found[~said].any()


def test_rows_that_are_laid_out() -> None:
    policy, td = wrap("tokens", pad_output=True).trainable(), batch("tokens")
    found = policy(td)["log_probs", "full"]
    for width in (None, 9):
        laid_out = policy.lay_out(td, width=width)
        got = policy.token_log_probs(laid_out)
        assert got.shape == laid_out["mask"].shape == laid_out["targets"].shape == (3, width or 5)
        for i, row in enumerate(rows(td, "tokens", "full")):
            np.testing.assert_array_equal(laid_out["targets"][i, : len(row) - 1], row[1:])
            np.testing.assert_allclose(got[i, : len(row) - 1], found[i, -len(row) + 1 :], atol=1e-5)
            assert not got[i, len(row) - 1 :].any()
    warm = policy.token_log_probs(policy.lay_out(td), temperature=2.0)
    np.testing.assert_allclose(warm[2], policy(td, temperature=2.0)["log_probs", "full"][2, 1:], atol=1e-5)
    with pytest.raises(ValueError, match="width must be at least 5, the longest row's less 1, got 4"):
        policy.lay_out(td, width=4)
    raises(ValueError, "no rows", lambda: policy.lay_out(td[:0]))


def test_a_step_of_grpo_is_a_graph() -> None:
    """From responses over advantages and a laid-out batch to adapters that the wrapper runs with."""
    actor = wrap(pad_output=True, seed=0, num_samples=3, generate_kwargs={"max_new_tokens": 5, "top_k": 50})
    policy = actor.trainable(input_mode="tokens", assistant_only=True, lora=2)
    adam = optim.Adam(1e-2)

    def update(params: Any, state: Any, given: TensorDict, advantage: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(policy):
                now = policy.token_log_probs(given)
            return grpo_loss(now, None, advantage, given["mask"])["loss_objective"]

        loss, grads = value_and_grad(objective)(params)
        return loss, *adam.update(params, grads, state)

    step = lite.jit(update, donate=("params", "state"), threads=1)
    prompts = TensorDict(text=Text(prompt=["Hi", "12 + 30 ="], batch_size=[2]), batch_size=[2])
    params = known = policy.learnt_params().data.clone()
    state = held = adam.init(params)
    for _ in range(2):
        out = actor(prompts).reshape(-1)
        said = out["masks", "all_assistant_mask"]
        advantage = group_advantages((out["tokens", "full"] * said).sum(1) % 7.0, np.arange(6) // 3)
        given = policy.lay_out(out, width=24)
        want, known, held = update(known, held, given, advantage)
        loss, params, state = step(params, state, given, advantage)
        np.testing.assert_allclose(loss, want, rtol=1e-4, atol=1e-6)
        policy.sync(params)
        scored = actor.get_new_version(generate=False, input_mode="tokens", inplace=False)(out)
        now = scored["log_probs", "full"][said]
        with params.to_module(policy):
            np.testing.assert_allclose(policy.token_log_probs(given)[given["mask"]], now, atol=1e-4)
    assert_same(params, known, atol=0.001)
    assert len(step._kept) == 1


def test_a_graph_of_a_step_whose_embeddings_and_output_matrix_have_4_bits() -> None:
    policy = wrap("tokens", MODELS / "genai-qwen2-int4").trainable(lora={"rank": 2, "rng": 0})
    params = policy.learnt_params().data.apply(lambda x: x + np.float32(0.01))
    given = policy.lay_out(batch("tokens"))

    def loss(params: Any, given: Any) -> Any:
        with params.to_module(policy):
            return policy.token_log_probs(given).sum()

    step = value_and_grad(loss)
    (value, grads), (want, known) = lite.jit(step, threads=1)(params, given), step(params, given)
    np.testing.assert_allclose(value, want, rtol=1e-5)
    assert_same(grads, known, rtol=0.001, atol=1e-05)


def learn(policy: Any, out: TensorDict, steps: int = 3) -> None:
    """A few steps of GRPO towards the first of two responses."""
    params, adam, state = policy.learnt_params(), optim.Adam(1e-2), None
    advantage = np.array([1.0, -1.0], np.float32)

    def loss(params: Any) -> Any:
        with params.to_module(policy):
            scored = policy(out)
        mask = np.asarray(out["masks", "all_assistant_mask"])
        return grpo_loss(scored["log_probs", "full"], old, advantage, mask)["loss_objective"]

    old = np.asarray(policy(out)["log_probs", "full"])
    for _ in range(steps):
        _, grads = value_and_grad(loss)(params)
        params, state = adam.update_(params, grads, state)


def test_generation_changes_after_a_few_steps() -> None:
    wrapper = wrap("tokens", pad_output=True, generate_kwargs=GREEDY, prefix_cache=1 << 20)
    prompts = TensorDict({"tokens": Tokens(prompt=np.arange(40).reshape(2, 20), batch_size=[2])}, [2])
    out = wrapper(prompts.copy())
    assert wrapper.get_prefix_cache_state()["rows"] == 2
    policy = wrapper.trainable(assistant_only=True)
    learn(policy, out)
    np.testing.assert_array_equal(wrapper(prompts.copy())["tokens", "full"], out["tokens", "full"])
    policy.sync()
    assert wrapper.get_prefix_cache_state()["rows"] == 0
    after = wrapper(prompts.copy())
    assert (after["tokens", "full"] != out["tokens", "full"]).any()
    said = after["masks", "all_assistant_mask"]
    log_probs = after["log_probs", "response"].ravel()
    np.testing.assert_allclose(policy(after)["log_probs", "full"][said], log_probs, atol=1e-4)
    judge = wrapper.get_new_version(generate=False)
    np.testing.assert_allclose(judge(after)["log_probs", "full"][said], log_probs, atol=1e-4)


def test_parameters_of_an_optimiser_that_returns_new_ones() -> None:
    wrapper = wrap("tokens", generate=False, inplace=False)
    policy, td = wrapper.trainable(trainable=["*norm*"]), batch("tokens")
    names = {name for name, p in policy.named_parameters() if p.requires_grad}
    assert len(policy.learnt_weights()) == len(names) == 5
    before = rows(policy(td), "log_probs", "full")
    params = policy.learnt_params().data.apply(lambda w: 1.5 * w)
    assert len(list(params.keys(True, True))) == 5
    policy.sync(params)
    after = rows(wrapper(td), "log_probs", "full")
    assert np.abs(after[2] - before[2]).max() > 0.1
    np.testing.assert_array_equal(rows(policy(td), "log_probs", "full")[2], before[2])


def test_copies_pickles_and_states_have_what_was_learnt() -> None:
    policy, td = wrap("tokens").trainable(), batch("tokens")
    original = copy.deepcopy(policy)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.data *= 1.2
    now = rows(policy(td), "log_probs", "full")
    assert np.abs(rows(original(td), "log_probs", "full")[2] - now[2]).max() > 0.01
    again = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(rows(again(td), "log_probs", "full")[2], now[2])
    original.load_state_dict(policy.state_dict())
    np.testing.assert_array_equal(rows(original(td), "log_probs", "full")[2], now[2])


@pytest.mark.depth
def test_threads_get_old_or_new_weights() -> None:
    wrapper = wrap("tokens", pad_output=True, generate_kwargs={**GREEDY, "max_new_tokens": 12}, sessions=2)
    prompts = TensorDict({"tokens": Tokens(prompt=np.arange(8).reshape(2, 4), batch_size=[2])}, [2])
    policy = wrapper.trainable()
    old = wrapper(prompts.copy())["log_probs", "response"]
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.data *= 1.3
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(wrapper, prompts.copy()) for _ in range(12)]
        policy.sync()
        futures += [threads.submit(wrapper, prompts.copy()) for _ in range(4)]
        found = [future.result(LONG)["log_probs", "response"] for future in futures]
    new = found[-1]
    assert np.abs(new - old).max() > 0.01
    for one in found:
        assert np.allclose(one, old, atol=1e-4) or np.allclose(one, new, atol=1e-4)


def test_what_cannot_learn(wrap: Any) -> None:
    raises(TypeError, "a model learns from its file", lambda: wrap().trainable())
    raises(TypeError, "has no update_weights_", lambda: wrap().update_weights_({}))


@pytest.mark.parametrize("name", standing_for_all(["optimum-llama", "optimum-gpt2-pair"]))
def test_adapters_learn_beside_a_frozen_model(name: str) -> None:
    wrapper = wrap("tokens", MODELS / name, pad_output=True, generate_kwargs=GREEDY, prefix_cache=1 << 20)
    prompts = TensorDict({"tokens": Tokens(prompt=np.arange(40).reshape(2, 20), batch_size=[2])}, [2])
    out = wrapper(prompts.copy())
    policy = wrapper.trainable(assistant_only=True, lora={"rank": 4, "rng": 0})
    assert all("lora" in name for name, p in policy.named_parameters() if p.requires_grad)
    np.testing.assert_array_equal(wrapper(prompts.copy())["tokens", "full"], out["tokens", "full"])
    learn(policy, out, steps=6)
    policy.sync()
    reference = wrapper.get_new_version(adapter=None)
    np.testing.assert_array_equal(reference(prompts.copy())["tokens", "full"], out["tokens", "full"])
    after = wrapper(prompts.copy())
    assert (after["tokens", "full"] != out["tokens", "full"]).any()
    said = after["masks", "all_assistant_mask"]
    log_probs = after["log_probs", "response"].ravel()
    np.testing.assert_allclose(policy(after)["log_probs", "full"][said], log_probs, atol=1e-4)
    again = pickle.loads(pickle.dumps(wrapper))
    np.testing.assert_array_equal(again(prompts.copy())["tokens", "full"], after["tokens", "full"])
    again.update_weights_({name: 0 * value for name, value in policy.learnt_weights().items()})
    np.testing.assert_array_equal(again(prompts.copy())["tokens", "full"], out["tokens", "full"])
    with pytest.raises(ValueError, match="is of an adapter, and none is used here"):
        reference.update_weights_(policy.learnt_weights())
    raises(ValueError, r"adapter 'learnt', .* get_new_version\(adapter=None\)", lambda: wrapper.trainable())


def test_policies_of_one_model_learn_adapters_of_their_own() -> None:
    """Of one name the second took the place of the first."""
    first = wrap("tokens", generate=False, inplace=False, pad_output=True).trainable(lora=2)
    td, second = batch("tokens"), first.wrapper.get_new_version(adapter=None)
    raises(ValueError, "adapter='learnt' is an adapter that the model has", lambda: second.trainable(lora=2))
    other = second.trainable(lora=2, adapter="other")
    for policy, step in ((first, 0.05), (other, -0.05)):
        policy.sync(policy.learnt_params().data.apply(lambda w, step=step: w + np.float32(step)))
    found = [policy.wrapper(td)["log_probs", "full"] for policy in (first, other)]
    assert np.abs(found[0] - found[1]).max() > 0.1
    first.sync()
    np.testing.assert_allclose(
        first.wrapper(td)["log_probs", "full"], first(td)["log_probs", "full"], atol=1e-4
    )


def test_adapters_beside_weights_of_4_bits() -> None:
    wrapper = wrap("tokens", MODELS / "genai-qwen2-int4", generate=False, inplace=False, pad_output=True)
    policy, td = wrapper.trainable(lora={"rank": 2, "rng": 0}), batch("tokens")
    before = wrapper(td)["log_probs", "full"]
    params = policy.learnt_params().data.apply(lambda w: w + np.float32(0.05))
    policy.sync(params)
    after = wrapper(td)["log_probs", "full"]
    with params.to_module(policy):
        found = policy(td)["log_probs", "full"]
    assert np.abs(after - before).max() > 0.5
    np.testing.assert_allclose(found, after, atol=0.1)  # activations are rounded to 8 bits


def test_a_collector_goes_on_with_what_was_learnt() -> None:
    wrapper = wrap("tokens", pad_output=True, generate_kwargs=GREEDY)
    policy = wrapper.trainable(lora=2)
    prompts = [np.arange(i, i + 4) for i in range(4)]
    collector = LLMCollector(prompts, policy=wrapper, dialog_turns_per_batch=2, track_policy_version=True)
    first = collector.rollout()
    collector.update_policy_weights_(TensorDict(policy.learnt_weights()) + 1)
    second = collector.rollout()
    collector.update_policy_weights_(policy)
    assert first["policy_version"].tolist() == [0, 0]
    assert second["policy_version"].tolist() == [1, 1]
    judge = wrapper.get_new_version(generate=False, inplace=False)
    for out, same in ((first, True), (second, False)):
        scores = judge(out)["log_probs", "full"][out["masks", "all_assistant_mask"]]
        assert np.allclose(scores, out["log_probs", "response"].ravel(), atol=1e-4) == same


SAMPLED = {"max_new_tokens": 6, "do_sample": True, "top_k": 5, "temperature": 0.7, "kept_ids": True}


@pytest.mark.parametrize(
    ("name", "padded"), standing_for_all([("genai-llama-fp32", False), ("genai-qwen2-int4", True)])
)
def test_log_probs_among_the_ids_that_were_drawn_from(name: str, padded: bool) -> None:
    wrapper = wrap("tokens", MODELS / name, pad_output=padded, generate_kwargs=SAMPLED, seed=0)
    prompts = lazy_stack([TensorDict(tokens=Tokens(prompt=np.arange(3, 6 + 2 * i))) for i in range(3)])
    out = wrapper(prompts)
    how: dict[str, Any] = {"temperature": 0.7, "kept_ids": True}
    judge = wrapper.get_new_version(generate=False, inplace=False, score_kwargs=how)
    lora = {"rank": 2} if "int4" in name else None
    policy = wrapper.get_new_version().trainable(score_kwargs=how, lora=lora)
    for a, b in zip(
        rows(policy(out), "log_probs", "full"), rows(judge(out), "log_probs", "full"), strict=True
    ):
        # onnxruntime rounds inputs of int4 products
        np.testing.assert_allclose(a, b, atol=0.05 if lora else 1e-4)
    plain = rows(policy(out, kept_ids=False), "log_probs", "full")
    for a, b in zip(rows(policy(out), "log_probs", "full"), plain, strict=True):
        assert a[-6:].sum() > b[-6:].sum()  # the response


def test_gradients_among_the_ids_that_were_drawn_from() -> None:
    wrapper = wrap("tokens", pad_output=True, generate_kwargs=SAMPLED, seed=0)
    out = wrapper(
        TensorDict(tokens=Tokens(prompt=np.arange(8).reshape(2, 4), batch_size=[2]), batch_size=[2])
    )
    policy = wrapper.trainable(trainable=["*norm*", "lm_head*"], assistant_only=True)
    params = policy.learnt_params().data.clone()

    def loss(params: Any) -> Any:
        with params.to_module(policy):
            return policy(out, kept_ids=True, temperature=0.7)["log_probs", "full"].sum()

    _, grads = value_and_grad(loss)(params)
    rng = np.random.default_rng(0)
    direction = params.apply(lambda x: rng.normal(size=x.shape).astype(np.float32))
    ahead, behind = (float(loss(params + direction * step)) for step in (1e-3, -1e-3))
    expected = sum(
        float((g * d).sum())
        for g, d in zip(grads.values(True, True), direction.values(True, True), strict=True)
    )
    np.testing.assert_allclose((ahead - behind) / 2e-3, expected, rtol=2e-2)


@pytest.mark.parametrize(("method", "padded"), [("get_dist", True), ("_get_sft_dist", False)])
def test_distributions_are_those_of_the_wrapper(method: str, padded: bool) -> None:
    wrapper = wrap(pad_output=padded)
    policy, judge = wrapper.trainable(), wrapper.get_new_version(generate=False, inplace=False)
    td = batch("text")
    if method != "get_dist":
        td["tokens"] = lazy_stack([Tokens(prompt=row[:3]) for row in rows(judge(td), "tokens", "full")])
    ours, theirs = getattr(policy, method)(td), getattr(judge, method)(td)
    np.testing.assert_array_equal(ours.mask, theirs.mask)
    np.testing.assert_allclose(ours.logits[ours.mask], theirs.logits[theirs.mask], atol=1e-4)
    ids = np.asarray(ours.mode)

    def loss(params: Any) -> Any:
        with params.to_module(policy):
            return getattr(policy, method)(td).log_prob(ids).sum()

    value, grads = value_and_grad(loss)(policy.learnt_params())
    np.testing.assert_allclose(value, judge_sum(theirs, ids), rtol=1e-4)
    assert all(np.any(g) for g in grads.values(True, True))


def judge_sum(dist: Any, ids: np.ndarray) -> float:
    return float(np.sum(dist.log_prob(ids)))


def test_it_is_saved_as_a_model_or_an_adapter(tmp_path: Any) -> None:
    td = batch("text")
    policy = wrap(pad_output=True).trainable()
    params = policy.learnt_params().data.apply(lambda x: x * np.float32(1.01))
    with params.to_module(policy):
        wanted = np.asarray(policy(td)["log_probs", "full"])
    saved = wrap(
        "text", policy.save(tmp_path / "model", params), generate=False, inplace=False, pad_output=True
    )
    np.testing.assert_allclose(saved(td)["log_probs", "full"], wanted, atol=1e-4)
    assert policy.save(tmp_path / "model" / "other.onnx").is_file()
    adapted = wrap().trainable(lora=2)
    file = adapted.save(tmp_path / "learnt.onnx_adapter")
    assert OnnxWrapper(LLAMA, input_mode="text").trainable(lora={"adapter": file}).wrapper.adapter == "learnt"
    assert (adapted.save(tmp_path / "peft") / "adapter_model.safetensors").is_file()


@each_case(
    ("name", "kind", "layers"),
    [
        ("genai-llama-fp32", "", {"q_proj", "k_proj", "v_proj", "o_proj"}),  # joined by the exporter
        ("genai-phi3-longrope", "", {"qkv_proj", "o_proj"}),  # joined in transformers, too
        ("genai-llama-fp32", "codegen", {"qkv_proj", "o_proj"}),
    ],
)
def test_peft_gets_the_layers_that_transformers_has(
    name: str, kind: str, layers: set[str], tmp_path: Any
) -> None:
    model = shutil.copytree(MODELS / name, tmp_path / "model")
    if kind:
        (model / "config.json").write_text(json.dumps({"model_type": kind}))
    folder = wrap("text", model).trainable(lora=2).save(tmp_path / name)
    config = json.loads((folder / "adapter_config.json").read_text())
    assert set(config["target_modules"]) == layers
    keys = read_safetensors(str(folder / "adapter_model.safetensors"))[0]
    assert {key.split(".")[5] for key in keys} == {"self_attn"}  # base_model.model.model.layers.0
    policy = wrap("text", MODELS / name).trainable(lora={"adapter": folder})
    assert len(policy.learnt_weights()) == 8


@pytest.mark.parametrize("name", ["optimum-gpt2-pair", "exporter-llama-pair"])
def test_a_pair_of_graphs_is_saved_as_one(name: str, tmp_path: Any) -> None:
    td = batch("text")
    wrapper = wrap("text", MODELS / name, generate_kwargs=GREEDY)
    policy = wrapper.trainable(pad_output=True)
    params = policy.learnt_params().data.apply(lambda x: x * np.float32(1.1))
    with params.to_module(policy):
        wanted = np.asarray(policy(td)["log_probs", "full"])
    policy.sync(params)
    saved = wrap("text", policy.save(tmp_path / "pair", params), generate_kwargs=GREEDY)
    judge = saved.get_new_version(generate=False, inplace=False, pad_output=True)
    np.testing.assert_allclose(judge(td)["log_probs", "full"], wanted, atol=1e-4)
    prompts = TensorDict(text=Text(prompt=TEXTS, batch_size=[3]), batch_size=[3])
    assert saved(prompts.copy())["text", "response"] == wrapper(prompts.copy())["text", "response"]
