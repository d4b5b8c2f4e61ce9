"""The decoder on real exports: greedy decoding, and rows that are forked, cut, reset, mixed and moved."""

import os
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import EXPECTED, MODELS, STANDING, each_export, open_model, tolerance
from numpy.typing import NDArray

from lite.models import GenerationConfig, OnnxDecoder, Padding, generate, score

Same = Callable[[NDArray[np.float32], NDArray[np.float32]], None]
PADDING = {
    "optimum-llama": Padding.SLOTS, "optimum-gpt2": Padding.SLOTS, "optimum-gpt2-nopos": Padding.EQUAL,
    "genai-llama-fp32": Padding.SLOTS, "genai-qwen2-int4": Padding.SLOTS,
    "optimum-gpt2-pair": Padding.EQUAL, "exporter-llama-pair": Padding.LEFT,
    "exporter-llama-static": Padding.EQUAL, "torch-phi3-longrope": Padding.SLOTS,
    "genai-phi3-longrope": Padding.SLOTS, "genai-lfm2": Padding.SLOTS, "handmade-lora": Padding.LEFT,
    "handmade-slots-window": Padding.SLOTS, "handmade-slots-windowed": Padding.SLOTS,
    "handmade-slots-half": Padding.SLOTS, "handmade-slots-int8": Padding.SLOTS,
    "handmade-slots-int4": Padding.SLOTS, "handmade-last-logits": Padding.SLOTS,
    "handmade-no-cache": Padding.RIGHT,
}  # fmt: skip


def full(decoder: OnnxDecoder, ids: list[int] | NDArray[np.int64]) -> NDArray[np.float32]:
    """Logits after `ids`, from a row of its own."""
    (row,) = decoder.acquire(1)
    logits = decoder.prefill(row, ids)
    decoder.release([row])
    return logits


@pytest.fixture
def same(name: str) -> Same:
    """Compare logits; a graph that rounds activations may make a whole step of a last bit."""
    atol = tolerance(name)

    def compare(got: NDArray[np.float32], want: NDArray[np.float32]) -> None:
        np.testing.assert_allclose(got, want, atol=atol, rtol=0)

    return compare


@each_export
def test_the_convention_is_recognised(name: str, decoder: OnnxDecoder) -> None:
    assert decoder.spec.padding is PADDING[name]
    assert decoder.spec.group_query == (PADDING[name] is Padding.SLOTS)
    assert (decoder.vocab_size, decoder.context_length) == (512, 256)


@pytest.mark.parametrize(
    ("name", "mode"), list(zip(STANDING, ["alone", "together", "shuffled"] * 2, strict=False))
)
def test_greedy_tokens_and_log_probs(name: str, decoder: OnnxDecoder, mode: str) -> None:
    cases = EXPECTED[name]["greedy"]
    rows = list(range(len(cases)))
    if mode == "together":
        logits = decoder.prefill_rows(rows, [case["prompt"] for case in cases])
    else:
        logits = np.stack([decoder.prefill(row, cases[row]["prompt"]) for row in rows])
    order = {"alone": rows, "together": rows, "shuffled": rows[::-1]}[mode]
    for step in range(len(cases[0]["tokens"])):
        tokens = logits.argmax(-1)
        wide = logits.astype(np.float64)
        log_probs = wide.max(-1) - np.log(np.exp(wide).sum(-1))
        assert tokens.tolist() == [case["tokens"][step] for case in cases]
        want = [case["log_probs"][step] for case in cases]
        np.testing.assert_allclose(log_probs, want, atol=EXPECTED[name]["atol_log_prob"], rtol=0)
        if mode == "alone":
            logits = np.concatenate([decoder.decode(tokens[[row]], [row]) for row in rows])
        else:
            logits = decoder.decode(tokens[order], order)[np.argsort(order)]


