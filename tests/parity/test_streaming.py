"""Streamers beside those of transformers: the same text, and each goes into the other's `generate`."""

import threading

import numpy as np
import pytest
import torch
import transformers
from helpers.models.real_models import MODELS

from lite.models import GenerationConfig, OnnxDecoder, TextIteratorStreamer, TextStreamer, Tokenizer, generate

MODEL = MODELS / "optimum-llama"
PROMPT = "Grüße, 日本 and\n two words"


@pytest.fixture(scope="module")
def tokenizers():
    return Tokenizer.from_pretrained(MODEL), transformers.AutoTokenizer.from_pretrained(MODEL)


@pytest.mark.parametrize("options", [{}, {"skip_prompt": True}, {"skip_special_tokens": True}])
def test_each_goes_into_the_other_s_generate(options, tokenizers, capsys):
    ours, theirs = tokenizers
    ids = ours.encode(PROMPT)
    decoder, config = OnnxDecoder(MODEL), GenerationConfig(max_new_tokens=30, temperature=2.0, do_sample=True)
    small = transformers.LlamaConfig(
        vocab_size=512, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    network = transformers.LlamaForCausalLM(small.__class__(**small.to_dict() | {"intermediate_size": 16}))
    said = []
    for kind, tokenizer in (
        (TextStreamer, ours),
        (TextStreamer, theirs),
        (transformers.TextStreamer, theirs),
    ):
        generate(decoder, [ids], config, seeds=np.array([3]), streamer=kind(tokenizer, **options))
        torch.manual_seed(0)
        network.generate(
            torch.tensor([ids]), streamer=kind(tokenizer, **options), max_new_tokens=30, do_sample=True,
            pad_token_id=0,
        )  # fmt: skip
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
    assert len(said[0]) > 30


@pytest.mark.parametrize("kind", [TextIteratorStreamer, transformers.TextIteratorStreamer])
def test_an_iterator_in_another_thread(kind, tokenizers):
    decoder, config = OnnxDecoder(MODEL), GenerationConfig(max_new_tokens=20)
    ids = tokenizers[0].encode(PROMPT)
    streamer = kind(tokenizers[1], skip_prompt=True, timeout=30)
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(generate(decoder, [ids], config, streamer=streamer))
    )
    thread.start()
    text = "".join(streamer)
    thread.join()
    assert text == tokenizers[0].decode(found[0].tokens)
