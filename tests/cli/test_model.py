"""A model folder loaded for a command."""

import hashlib
from argparse import Namespace
from pathlib import Path

import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS, folder_of_two

from lite.cli.model import load, made_with
from lite.models import Padding, embedded_model_path


def arguments(model: Path | None, variant: str | None = None, adapter: str | None = None) -> Namespace:
    name = None if model is None else str(model)
    return Namespace(model=name, device="cpu", threads=None, variant=variant, adapter=adapter, quiet=True)


def test_the_embedded_model_is_loaded_where_none_is_named() -> None:
    assert load(arguments(None)).path == embedded_model_path()
    loaded = load(arguments(MODELS / "optimum-llama"))
    assert loaded.path == MODELS / "optimum-llama"
    assert loaded.decoder.vocab_size == 512
    assert loaded.tokenizer.eos_token_id == 2
    assert loaded.seconds > 0


def test_a_variant_and_an_adapter(tmp_path: Path) -> None:
    folder = folder_of_two(tmp_path)
    assert load(arguments(folder)).decoder.spec.padding is Padding.LEFT
    assert load(arguments(folder, "int4")).decoder.spec.padding is Padding.SLOTS
    file = str(MODELS / "handmade-lora" / "casual.onnx_adapter")
    assert [load(arguments(folder, "", name)).decoder.adapter for name in (None, file)] == [None, "casual"]
    with pytest.raises(ValueError, match=r"no graph of variant='q8'.*'int4' \(model_int4.onnx\)"):
        load(arguments(folder, "q8"))
    with pytest.raises(ValueError, match=r"adapters\['casual'\]: .* is for another model"):
        load(arguments(folder, "int4", file))


def test_output_is_of_what_an_adapter_holds(tmp_path: Path) -> None:
    """Its file, both files of PEFT's folder, or the file of `lite learn` where there is none of those."""

    def digest() -> str:
        given = arguments(MODELS / "optimum-llama", adapter=str(tmp_path))
        adapter = made_with(Namespace(**vars(given), command="generate", raw=False))["adapter"]
        assert adapter["path"] == str(tmp_path)
        return str(adapter["sha256"])

    def of(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    raises(FileNotFoundError, "--adapter .*: there is no file .*adapter_config.json", digest)
    (tmp_path / "adapter.onnx_adapter").write_bytes(b"learnt")
    assert digest() == of(b"learnt")
    (tmp_path / "adapter_config.json").write_bytes(b"{}")
    raises(FileNotFoundError, "there is no file .*adapter_model.safetensors", digest)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"weights")
    assert digest() == of(b"{}weights")
