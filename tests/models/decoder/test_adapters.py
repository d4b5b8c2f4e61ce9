"""LoRA adapters: each gives what its formulas say, rows keep to theirs, and other models' files are named."""

import copy
import gc
import itertools
import pickle
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from helpers.cases import each_case, raises
from helpers.lora_nets import filled
from helpers.models.handmade_exports import ADAPTERS, NAMES, adapter, logits
from helpers.models.real_models import EXPECTED, MODELS
from helpers.tiers import standing_for_all
from numpy.typing import NDArray

from lite import nn
from lite.models import GenerationConfig, OnnxDecoder, generate, generate_each, score, stream

FOLDER = MODELS / "handmade-lora"
FILES = {name: FOLDER / f"{name}.onnx_adapter" for name in ADAPTERS}
PROMPTS = [np.array(case["prompt"]) for case in EXPECTED["handmade-lora"]["greedy"]]


@pytest.fixture
def decoder() -> OnnxDecoder:
    return OnnxDecoder(FOLDER, num_threads=1, adapters=FILES)


def want(ids: NDArray[np.int64], name: str | None) -> NDArray[np.float64]:
    return logits(ids.tolist(), NAMES["handmade-lora"], None if name is None else adapter(name))


def log_probs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = values - np.log(np.exp(values).sum(-1, keepdims=True))
    return result


def test_generation_and_scores(decoder: OnnxDecoder) -> None:
    for name in (*ADAPTERS, None):
        decoder.adapter = name
        responses = generate(decoder, PROMPTS, GenerationConfig(max_new_tokens=8))
        rows = [np.concatenate([prompt, r.tokens]) for prompt, r in zip(PROMPTS, responses, strict=True)]
        for row, response, scored in zip(rows, responses, score(decoder, rows), strict=True):
            exact = log_probs(want(row, name))[np.arange(len(row) - 1), row[1:]]
            start = len(row) - len(response.tokens)
            np.testing.assert_array_equal(want(row, name)[start - 1 : -1].argmax(-1), response.tokens)
            np.testing.assert_allclose(response.log_probs, exact[start - 1 :], atol=1e-4)
            np.testing.assert_allclose(scored[1:], exact, atol=1e-4, err_msg=str(name))
        assert not decoder.lengths.any(), name


def test_rows_of_several_adapters_live_side_by_side(decoder: OnnxDecoder) -> None:
    names = (*ADAPTERS, None)
    for row, name in enumerate(names):
        decoder.adapter = name
        got = decoder.prefill(row, PROMPTS[0])
        np.testing.assert_allclose(got, want(PROMPTS[0], name)[-1], atol=1e-4)
    assert decoder.lengths.tolist() == [5, 5, 5]
    for row, name in enumerate(names):
        decoder.adapter = name
        got = decoder.decode([7], [row])[0]
        np.testing.assert_allclose(got, want(np.append(PROMPTS[0], 7), name)[-1], atol=1e-4)
    decoder.truncate(0, 3)
    decoder.adapter = names[0]
    np.testing.assert_allclose(
        decoder.decode([9], [0])[0], want(np.append(PROMPTS[0][:3], 9), names[0])[-1], atol=1e-4
    )
    assert decoder.lengths.tolist() == [4, 6, 6]


def test_a_row_does_not_go_on_under_another_adapter(decoder: OnnxDecoder) -> None:
    decoder.prefill(0, PROMPTS[0])
    decoder.adapter = "formal"
    for attempt in (
        lambda: decoder.decode([1], [0]),
        lambda: decoder.decode_unchecked(np.array([1]), [0]),
        lambda: decoder.extend([0], [[1]]),
        lambda: decoder.fork(0, 1),
    ):
        raises(ValueError, r"row 0 holds tokens computed with adapter None.* is 'formal'", attempt)
    assert decoder.lengths[0] == 5
    assert 0 not in decoder.acquire(2)  # it is not free
    got = decoder.prefill(0, PROMPTS[0])  # restarts
    np.testing.assert_allclose(got, want(PROMPTS[0], "formal")[-1], atol=1e-4)
    decoder.adapter = None
    raises(ValueError, "computed with adapter 'formal'", lambda: decoder.decode([1], [0]))
    decoder.reset(0)
    np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), want(PROMPTS[0], None)[-1], atol=1e-4)


