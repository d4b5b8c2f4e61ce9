"""Runs on the stream of a GPU and captured steps, with stand-ins for all of it."""

import gc
from typing import Any

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.stand_in_gpu import HostRuntime, check_steps, gpu, on_a_stream
from helpers.tiers import standing_for_all

from lite.models import OnnxDecoder
from lite.models.decoder.device_logits import DeviceLogits
from lite.models.decoder.gpu_binding import CAPTURED_STEP

__all__ = ["gpu"]  # a fixture


@pytest.mark.parametrize("name", standing_for_all(["no cache", "slots", "half cache"], 2))
def test_runs_and_reads_are_on_one_stream(gpu, monkeypatch, rng, name):
    decoder, session = on_a_stream(name, gpu, monkeypatch)
    handle = session.how["stream"].handle
    assert isinstance(handle, int)
    decoder.prefill_rows([0], [[1, 2, 3]])
    gpu.calls.clear()
    logits = decoder.decode_unchecked(np.array([4]), [0])
    assert isinstance(logits, DeviceLogits)
    assert logits.stream == handle
    np.testing.assert_allclose(logits, [decoder_graphs.expected([1, 2, 3, 4])], atol=5e-3)
    decoder.reset(0)
    check_steps(decoder, rng, 6)
    assert "synchronise" not in gpu.calls


@pytest.mark.parametrize("name", standing_for_all(["slots", "slots with gather"]))
def test_captured_steps(gpu, monkeypatch, rng, name):
    decoder, session = on_a_stream(name, gpu, monkeypatch, cuda_graphs=True)
    assert session.how["cuda_graphs"] is True
    check_steps(decoder, rng, 20)
    assert session.replays > 20
    assert session.captured
    decoder.reset(0)
    decoder.reserve(64, 8)
    held = decoder.acquire(5)
    decoder.prefill_rows(held, [[1, 2, 3]] * 5)  # new buffers, so other addresses
    assert not session.captured
    check_steps(decoder, rng, 4)


def test_states_are_not_captured(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"cuda_graphs=True: the graph's 'past_conv\.0' are on the host"):
        on_a_stream("slots, state", gpu, monkeypatch, cuda_graphs=True)


def test_a_step_is_captured_once_it_was_run_often(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, session = on_a_stream("slots", gpu, monkeypatch, cuda_graphs=True)
    decoder.prefill_rows([0, 1], [[1, 2], [3]])
    session.numbers.clear()
    gpu.calls.clear()
    addresses = set()
    for _ in range(CAPTURED_STEP + 4):
        logits = decoder.decode_unchecked(np.array([4, 5]), [0, 1])
        addresses.add(logits.address)  # type: ignore[union-attr]
        np.asarray(logits)
    *before, captured = dict.fromkeys(session.numbers)
    assert before == ["-1"]
    assert int(str(captured)) > 0
    assert session.numbers == ["-1"] * (CAPTURED_STEP - 1) + [captured] * 5
    assert session.replays == 4
    assert len(addresses) == 1
    assert gpu.calls.count("upload") == 2 * (CAPTURED_STEP + 4)  # ids and mask; nothing is bound
    del decoder
    gc.collect()
    assert not session.captured


def test_graphs_whose_steps_grow_are_refused(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("positions", "no cache"):
        with pytest.raises(ValueError, match=r"cuda_graphs=True needs .* GroupQueryAttention; .* padding"):
            on_a_stream(name, gpu, monkeypatch, cuda_graphs=True)


def test_cuda_graphs_are_for_models_that_are_opened_on_a_gpu() -> None:
    for arguments, got in (
        ({"session": decoder_graphs.FakeSession(), "device": "cuda"}, "a session"),
        ({}, "device='cpu'"),
    ):
        with pytest.raises(ValueError, match=f"cuda_graphs=True is for .*, got {got}"):
            OnnxDecoder(decoder_graphs.config(), cuda_graphs=True, **arguments)  # type: ignore[arg-type]


def test_operators_that_run_on_the_cpu(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would read a copy of the slots, made when these were bound."""
    past = "past_key_values.1.value"
    with pytest.raises(ValueError, match=rf"no operator on the GPU that reads '{past}' \(tensor\(float\)\)"):
        on_a_stream("slots", gpu, monkeypatch, on_cpu=[past])
    with pytest.raises(
        ValueError, match="cuda_graphs=True: the graph's 'attention_mask' are read on the CPU"
    ):
        on_a_stream("slots", gpu, monkeypatch, on_cpu=["attention_mask"], cuda_graphs=True)
    for name, inputs in (("slots", ["attention_mask"]), ("positions", [past])):  # these are bound again
        decoder, _ = on_a_stream(name, gpu, monkeypatch, on_cpu=inputs)
        decoder.prefill(0, [1, 2])
        logits = decoder.decode([3])
        np.testing.assert_allclose(logits, [decoder_graphs.expected([1, 2, 3])], atol=5e-3)


def test_a_machine_without_a_gpu(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "cudaSetDevice", lambda index: 100)
    with pytest.raises(
        RuntimeError,
        match=r"device='cuda:.*error 100 \(no CUDA-capable .*\)\. Check `nvidia-smi`.*pip install",
    ):
        on_a_stream("slots", gpu, monkeypatch)


def test_siblings_take_turns_where_steps_are_captured(gpu, monkeypatch):
    for graphs in (True, False):
        decoder, _ = on_a_stream("slots", gpu, monkeypatch, cuda_graphs=graphs)
        assert (decoder.sibling()._turn is decoder._turn) is graphs


def test_a_step_that_cannot_be_captured(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, session = on_a_stream("slots", gpu, monkeypatch, cuda_graphs=True)
    plain = session.run_with_iobinding

    def run(binding: Any, options: Any = None) -> None:
        if options.get_run_config_entry("gpu_graph_id") != "-1":
            raise RuntimeError("operation not permitted when stream is capturing")
        plain(binding, options)

    monkeypatch.setattr(session, "run_with_iobinding", run)
    decoder.prefill(0, [1])
    for _ in range(CAPTURED_STEP - 1):
        decoder.decode([2])
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing") as caught:
        decoder.decode([2])
    assert "without cuda_graphs=True" in caught.value.__notes__[0]


def test_errors_have_the_sizes(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, session = on_a_stream("positions", gpu, monkeypatch)

    def fail(binding: Any, options: Any = None) -> None:
        raise RuntimeError("out of memory")

    decoder.prefill(0, [1, 2])
    monkeypatch.setattr(session, "run_with_iobinding", fail)
    with pytest.raises(RuntimeError, match=r"1 row of 1 new token \(input_ids \[1, 1\].*out of memory"):
        decoder.decode([3])
