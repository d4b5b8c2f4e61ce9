"""Where a wrapper's model and tokenizer come from."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HI, Make, P, rows, token_td
from helpers.models.real_models import EXPECTED, MODELS, folder_of_two

from lite import TensorDict
from lite.models import OnnxWrapper, Padding, Text, Tokens


def test_needs_a_tokenizer(scripted_model: Make, byte_tokenizer: Make) -> None:
    with pytest.raises(ValueError, match="input_mode='text' needs a tokenizer"):
        OnnxWrapper(scripted_model(), input_mode="text")
    model = scripted_model()
    model.get_tokenizer = byte_tokenizer
    assert OnnxWrapper(model, input_mode="text").tokenizer.pad_token_id == P
    bare = OnnxWrapper(scripted_model(), input_mode="tokens", generate_kwargs={"max_new_tokens": 1})
    assert rows(bare(token_td(HI)), "tokens", "response") == [[64]]
    with pytest.raises(ValueError, match="stop_sequences need a tokenizer"):
        OnnxWrapper(scripted_model(), input_mode="tokens", generate_kwargs={"stop_sequences": ["a"]})


def test_an_assistant_that_is_none(scripted_model: Make) -> None:
    with pytest.raises(TypeError, match="assistant_model must be a path or have the interface"):
        OnnxWrapper(scripted_model(), input_mode="tokens", assistant_model=5)


FOLDERS = sorted(EXPECTED)


def test_a_folder_is_enough(tmp_path: Path) -> None:
    wrapper = OnnxWrapper(
        MODELS / FOLDERS[0], input_mode="text", generate_kwargs={"max_new_tokens": 2, "do_sample": False}
    )
    td = TensorDict({"text": Text(prompt=["Hi"], batch_size=[1])}, batch_size=[1])
    assert wrapper(td) is td
    assert isinstance(td["text", "response"][0], str)
    raises(FileNotFoundError, "", lambda: OnnxWrapper(tmp_path / "missing"))
    raises(FileNotFoundError, "onnx", lambda: OnnxWrapper(tmp_path))


def test_a_folder_without_tokenizer(tmp_path: Path) -> None:
    source = MODELS / "optimum-llama"
    for name in ("model.onnx", "config.json"):
        shutil.copy(source / name, tmp_path)
    raises(FileNotFoundError, r"no tokenizer\.json", lambda: OnnxWrapper(tmp_path))
    tokens = OnnxWrapper(
        tmp_path, input_mode="tokens", generate_kwargs={"max_new_tokens": 2, "do_sample": False}
    )
    out = tokens(TensorDict({"tokens": Tokens(prompt=np.array([[5, 6]]), batch_size=[1])}, batch_size=[1]))
    assert out["tokens", "response"].shape[0] == 1


def test_one_of_several_graphs(tmp_path: Path, scripted_model: Make) -> None:
    folder = folder_of_two(tmp_path)
    wrapper = OnnxWrapper(folder, input_mode="tokens", variant="int4")
    assert wrapper.model.spec.padding is Padding.SLOTS
    assert wrapper.get_new_version(generate=False).model is wrapper.model
    assert pickle.loads(pickle.dumps(wrapper)).model.spec.padding is Padding.SLOTS
    other = wrapper.get_new_version(variant="")
    assert other.model.spec.padding is Padding.LEFT
    assert OnnxWrapper(folder, input_mode="tokens").model.spec.padding is Padding.LEFT
    assert wrapper.get_new_version(model=MODELS / "handmade-no-cache").model.spec.padding is Padding.RIGHT
    raises(ValueError, "no graph of variant='q8'", OnnxWrapper, folder, input_mode="tokens", variant="q8")
    with pytest.raises(ValueError, match="variant='int4' is for a model given as a path"):
        OnnxWrapper(scripted_model(), input_mode="tokens", variant="int4")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU")
def test_cuda_without_a_gpu() -> None:
    raises(RuntimeError, "cuda", lambda: OnnxWrapper(MODELS / FOLDERS[0], device="cuda"))


OPENED = """
import sys, numpy, onnxruntime, tokenizers
before = set(sys.modules)
from lite.models import OnnxWrapper
OnnxWrapper(sys.argv[1])
late = {"concurrent.futures", "lite._files.functions", "lite.specs", "numpy.fft", "numpy.random", "shutil"}
print(sorted(late & (set(sys.modules) - before)))
"""


def test_what_opening_a_model_does_not_import() -> None:
    command = [sys.executable, "-c", OPENED, MODELS / "genai-llama-fp32"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