def test_a_thread_has_an_adapter_of_its_own(decoder: OnnxDecoder) -> None:
    """What others choose meanwhile changes neither its rows nor what it has begun."""
    decoder.adapter = "casual"
    with ThreadPoolExecutor(1) as other:
        with decoder.with_adapter("formal"):
            with decoder.with_adapter(None):
                assert decoder.adapter is None
                got = decoder.prefill(0, PROMPTS[0])
                np.testing.assert_allclose(got, want(PROMPTS[0], None)[-1], atol=1e-4)
            assert decoder.adapter == "formal"
            assert other.submit(lambda: decoder.adapter).result() == "casual"
            assert decoder.sibling().adapter == "casual"
            scored = other.submit(score, decoder, PROMPTS[1:2]).result()[0]
            exact = log_probs(want(PROMPTS[1], "casual"))[np.arange(len(PROMPTS[1]) - 1), PROMPTS[1][1:]]
            np.testing.assert_allclose(scored[1:], exact, atol=1e-4)
            got = decoder.prefill(1, PROMPTS[0])
            np.testing.assert_allclose(got, want(PROMPTS[0], "formal")[-1], atol=1e-4)
        assert decoder.adapter == "casual"
        raises(ValueError, "one of the decoder's adapters", decoder.with_adapter("rude").__enter__)
    decoder.release([0, 1])
    assert decoder.cache_bytes == 0


def test_what_rows_hold_is_read_while_another_thread_takes_the_turn(decoder: OnnxDecoder) -> None:
    for row, name in enumerate(ADAPTERS):
        decoder.adapter = name
        decoder.prefill(row, PROMPTS[0])
    decoder.adapter = None
    reading = iter(decoder._others.values())
    decoder.adapter = "formal"
    assert len(list(reading)) == 2


@each_case("begin", [stream, generate_each])
def test_what_is_begun_keeps_its_adapter(decoder: OnnxDecoder, begin: Any) -> None:
    def said(steps: Any, name: str | None) -> None:
        tokens = [int(x) for step in steps for x in (step[1] if type(step) is tuple else step).tokens]
        decoder.adapter = name
        (alone,) = generate(decoder, [PROMPTS[0]], GenerationConfig(max_new_tokens=4))
        assert tokens == alone.tokens.tolist()

    with decoder.with_adapter("formal"):
        formal = begin(decoder, [PROMPTS[0]], GenerationConfig(max_new_tokens=4))
    plain = begin(decoder, [PROMPTS[0]], GenerationConfig(max_new_tokens=4))
    decoder.adapter = "casual"
    first = next(formal)
    said(itertools.chain([first], formal), "formal")
    said(plain, None)


def test_an_adapter_without_rows_takes_no_memory(decoder: OnnxDecoder) -> None:
    for name in (*ADAPTERS, None) * 3:
        decoder.adapter = name
        score(decoder, PROMPTS)
    assert decoder.cache_bytes == 0


