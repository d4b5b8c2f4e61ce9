"""`lite generate` on a real export."""

import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import MODELS, folder_of_two

from lite.cli import main
from lite.models import GenerationConfig, OnnxDecoder, Tokenizer, generate

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
MODEL = MODELS / "optimum-llama"


def test_generate_is_the_greedy_continuation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "--raw", "hello", "--max-new-tokens", "6", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    decoder, tokenizer = OnnxDecoder(MODEL), Tokenizer.from_pretrained(MODEL)
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "temperature": 0}, decoder.config)
    (expected,) = generate(decoder, [tokenizer.encode("hello")], config)
    assert out["responses"][0]["response"] == tokenizer.decode(expected.tokens, skip_special_tokens=True)
    assert out["tokens"] == len(expected.tokens)
    np.testing.assert_allclose(out["responses"][0]["log_prob"], expected.log_probs.sum(), rtol=1e-5)
    np.testing.assert_allclose(out["tokens_per_second"] * out["seconds"], out["tokens"])


def test_generate_prints_text_count_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "hello", "--max-new-tokens", "3"]) == 0
    out, err = capsys.readouterr()
    assert "3 tokens in " in err
    assert "tokens/s" not in out  # which holds the text alone
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize("flags", [[], ["--json"], ["--output"]])
def test_responses_are_counted_where_a_terminal_does_not_show_them(
    flags: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    given = [*flags, str(tmp_path / "rows.jsonl")] if flags == ["--output"] else flags
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    command = ["generate", "--model", str(MODEL), "--max-new-tokens", "2"]
    assert main([*command, *given, "hello"]) == 0
    out, err = capsys.readouterr()
    assert ("1 of 1 responses" in err) is bool(flags)
    assert bool(out) is (flags != ["--output"])
    assert flags != ["--json"] or json.loads(out)["tokens"] == 2


def test_samples_follow_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "hi", "--temperature", "1", "--samples", "3", "--json"]
    texts = []
    for seed in ("1", "1", "2"):
        assert main([*command, "--max-new-tokens", "5", "--seed", seed]) == 0
        texts.append([r["response"] for r in json.loads(capsys.readouterr().out)["responses"]])
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert len(set(texts[0])) > 1


def test_a_stream_prints_what_comes_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "hello", "--max-new-tokens", "20", "--temperature", "1.5"]
    outputs = []
    for flag in ("--stream", "--no-stream"):
        assert main([*command, flag]) == 0
        outputs.append(capsys.readouterr())
    assert outputs[0].out == outputs[1].out
    assert "20 tokens in " in outputs[0].err


@pytest.mark.parametrize("flags", [["--json", "a"], ["a", "b"], ["a", "--samples", "2"]])
def test_only_one_text_can_be_a_stream(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "--stream", *flags]) == 2
    assert "--stream prints one response as text" in capsys.readouterr().err


def test_prompts_of_files_come_in_batches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    words = ["one", "two words", "three", "four", "five"]
    file.write_text("".join(json.dumps({"prompt": word}) + "\n" for word in words))
    command = ["generate", "--model", str(MODEL), "--json", "--max-new-tokens", "5", "--samples", "2"]
    outputs = []
    for given in (["--file", str(file), "--batch-size", "2"], words):
        assert main([*command, *given]) == 0
        outputs.append(json.loads(capsys.readouterr().out)["responses"])
    assert [r["prompt"] for r in outputs[0]] == [word for word in words for _ in range(2)]
    assert [r["response"] for r in outputs[0]] == [
        r["response"] for r in outputs[1]
    ]  # a seed each, whatever the batch


