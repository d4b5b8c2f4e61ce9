"""OnnxWrapper in other processes, and copies of it: what goes along, and what cannot be sent."""

import copy
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import Make, text_td

from lite.models import OnnxDecoder, OnnxWrapper, embedded_model_path
from lite.nn import TensorDictSequential

PROMPTS = ["What is 12 + 30?", "Hello", "abc", "x"]


def make(**options: Any) -> OnnxWrapper:
    generate_kwargs = {"max_new_tokens": 6, **options.pop("generate_kwargs", {})}
    return OnnxWrapper(embedded_model_path(), generate_kwargs=generate_kwargs, **options)


def sent(wrapper: OnnxWrapper) -> Any:
    return pickle.loads(pickle.dumps(wrapper))


def said(wrapper: Any, *texts: str) -> list[str]:
    return list(wrapper(text_td(*(texts or PROMPTS)))["text", "response"])


def test_what_goes_along() -> None:
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    wrapper = make(
        chat_template=template, pad_output=True, inplace=False, tokens_key=("my", "tokens"), num_samples=2,
        batching=True, max_batch_size=3, seed=1,
        generate_kwargs={"temperature": 0.7, "stop_sequences": ["z"]},
    )  # fmt: skip
    wrapper.eval()
    wrapper.log_prob_keys = ["mine"]
    wrapper.select_out_keys(("my", "tokens"))
    other = sent(wrapper)
    assert other.options == wrapper.options
    assert other.generation == wrapper.generation
    assert other.get_batching_state() == wrapper.get_batching_state()
    assert (other.in_keys, other.out_keys) == (wrapper.in_keys, [("my", "tokens")])
    assert (other.log_prob_keys, other.training, other.pad_token_id) == (
        ["mine"],
        False,
        wrapper.pad_token_id,
    )
    assert other.get_new_version(num_samples=1).chat_template == template
    assert other.tokenizer.decode([65, 66]) == wrapper.tokenizer.decode([65, 66])
    assert other.tokenizer is other._read.tokenizer


def test_a_tokenizer_goes_along(byte_tokenizer: Make) -> None:
    wrapper = make(tokenizer=byte_tokenizer(), input_mode="text")
    assert type(sent(wrapper).tokenizer) is type(wrapper.tokenizer)
    assert said(sent(wrapper)) == said(wrapper)


@pytest.mark.depth
@pytest.mark.parametrize("copied", [sent, copy.deepcopy])
def test_random_streams(copied: Any) -> None:
    options = {"input_mode": "text", "generate_kwargs": {"temperature": 2.0, "do_sample": True}}
    seeded = make(seed=5, **options)
    first = said(seeded)
    other = copied(seeded)
    assert said(other) == said(seeded) != first  # from where the stream was
    free = make(**options)
    assert said(copied(free)) != said(copied(free))  # workers do not repeat each other
    fixed = make(input_mode="text", generate_kwargs={**options["generate_kwargs"], "seed": 3})
    assert said(copied(fixed)) == said(fixed)


@pytest.mark.parametrize("seed", [5, np.random.Generator(np.random.MT19937(5))], ids=["seed", "generator"])
def test_a_state_dict_is_where_the_random_stream_stands(seed: Any) -> None:
    options = {"input_mode": "text", "generate_kwargs": {"temperature": 2.0, "do_sample": True}}
    policy = TensorDictSequential(make(seed=seed, **options))
    said(policy)
    state = pickle.loads(pickle.dumps(dict(policy.state_dict())))
    later = said(policy)
    assert said(policy) != later
    policy.load_state_dict(state)
    assert said(policy) == later
    free = make(**options)
    free.load_state_dict(free.state_dict())  # without a seed there is no stream to go on with
    assert said(free) != said(free)
    for wrong, message in (
        ({}, "Missing key.*_extra_state"),
        ({"_extra_state": np.zeros(3, np.uint8)}, "no state of an OnnxWrapper"),
        ({"_extra_state": np.frombuffer(b'{"rng": {"bit_generator": "no"}}', np.uint8)}, "no state of an"),
    ):
        raises((RuntimeError, ValueError), message, free.load_state_dict, wrong)


def test_models_are_shared_by_what_shared_them() -> None:
    policy = make(input_mode="text")
    judge = policy.get_new_version(generate=False, input_key=("text", "prompt"))
    for shared in (pickle.loads(pickle.dumps((policy, judge))), copy.deepcopy((policy, judge))):
        assert shared[0].model is shared[1].model
    assert copy.deepcopy(policy).model is copy.copy(policy).model is policy.model
    assert sent(policy).model is not policy.model
    with_decoder = OnnxWrapper(
        OnnxDecoder(embedded_model_path()), tokenizer=policy.tokenizer, input_mode="text"
    )
    assert said(sent(with_decoder)) == said(with_decoder)


def test_the_model_is_opened_from_its_path(tmp_path: Path, monkeypatch: Any) -> None:
    for file in embedded_model_path().iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    text = pickle.dumps(OnnxWrapper(".", input_mode="text", generate_kwargs={"max_new_tokens": 2}))
    assert len(text) < sum(file.stat().st_size for file in tmp_path.iterdir())
    monkeypatch.chdir("/")
    assert said(pickle.loads(text)) == said(make(input_mode="text", generate_kwargs={"max_new_tokens": 2}))
    (tmp_path / "model.onnx").unlink()
    raises(FileNotFoundError, "model", pickle.loads, text)


def test_what_cannot_be_sent(wrap: Make) -> None:
    decoder = OnnxDecoder(embedded_model_path())
    given = OnnxDecoder(decoder.config, session=decoder.session)
    with pytest.raises(TypeError, match=r"^session: .* give the path of the model instead"):
        pickle.dumps(OnnxWrapper(given, tokenizer=embedded_model_path()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.processes)])
def test_other_processes(method: str) -> None:
    wrapper = make(input_mode="text", inplace=False)
    with multiprocessing.get_context(method).Pool(1) as pool:
        result = pool.apply_async(wrapper, (text_td(*PROMPTS),)).get(timeout=120)
    assert list(result["text", "response"]) == said(wrapper)
    np.testing.assert_allclose(
        result["log_probs"].get("response", as_padded_tensor=True),
        wrapper(text_td(*PROMPTS))["log_probs"].get("response", as_padded_tensor=True),
        atol=1e-5,
    )


@pytest.mark.processes
def test_map() -> None:
    wrapper = make(input_mode="text", inplace=False)
    data = text_td(*PROMPTS)
    result = data.map(wrapper, num_workers=2, chunksize=2)
    assert list(result["text", "response"]) == said(wrapper)