def test_a_deleted_adapter_leaves_nothing(decoder: OnnxDecoder) -> None:
    """It stays while a thread, a sibling or a row uses it; a new one of its name begins anew."""
    values, sibling = weakref.ref(decoder._adapters["formal"][0]), decoder.sibling()
    sibling.adapter = "formal"
    raises(RuntimeError, "adapter 'formal' is in use", decoder.delete_adapter, "formal")
    sibling.prefill(0, PROMPTS[0])
    sibling.adapter = None
    raises(
        RuntimeError, "rows hold tokens .* 'formal'.*clear prefix caches", decoder.delete_adapter, "formal"
    )
    assert decoder.adapters == tuple(ADAPTERS)
    sibling.reset(0)
    with decoder.with_adapter("formal"):
        decoder.prefill(0, PROMPTS[0])
        raises(RuntimeError, "is in use", decoder.delete_adapter, "formal")
        decoder.reset(0)
    decoder.delete_adapter("formal")
    raises(
        ValueError,
        r"one of the decoder's adapters \('casual'\), got 'formal'",
        decoder.delete_adapter,
        "formal",
    )
    assert decoder.adapters == sibling.adapters == pickle.loads(pickle.dumps(decoder)).adapters == ("casual",)
    gc.collect()
    assert values() is None
    decoder.set_adapter("formal", FILES["casual"])
    sibling.adapter = "formal"
    np.testing.assert_allclose(sibling.prefill(0, PROMPTS[0]), want(PROMPTS[0], "casual")[-1], atol=1e-4)


def test_unknown_names(decoder: OnnxDecoder) -> None:
    with pytest.raises(ValueError, match=r"adapter must be None or .*'formal', 'casual'.*got 'rude'"):
        decoder.adapter = "rude"
    assert decoder.adapter is None
    with pytest.raises(ValueError, match="none was given"):
        OnnxDecoder(FOLDER, num_threads=1).adapter = "formal"


def test_pickling_keeps_the_adapter(decoder: OnnxDecoder) -> None:
    decoder.adapter = "casual"
    for copied in (pickle.loads(pickle.dumps(decoder)), copy.copy(decoder)):
        assert copied.adapter == "casual"
        np.testing.assert_allclose(copied.prefill(0, PROMPTS[1]), want(PROMPTS[1], "casual")[-1], atol=1e-4)


def write(path: Path, **values: NDArray[np.generic]) -> Path:
    file = onnxruntime.AdapterFormat()
    file.set_parameters({k: onnxruntime.OrtValue.ortvalue_from_numpy(v) for k, v in values.items()})
    file.export_adapter(str(path))
    return path


def test_files_that_are_none(tmp_path: Path) -> None:
    def load(path: Path) -> OnnxDecoder:
        return OnnxDecoder(FOLDER, num_threads=1, adapters={"mine": path})

    raises(FileNotFoundError, r"adapters\['mine'\]: there is no file", lambda: load(tmp_path / "nowhere"))
    (tmp_path / "text").write_bytes(b"no adapter at all" * 9)
    raises(ValueError, r"adapters\['mine'\]: .* is not an adapter file", lambda: load(tmp_path / "text"))
    (tmp_path / "cut").write_bytes(FILES["formal"].read_bytes()[:700])
    raises(ValueError, r"adapters\['mine'\]: .* is not an adapter file", lambda: load(tmp_path / "cut"))
    with pytest.raises(
        ValueError, match="another model: the graph has no optional input 'other', it has query"
    ):
        load(write(tmp_path / "other", other=np.zeros((2, 2), np.float32)))
    for wrong in (np.zeros((9, 2), np.float32), np.zeros(16, np.float32), np.zeros((16, 2), np.float16)):
        with pytest.raises(
            ValueError, match=r"query\.0\.lora_A must be a tensor\(float\) of shape \[16, 'rank'\]"
        ):
            load(write(tmp_path / "wrong", **{"query.0.lora_A": wrong}))
    with pytest.raises(ValueError, match=r"the graph has no optional input .*, it has none"):
        OnnxDecoder(MODELS / "optimum-gpt2", num_threads=1, adapters={"mine": FILES["formal"]})


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "formal.onnx_adapter"
    link.symlink_to(FOLDER / link.name)
    with pytest.raises(ValueError, match=r"formal\.onnx_adapter is a link out of its folder"):
        OnnxDecoder(FOLDER, num_threads=1, adapters={"formal": link})


