"""The model of a class that works on batches."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.models.real_models import MODELS

from lite.kernels import get_num_threads, set_num_threads
from lite.models.batches import opening
from lite.models.batches.opening import OpenModel, assigned_cpus


@pytest.fixture
def kernel_threads() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


def stand_in(mode: str, cpus: float) -> Any:
    """What of Ray is asked, in an actor or in a driver."""
    context = SimpleNamespace(worker=SimpleNamespace(mode=mode), get_assigned_resources=lambda: {"CPU": cpus})
    return SimpleNamespace(
        is_initialized=lambda: True, WORKER_MODE="worker", get_runtime_context=lambda: context
    )


@pytest.mark.depth
@pytest.mark.parametrize(("cpus", "threads"), [(3.0, 3), (0.5, 1)])
def test_an_actor_has_the_threads_of_its_processors(cpus, threads, monkeypatch, kernel_threads):
    seen: dict[str, Any] = {}
    made = opening.OnnxDecoder

    def record(model: Any, **options: Any) -> Any:
        seen.update(options)
        return made(model, **options)

    monkeypatch.setattr(opening, "OnnxDecoder", record)
    monkeypatch.setitem(sys.modules, "ray", stand_in("worker", cpus))
    assert assigned_cpus() == threads
    OpenModel(MODELS / "optimum-llama")
    assert (seen["num_threads"], get_num_threads()) == (threads, threads)
    OpenModel(MODELS / "optimum-llama", threads=2)
    assert (seen["num_threads"], get_num_threads()) == (2, 2)


def test_elsewhere_nothing_is_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    before = get_num_threads()
    monkeypatch.setitem(sys.modules, "ray", stand_in("driver", 8.0))
    assert assigned_cpus() is None
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    assert assigned_cpus() is None
    monkeypatch.delitem(sys.modules, "ray")
    assert assigned_cpus() is None
    OpenModel(MODELS / "optimum-llama", threads=1)
    assert get_num_threads() == before


def test_a_model_without_tokenizer_is_enough_for_ids() -> None:
    model = OpenModel(OpenModel(MODELS / "optimum-llama", threads=1).decoder)
    assert not model.has_tokenizer
    with pytest.raises(ValueError, match="texts need a tokenizer: give one, or columns of token ids"):
        _ = model.tokenizer
    with_one = OpenModel(model.decoder, tokenizer=MODELS / "optimum-llama")
    assert with_one.tokenizer.eos_token_id == 2


def test_a_file_of_an_adapter() -> None:
    model = OpenModel(
        MODELS / "handmade-lora", adapter=MODELS / "handmade-lora" / "casual.onnx_adapter", threads=1
    )
    assert model.decoder.adapter == "casual"
