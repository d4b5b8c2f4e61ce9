"""A byte-level tokenizer and a scripted model for it; real exports, their prompts, and a recurrent policy.

Ids 0..255 are bytes ("Hi" is [39, 72], "ab" [64, 65]), then come <eos>, <bos>, <unk> and <pad>.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tokenizers
from helpers.models.real_models import EXPECTED, STANDING, open_model
from helpers.models.rewriting import cheap_sessions  # noqa: F401
from helpers.models.scripted_decoder import PythonDecoder
from helpers.recurrent_policy import PATH
from numpy.typing import NDArray

from lite.models import Decoder, OnnxWrapper
from lite.models.text.tokenizer import Tokenizer

SPECIALS = ("<eos>", "<bos>", "<unk>", "<pad>")


def make_backend() -> Any:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens([tokenizers.AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    return backend


@pytest.fixture(scope="session")
def byte_backend() -> Callable[[], Any]:
    """Makes the ``tokenizers.Tokenizer``."""
    return make_backend


@pytest.fixture(scope="session")
def byte_tokenizer() -> Callable[..., Tokenizer]:
    """Makes the tokenizer; named special tokens can be given, None leaves one out."""

    def make(*, chat_template: Any = None, name_or_path: str = "bytes", **special: str | None) -> Tokenizer:
        named = {"eos_token": "<eos>", "pad_token": "<pad>", **special}
        return Tokenizer(
            make_backend(), special_tokens=named, chat_template=chat_template, name_or_path=name_or_path
        )

    return make


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes tokenizer.json into a fresh folder, with further JSON files given by name."""

    def make(**files: Any) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        make_backend().save(str(folder / "tokenizer.json"))
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return make


class ScriptedModel(PythonDecoder):
    """A decoder whose logits are a fixed function of a row's second and last token.

    `script` maps (second token, last token) to the token made the most probable one.
    """

    vocab_size = 260
    device = "cpu"

    def __init__(self, script: Mapping[tuple[int, int], int], context_length: int | None = 256) -> None:
        super().__init__()
        self.script = dict(script)
        self.context_length = context_length
        self.prefilled: list[list[int]] = []

    def sibling(self) -> ScriptedModel:
        return ScriptedModel(self.script, self.context_length)

    def logits(self, row: Sequence[int]) -> np.ndarray:
        key = (row[1] if len(row) > 1 else 0, row[-1])
        values = np.random.default_rng(key).normal(size=self.vocab_size)
        if key in self.script:
            values[self.script[key]] = 6.0
        return values.astype(np.float32)

    def log_prob(self, context: Sequence[int], token: int) -> float:
        logits = self.logits(context).astype(np.float64)
        return float(logits[token] - np.log(np.exp(logits).sum()))

    def chunk_length(self, rows: int = 1) -> int:
        return 3

    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[Any]) -> np.ndarray:
        self.prefilled += [list(map(int, prompt)) for prompt in prompts]
        return super().prefill_rows(rows, prompts)


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Makes the model: after "Hi" it says "ab<eos>", after "Hello" it says "abcd"."""
    hi = {(72, 72): 64, (72, 64): 65, (72, 65): 256}
    hello = {(68, 78): 64, (68, 64): 65, (68, 65): 66, (68, 66): 67}

    def make(script: Mapping[tuple[int, int], int] | None = None, **options: Any) -> Decoder:
        return ScriptedModel({**hi, **hello} if script is None else script, **options)

    return make


@pytest.fixture
def wrap(
    scripted_model: Callable[..., Any], byte_tokenizer: Callable[..., Any]
) -> Callable[..., OnnxWrapper]:
    """Makes a wrapper around the scripted model; `model` and `tokenizer` can be given."""

    def make(input_mode: str = "text", **options: Any) -> OnnxWrapper:
        model = options.pop("model", None) or scripted_model()
        tokenizer = options.pop("tokenizer", None) or byte_tokenizer()
        if options.get("generate", True):
            options["generate_kwargs"] = {"max_new_tokens": 4, **options.get("generate_kwargs", {})}
        return OnnxWrapper(model, tokenizer=tokenizer, input_mode=input_mode, **options)

    return make


@pytest.fixture
def policy() -> Any:
    from lite.models import OnnxModule

    return OnnxModule(PATH)


@pytest.fixture(scope="session")
def session() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(PATH, options, providers=["CPUExecutionProvider"])


@pytest.fixture(params=STANDING)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def decoder(name: str) -> Decoder:
    return open_model(name)


@pytest.fixture
def prompts(name: str) -> list[NDArray[np.int64]]:
    return [np.array(case["prompt"]) for case in EXPECTED[name]["greedy"]]