def test_the_tokens_of_a_variant_and_of_an_adapter(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, adapter = folder_of_two(tmp_path), MODELS / "handmade-lora" / "casual.onnx_adapter"
    config = GenerationConfig(max_new_tokens=6, do_sample=False)
    ids = Tokenizer.from_pretrained(folder).encode("hello")
    seen = []
    for flags, options in (
        ([], {}),
        (["--variant", "int4"], {"variant": "int4"}),
        (["--adapter", str(adapter)], {"adapters": {"x": adapter}}),
    ):
        command = ["generate", "--model", str(folder), "--raw", "hello", "--max-new-tokens", "6", "--json"]
        assert main([*command, *flags]) == 0
        (said,) = json.loads(capsys.readouterr().out)["responses"]
        decoder = OnnxDecoder(folder, **options)  # type: ignore[arg-type]
        decoder.adapter = next(iter(decoder.adapters), None)
        (expected,) = generate(decoder, [ids], config)
        np.testing.assert_allclose(said["log_prob"], expected.log_probs.sum(), rtol=1e-5)
        seen.append(said["log_prob"])
    assert len(set(seen)) == 3


def test_a_stop_text_ends_a_response(capsys: pytest.CaptureFixture[str]) -> None:
    sampling = ["--max-new-tokens", "20", "--temperature", "1"]
    command = ["generate", "--model", str(MODEL), "--json", "hello", *sampling]
    assert main(command) == 0
    (whole,) = json.loads(capsys.readouterr().out)["responses"]
    assert main([*command, "--stop", whole["response"][5:7]]) == 0
    (cut,) = json.loads(capsys.readouterr().out)["responses"]
    assert cut["finish_reason"] == "stop"
    assert cut["tokens"] < whole["tokens"]
    assert whole["response"].startswith(cut["response"])


def test_threads_change_nothing_but_speed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "--json", "hello", "--max-new-tokens", "5"]
    texts = []
    for flags in ([], ["--threads", "1"]):
        assert main([*command, *flags]) == 0
        texts.append(json.loads(capsys.readouterr().out)["responses"][0]["response"])
    assert texts[0] == texts[1]