def test_an_adapter_may_change_part_of_the_inputs(tmp_path: Path) -> None:
    some = {key: value for key, value in adapter("formal").items() if key.startswith("query.1")}
    decoder = OnnxDecoder(FOLDER, num_threads=1, adapters={"some": write(tmp_path / "some", **some)})
    decoder.adapter = "some"
    exact = logits(PROMPTS[0].tolist(), NAMES["handmade-lora"], some)[-1]
    np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), exact, atol=1e-4)


def test_an_adapter_that_contradicts_itself_fails_when_it_runs(tmp_path: Path) -> None:
    """Two matrices of different rank each fit the graph's sizes; the model as it is goes on."""
    values = {"query.0.lora_A": np.ones((16, 3), np.float32), "query.0.lora_B": np.ones((5, 16), np.float32)}
    decoder = OnnxDecoder(FOLDER, num_threads=1, adapters={"odd": write(tmp_path / "odd", **values)})
    decoder.adapter = "odd"
    with pytest.raises(RuntimeError, match="cannot run the graph on 1 row of 1 new token") as error:
        decoder.prefill(0, PROMPTS[0][:1])
    assert "one token at a time" not in str(error.value)  # a hint for what more tokens are refused by
    assert not decoder.lengths.any()
    decoder.adapter = None
    np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), want(PROMPTS[0], None)[-1], atol=1e-4)


def set_to(name: str) -> dict[str, Any]:
    """The values of one of the files."""
    return dict(adapter(name))


def test_new_values_while_the_model_is_open(decoder: OnnxDecoder) -> None:
    other = decoder.sibling()
    decoder.set_adapter("mine", set_to("formal"))
    for one in (decoder, other):
        one.adapter = "mine"
        np.testing.assert_allclose(one.prefill(0, PROMPTS[0]), want(PROMPTS[0], "formal")[-1], atol=1e-4)
    values = set_to("casual")
    decoder.set_adapter("mine", values)
    for array in values.values():
        array[...] = 0  # what was given was copied
    for one in (decoder, other, *[pickle.loads(pickle.dumps(decoder))]):
        np.testing.assert_allclose(one.prefill(0, PROMPTS[0]), want(PROMPTS[0], "casual")[-1], atol=1e-4)
    decoder.set_adapter("mine", {k: v.astype(np.float64) for k, v in set_to("formal").items()})
    np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), want(PROMPTS[0], "formal")[-1], atol=1e-4)
    decoder.adapter = None
    np.testing.assert_allclose(decoder.prefill(1, PROMPTS[0]), want(PROMPTS[0], None)[-1], atol=1e-4)


def test_new_values_of_a_file(decoder: OnnxDecoder) -> None:
    for name in ("mine", "formal"):
        decoder.set_adapter(name, FOLDER / "casual.onnx_adapter")
        decoder.adapter = name
        np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), want(PROMPTS[0], "casual")[-1], atol=1e-4)
        decoder.reset(0)
    with pytest.raises(FileNotFoundError, match=r"adapters\['mine'\]: there is no file"):
        decoder.set_adapter("mine", str(FOLDER / "none.onnx_adapter"))


def test_values_that_do_not_fit_change_nothing(decoder: OnnxDecoder) -> None:
    decoder.adapter = "formal"
    some = {key: value for key, value in set_to("casual").items() if "query.0" in key}
    for values, message in (
        (some, r"'formal' has values of \['query\.1\.lora_A'.*give all"),
        ({**set_to("casual"), "other": np.zeros((1, 1), np.float32)}, "no optional input 'other'"),
        ({**set_to("casual"), "query.0.lora_A": np.zeros((3, 1))}, r"shape \[16, 'rank'\], got float32"),
        ({**set_to("casual"), "query.0.lora_A": np.zeros((16, 1), int)}, "got int64"),
    ):
        raises(ValueError, message, decoder.set_adapter, "formal", values)
    np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), want(PROMPTS[0], "formal")[-1], atol=1e-4)
    assert decoder.adapter_version == 0