def test_memory_follows_the_rows_that_live(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    line = 2 * len(decoder.spec.cache) * decoder.spec.num_heads * decoder.spec.head_size * 4  # read and write
    decoder.prefill_rows(range(16), [[1, 2, 3]] * 16)
    for row in range(16):
        decoder.reset(row)
    decoder.prefill(0, rng.integers(0, 512, 250))
    decoder.decode([1], [0])
    assert decoder.cache_bytes <= 256 * line


def test_reserve_allocates_once(decoder: OnnxDecoder) -> None:
    held = decoder.acquire(4)
    decoder.reserve(70, 4)
    decoder.prefill_rows(held[:1], [[1, 2, 3]])
    for row in held[1:]:
        decoder.fork(held[0], row)
    decoder.decode([1, 2, 3, 4], held)
    decoder.decode([1, 2, 3, 4], held)
    size = decoder.cache_bytes
    for _ in range(60):
        decoder.decode([1, 2, 3, 4], held)
    assert decoder.cache_bytes == size
    decoder.release(held)


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_rows_are_acquired_and_released(decoder: OnnxDecoder) -> None:
    decoder.prefill(0, [1, 2])
    held = decoder.acquire(3)
    assert 0 not in held
    assert len(set(held)) == 3
    assert not set(decoder.acquire(2)) & set(held)
    decoder.prefill(held[0], [1])
    decoder.release(held)
    assert decoder.lengths[held].tolist() == [0, 0, 0]
    assert set(held) <= set(decoder.acquire(3))


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_bad_prompts_change_nothing(same: Same, decoder: OnnxDecoder) -> None:
    cases: list[tuple[Any, str]] = [
        ([], "empty"), ([1, -1], "between 0 and 511 .*got -1"), ([512], "between 0 and 511 .*got 512"),
        ([0.5], "integers"), ([[1, 2]], r"one dimension.*\(1, 2\)"),
        (list(range(257)), "257 tokens is longer than the model's context of 256"),
    ]  # fmt: skip
    for ids, message in cases:
        decoder.prefill(0, [1, 2, 3])
        raises(ValueError, message, decoder.prefill, 0, ids)
        raises(ValueError, message, decoder.prefill_rows, [0, 1], [[1], ids])
        assert decoder.lengths[0] == decoder.lengths.sum() == 3, ids
        same(decoder.decode([4])[0], full(decoder, [1, 2, 3, 4]))


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_bad_calls(decoder: OnnxDecoder) -> None:
    decoder.prefill(0, [1, 2])
    raises(ValueError, "one entry per row, got 2 for 1", lambda: decoder.decode([1, 2], [0]))
    raises(IndexError, "between 0 and 0", lambda: decoder.decode([1], [1]))
    raises(ValueError, "different", lambda: decoder.decode([1, 2], [0, 0]))
    raises(ValueError, "length must be between 0 and the row's 2 tokens, got 3", decoder.truncate, 0, 3)
    decoder.extend([0], [np.ones(254, np.int64)])
    raises(ValueError, "257 tokens, the model's context is 256", lambda: decoder.decode([1]))
    raises(ValueError, "1 tokens after 256 is longer", lambda: decoder.extend([0], [[1]]))
    assert decoder.decode(np.array([], np.int64)).shape == (0, 512)


def test_bad_construction(tmp_path: Path) -> None:
    raises(FileNotFoundError, "nowhere", lambda: OnnxDecoder(tmp_path / "nowhere"))
    raises(FileNotFoundError, r"no \.onnx file", lambda: OnnxDecoder(tmp_path))
    raises(ValueError, "device must be", lambda: OnnxDecoder(MODELS / "optimum-llama", device="tpu"))
    raises(ValueError, "batch_size must be at least 1", OnnxDecoder, MODELS / "optimum-llama", batch_size=0)
    shutil.copytree(MODELS / "genai-llama-fp32", tmp_path / "cut")
    (tmp_path / "cut" / "model.onnx.data").write_bytes(b"")
    raises(ValueError, r"onnxruntime .* cannot load", lambda: OnnxDecoder(tmp_path / "cut"))


@pytest.mark.depth
def test_threads_may_share_a_decoder() -> None:
    """Runs bind buffers by address: two at once would read and write freed memory."""
    decoder = open_model("optimum-llama")
    config = GenerationConfig(max_new_tokens=6)
    prompts = [np.arange(3, 5 + i) for i in range(8)]

    def both(prompt: NDArray[np.int64]) -> tuple[list[int], NDArray[np.float32]]:
        return generate(decoder, [prompt], config)[0].tokens.tolist(), score(decoder, [prompt])[0]

    alone = [both(prompt) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(both, prompts * 4))
    for i, (tokens, log_probs) in enumerate(together):
        assert tokens == alone[i % 8][0]
        np.testing.assert_allclose(log_probs, alone[i % 8][1], atol=1e-5)
    np.testing.assert_array_equal(decoder.lengths, 0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_is_told_to_make_its_own() -> None:
    decoder = open_model("optimum-llama")
    child = os.fork()
    if not child:
        try:
            decoder.prefill(0, [3, 4])
        except RuntimeError as error:
            os._exit(7 if "does not survive fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert decoder.prefill(0, [3, 4]).shape == (512,)


@pytest.mark.parametrize("name", ["optimum-llama"])
def test_pickles_keep_path_and_arguments(decoder: OnnxDecoder) -> None:
    decoder.prefill(1, [3, 4, 5])
    other = pickle.loads(pickle.dumps(decoder))
    assert (other.device, other.spec, other.num_rows) == (decoder.device, decoder.spec, 1)
    np.testing.assert_array_equal(other.lengths, [0])
    np.testing.assert_allclose(other.prefill(0, [3, 4]), full(decoder, [3, 4]), atol=1e-5)
    given = OnnxDecoder(decoder.config, session=decoder.session)
    raises(TypeError, r"^session: .*give the path of the model", lambda: pickle.dumps(given))