def test_flags_that_ask_for_tokens_put_them_into_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["generate", "--model", str(MODEL), "hello", "--max-new-tokens", "5", "--samples", "2"]
    details = ["--top-k", "3", "--entropy", "--kept-ids", "--logprobs", "2", "--sampled-log-probs"]
    assert main([*command, "--top-k", "3", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert not {"entropy", "top_ids", "kept_ids", "sampled_log_probs"} & set(plain["responses"][0])
    assert main([*command, *details, "--json"]) == 0
    printed = capsys.readouterr().out
    for with_more, without in zip(json.loads(printed)["responses"], plain["responses"], strict=True):
        assert with_more["response"] == without["response"]
        np.testing.assert_allclose(sum(with_more["logprobs"]), without["log_prob"], rtol=1e-5)
        assert len(with_more["response_ids"]) == len(with_more["entropy"]) == (count := with_more["tokens"])
        assert np.shape(with_more["top_ids"]) == np.shape(with_more["top_log_probs"]) == (count, 2)
        assert with_more["kept_offsets"] == list(range(0, 3 * count + 1, 3))
        tokenizer = Tokenizer.from_pretrained(MODEL)
        assert tokenizer.decode(with_more["response_ids"], skip_special_tokens=True) == with_more["response"]
    assert main([*command, *details]) == 2
    assert "are given with --json or --output only" in capsys.readouterr().err
    (tmp_path / "log.json").write_text(printed)  # and `lite mismatch` reads it
    assert main(["mismatch", str(MODEL), str(tmp_path / "log.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    tokens = sum(response["tokens"] for response in plain["responses"])
    assert (found["rows"], found["tokens"], found["cause"]) == (2, tokens, None)


def test_beams_have_a_score_and_no_stream(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "hello", "--max-new-tokens", "4", "--num-beams", "3"]
    assert main([*command, "--samples", "2", "--json"]) == 0
    best, second = json.loads(capsys.readouterr().out)["responses"]
    assert best["score"] > second["score"]
    for flags, message in (
        (["--stream"], "--stream does not go with --num-beams"),
        (["--samples", "4"], "at most num_beams"),
        (["--chat"], "a chat does not go with --num-beams"),
    ):
        assert main([*command, *flags]) == 2
        assert message in capsys.readouterr().err


def test_a_grammar_is_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llguidance", reason="needs the grammar extra")
    command = ["generate", "--model", str(MODEL), "hello", "--json"]
    assert main([*command, "--grammar", '{"regex": "yes|no"}']) == 0
    assert json.loads(capsys.readouterr().out)["responses"][0]["response"] in ("yes", "no")
    assert main([*command, "--grammar", "yes|no"]) == 2
    assert "grammar must be {'json': schema}" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--prompt-lookup-num-tokens", "4"], ["--assistant-model", str(MODEL)]])
def test_guesses_change_nothing(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "hello", "--temperature", "1", "--max-new-tokens", "12"]
    outputs = []
    for more in ([], flags, ["--stream", *flags]):
        assert main([*command, *more]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_prompt_that_does_not_fit_is_named_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "prompts"
    file.write_text("a\nb\n" + "word " * 400)
    assert main(["generate", "--model", str(MODEL), "--file", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "prompt 3: ids: a prompt of " in err
    assert out == ""


def test_a_run_goes_on_where_it_was_cut(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prompts, output = tmp_path / "prompts.txt", tmp_path / "out.jsonl"
    prompts.write_text("one\ntwo words\nthree\n", encoding="utf-8")
    command = ["generate", "--model", str(MODEL), "--file", str(prompts), "--samples", "2"]
    command += ["--temperature", "1", "--max-new-tokens", "4", "--batch-size", "2", "--output", str(output)]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "tokens/s" in said.err
    whole = output.read_bytes()
    records = [json.loads(line) for line in whole.splitlines()]
    assert "seed" in records[0].pop("run")
    assert [(record["line"], record["sample"]) for record in records] == [
        (line, sample) for line in (1, 2, 3) for sample in (0, 1)
    ]
    assert [record["prompt"] for record in records[::2]] == ["one", "two words", "three"]
    assert len({record["response"] for record in records}) > 3
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in (0, 5, ends[0], ends[1], ends[2] + 20, len(whole) - 1):
        output.write_bytes(whole[:cut])
        assert main(command) == 0
        assert output.read_bytes() == whole, cut
    capsys.readouterr()
    output.write_bytes(whole[: ends[2]])
    for told in ("3 tokens", "nothing to do: all 6 responses are in"):  # JSON has the rows of before, too
        assert main([*command, "--json"]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["responses"] == records, told
    assert told in said.err
    assert output.read_bytes() == whole


def test_an_interrupt_leaves_whole_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.jsonl"
    command = ["generate", "--model", str(MODEL), "one", "two", "three", "--max-new-tokens", "3"]
    command += ["--output", str(output)]
    assert main(command) == 0
    whole = output.read_bytes()
    output.unlink()
    module = sys.modules["lite.cli.generate"]
    replies = module._replies

    def interrupted(*given: Any) -> Iterator[Any]:
        yield from islice(replies(*given), 2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_replies", interrupted)
        assert main(command) == 130
    assert "2 lines are in" in capsys.readouterr().err
    assert output.read_bytes() == b"".join(whole.splitlines(keepends=True)[:2])
    assert main(command) == 0
    assert output.read_bytes() == whole


def test_another_file_is_left_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    command = ["generate", "--model", str(MODEL), "--max-new-tokens", "2", "--output", str(output)]
    assert main([*command, "one", "two"]) == 0
    whole = output.read_bytes()
    for other, said in (
        (
            ["one", "other"],
            f'{output}, line 2: prompt is "two", and "other" in the input: give another file.',
        ),
        (["one"], "line 2: the input has 1 rows"),
        (["one", "two", "--samples", "2"], "was made otherwise: samples was 1 and is 2; "),
        (["one", "two", "--seed", "7"], "seed was 0 and is 7."),
        (
            ["one", "two", "--raw", "--system", "x"],
            'raw was false and is true; system was not given and is "x".',
        ),
        (["one", "two", "--temperature", "0.5"], "temperature was not given and is 0.5"),
        (["one", "two", "--model", str(MODELS / "genai-llama-fp32")], "model was {"),
    ):
        assert main([*command, *other]) == 1
        assert said in capsys.readouterr().err
        assert output.read_bytes() == whole
    for wrong, said in (
        (tmp_path / "none" / "out.jsonl", "--output .*: there is no folder .*none"),
        (tmp_path, "--output .* is a folder"),
    ):
        assert main([*command[:-1], str(wrong), "one"]) == 1
        err = capsys.readouterr().err
        assert re.search(said, err)
    assert main([*command, "--file", str(output)]) == 1
    assert "is another file of this command" in capsys.readouterr().err
    output.write_text("notes of my own\n")
    assert main([*command, "one"]) == 1
    assert "that `lite generate` did not write: give another file" in capsys.readouterr().err
    assert output.read_text() == "notes of my own\n"
    assert main([*command, "one", "--stream"]) == 2
    assert "--output writes each response as JSON, and --stream prints it" in capsys.readouterr().err
