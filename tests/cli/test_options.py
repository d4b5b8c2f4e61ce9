"""Flags become the options of generation."""

import argparse
from typing import Any

import pytest
from helpers.models.real_models import MODELS

from lite.cli.main import build_parser
from lite.cli.model import LoadedModel, load
from lite.cli.options import add_options, config_of
from lite.models import GenerationConfig


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    loaded = load(build_parser().parse_args(["info", "--model", str(MODELS / "optimum-llama")]))
    assert loaded.decoder.config is not None
    loaded.decoder.config.sampling.update(do_sample=True, temperature=0.25)  # type: ignore[attr-defined]
    return loaded


def config(model: LoadedModel, *flags: str, chat: bool = False, samples: int = 1) -> GenerationConfig:
    parser = argparse.ArgumentParser()
    add_options(parser)
    args = parser.parse_args(flags)
    args.chat, args.samples, args.stream, args.json = chat, samples, None, True
    return config_of(args, model)


def test_each_flag_is_the_option_of_its_name(model: LoadedModel) -> None:
    cases: list[tuple[str, Any]] = [
        ("max_new_tokens", 7), ("temperature", 0.5), ("top_k", 5), ("top_p", 0.9), ("min_p", 0.1),
        ("repetition_penalty", 1.2), ("no_repeat_ngram_size", 2), ("bad_words_ids", ((5, 6), (7,))),
        ("logit_bias", ((5, -2.0),)), ("num_beams", 3), ("early_stopping", "never"), ("entropy", True),
    ]  # fmt: skip
    for flag, value in cases:
        text = {"bad_words_ids": "[[5, 6], [7]]", "logit_bias": '{"5": -2}'}.get(flag, str(value))
        got = config(model, f"--{flag.replace('_', '-')}", *([] if value is True else [text]))
        assert getattr(got, flag) == value, flag
        assert got.greedy is (flag not in ("temperature", "top_k", "top_p", "min_p")), flag


def test_generation_is_greedy_until_sampling_is_asked_for(model: LoadedModel) -> None:
    assert config(model).greedy  # although the model's files say otherwise
    assert config(model, "--temperature", "0", "--top-p", "0.5").greedy
    drawn = config(model, samples=2)
    assert (drawn.greedy, drawn.temperature) == (False, 0.25)
    assert config(model, "--top-k", "3").temperature == 0.25


def test_stops_and_the_limit(model: LoadedModel) -> None:
    assert config(model, "--stop", "a", "--stop", "b").stop_sequences == ("a", "b")
    assert (config(model).max_new_tokens, config(model, chat=True).max_new_tokens) == (64, 512)
    assert config(model).eos_token_ids == (2, 0)


def test_help_says_what_the_options_do(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    with pytest.raises(SystemExit, match="0"):
        parser.parse_args(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--top-k N draw from the k most probable tokens" in said
    assert "--eos-token-ids" not in said
    assert "--logit-bias JSON" in said
    assert '{"regex": expression}' in said
    for python in ("None", "True", "from_kwargs", "do_sample"):  # a shell knows none of these
        assert python not in said