def test_adapters_may_be_given_as_arrays() -> None:
    decoder = OnnxDecoder(FOLDER, num_threads=1, adapters={"mine": set_to("casual")})
    decoder.adapter = "mine"
    np.testing.assert_allclose(decoder.prefill(0, PROMPTS[0]), want(PROMPTS[0], "casual")[-1], atol=1e-4)


@pytest.mark.grid
@pytest.mark.parametrize("name", standing_for_all(["optimum-llama", "genai-qwen2-int4"]))
def test_an_export_that_is_given_inputs_for_adapters(tmp_path: Path, name: str) -> None:
    """It is run as before, to the bit; with values it scores as the module that learnt them."""
    folder = shutil.copytree(MODELS / name, tmp_path / "model")
    nn.add_adapter_inputs(MODELS / name / "model.onnx", folder / "model.onnx")
    decoder, before = (OnnxDecoder(path, num_threads=1) for path in (folder, MODELS / name))
    ids = np.array(EXPECTED[name]["greedy"][0]["prompt"])
    assert decoder.spec.in_place == before.spec.in_place
    np.testing.assert_array_equal(decoder.score(ids), before.score(ids))
    net = filled(nn.lora(nn.from_onnx(MODELS / name / "model.onnx", trainable=False), 2, 1, rng=0))
    decoder.set_adapter("learnt", net.adapter_inputs())
    decoder.adapter = "learnt"
    if name == "genai-qwen2-int4":  # a base that cannot be merged
        assert np.abs(decoder.score(ids) - before.score(ids)).max() > 1e-2
        return
    (folder / "model.onnx").unlink()
    merged = net.merge().save_onnx(folder / "model.onnx")
    want = OnnxDecoder(merged.parent, num_threads=1).score(ids)
    np.testing.assert_allclose(decoder.score(ids), want, atol=1e-4)


def test_a_graph_without_inputs_gets_them_for_what_was_learnt(tmp_path: Path) -> None:
    """From a file, from a folder of `lite learn`, from one of PEFT: as `set_adapter` takes it."""
    name = "optimum-llama"
    learnt = filled(nn.lora(nn.from_onnx(MODELS / name / "model.onnx", trainable=False), rank=2, rng=0))
    (tmp_path / "folder").mkdir()
    sources = {
        "file": learnt.save_adapter(tmp_path / "a.onnx_adapter"),
        "folder": learnt.save_adapter(tmp_path / "folder" / "adapter.onnx_adapter").parent,
        "peft": learnt.save_adapter(tmp_path / "peft"),
    }
    plain = OnnxDecoder(MODELS / name, num_threads=1)
    ids = [1, 2, 3, 4]
    before = plain.prefill(0, ids)
    plain.reset(0)
    plain.add_adapter_inputs({key.rpartition(".lora_")[0] for key in learnt.adapter_inputs()})
    plain.set_adapter("given", learnt.adapter_inputs())
    plain.adapter = "given"
    wanted = plain.prefill(0, ids)
    assert np.abs(wanted - before).max() > 1e-3
    decoder = OnnxDecoder(MODELS / name, num_threads=1, adapters=sources)
    for one in (decoder, pickle.loads(pickle.dumps(decoder))):
        np.testing.assert_allclose(one.prefill(0, ids), before, atol=1e-5)
        for source in sources:
            one.reset(0)
            one.adapter = source
            np.testing.assert_allclose(one.prefill(0, ids), wanted, atol=1e-5)


def test_what_was_learnt_of_another_model_is_refused(tmp_path: Path) -> None:
    learnt = nn.lora(nn.from_onnx(MODELS / "genai-llama-fp32" / "model.onnx", trainable=False), rng=0)
    file = learnt.save_adapter(tmp_path / "a.onnx_adapter")
    with pytest.raises(
        ValueError, match=r"adapters\['x'\]: .*a.onnx_adapter' is for another model: the graph"
    ):
        OnnxDecoder(MODELS / "optimum-gpt2", num_threads=1, adapters={"x": file})
