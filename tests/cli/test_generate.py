"""`lite generate` on a real export."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Run
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.models import GenerationConfig, OnnxDecoder, Tokenizer, generate

MODEL = MODELS / "optimum-llama"
GENERATE = ["generate", "--model", str(MODEL)]


def test_generate_is_the_greedy_continuation(run: Run) -> None:
    out = run([*GENERATE, "--raw", "hello", "--max-new-tokens", "6", "--json"]).json
    decoder, tokenizer = OnnxDecoder(MODEL), Tokenizer.from_pretrained(MODEL)
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "temperature": 0}, decoder.config)
    (expected,) = generate(decoder, [tokenizer.encode("hello")], config)
    assert out["responses"][0]["response"] == tokenizer.decode(expected.tokens, skip_special_tokens=True)
    assert out["tokens"] == len(expected.tokens)
    np.testing.assert_allclose(out["responses"][0]["log_prob"], expected.log_probs.sum(), rtol=1e-5)
    np.testing.assert_allclose(out["tokens_per_second"] * out["seconds"], out["tokens"])


def test_generate_prints_text_count_and_speed(run: Run) -> None:
    out, err = run([*GENERATE, "hello", "--max-new-tokens", "3"])
    assert "3 tokens in " in err
    assert "tokens/s" not in out  # which holds the text alone
    assert len(out.splitlines()) == 1


def test_responses_are_counted_where_a_terminal_does_not_show_them(run, monkeypatch, tmp_path):
    cases: list[list[str]] = [[], ["--json"], ["--output"]]
    for flags in cases:
        given = [*flags, str(tmp_path / "rows.jsonl")] if flags == ["--output"] else flags
        for stream in ("stdout", "stderr"):
            monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
        command = [*GENERATE, "--max-new-tokens", "2"]
        out, err = run([*command, *given, "hello"])
        assert ("1 of 1 responses" in err) is bool(flags), flags
        assert bool(out) is (flags != ["--output"]), flags
        assert flags != ["--json"] or json.loads(out)["tokens"] == 2, flags


def test_only_one_text_can_be_a_stream(run: Run) -> None:
    cases: list[list[str]] = [["--json", "a"], ["a", "b"], ["a", "--samples", "2"]]
    for flags in cases:
        assert "--stream prints one response as text" in run([*GENERATE, "--stream", *flags], 2).err, flags


def test_prompts_of_files_come_in_batches(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    words = ["one", "two words", "three", "four", "five"]
    file.write_text("".join(json.dumps({"prompt": word}) + "\n" for word in words))
    command = [*GENERATE, "--json", "--max-new-tokens", "5", "--samples", "2"]
    outputs = []
    for given in (["--file", str(file), "--batch-size", "2"], words):
        outputs.append(run([*command, *given]).json["responses"])
    assert [r["prompt"] for r in outputs[0]] == [word for word in words for _ in range(2)]
    # a seed each, whatever the batch
    assert [r["response"] for r in outputs[0]] == [r["response"] for r in outputs[1]]


def test_flags_that_ask_for_tokens_put_them_into_json(run: Run, tmp_path: Path) -> None:
    command = [*GENERATE, "hello", "--max-new-tokens", "5", "--samples", "2"]
    details = ["--top-k", "3", "--entropy", "--kept-ids", "--logprobs", "2", "--sampled-log-probs"]
    plain = run([*command, "--top-k", "3", "--json"]).json
    assert not {"entropy", "top_ids", "kept_ids", "sampled_log_probs"} & set(plain["responses"][0])
    printed = run([*command, *details, "--json"]).out
    for with_more, without in zip(json.loads(printed)["responses"], plain["responses"], strict=True):
        assert with_more["response"] == without["response"]
        np.testing.assert_allclose(sum(with_more["logprobs"]), without["log_prob"], rtol=1e-5)
        assert len(with_more["response_ids"]) == len(with_more["entropy"]) == (count := with_more["tokens"])
        assert np.shape(with_more["top_ids"]) == np.shape(with_more["top_log_probs"]) == (count, 2)
        assert with_more["kept_offsets"] == list(range(0, 3 * count + 1, 3))
        tokenizer = Tokenizer.from_pretrained(MODEL)
        assert tokenizer.decode(with_more["response_ids"], skip_special_tokens=True) == with_more["response"]
    assert "are given with --json or --output only" in run([*command, *details], 2).err
    (tmp_path / "log.json").write_text(printed)  # and `lite mismatch` reads it
    found = run(["mismatch", str(MODEL), str(tmp_path / "log.json"), "--json"]).json
    tokens = sum(response["tokens"] for response in plain["responses"])
    assert (found["rows"], found["tokens"], found["cause"]) == (2, tokens, None)


def test_beams_have_a_score_and_no_stream(run: Run) -> None:
    command = [*GENERATE, "hello", "--max-new-tokens", "4", "--num-beams", "3"]
    best, second = run([*command, "--samples", "2", "--json"]).json["responses"]
    assert best["score"] > second["score"]
    for flags, message in (
        (["--stream"], "--stream does not go with --num-beams"),
        (["--samples", "4"], "at most num_beams"),
        (["--chat"], "a chat does not go with --num-beams"),
    ):
        assert message in run([*command, *flags], 2).err


def test_a_grammar_is_obeyed(run: Run) -> None:
    command = [*GENERATE, "hello", "--json"]
    assert run([*command, "--grammar", '{"regex": "yes|no"}']).json["responses"][0]["response"] in (
        "yes",
        "no",
    )
    assert "grammar must be {'json': schema}" in run([*command, "--grammar", "yes|no"], 2).err


def test_guesses_change_nothing(run: Run) -> None:
    command = [*GENERATE, "hello", "--temperature", "1", "--max-new-tokens", "12"]
    outputs = []
    flags = ["--prompt-lookup-num-tokens", "4"]
    for more in ([], ["--assistant-model", str(MODEL)], ["--stream", *flags]):
        outputs.append(run([*command, *more]).out)
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_prompt_that_does_not_fit_is_named_before_anything_runs(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    content = [{"type": "text", "text": "a"}, {"type": "image"}]
    parts = {"messages": [{"role": "user", "content": content}]}
    cases = [
        ("a\nb\n" + "word " * 400, 3, "ids: a prompt of "),
        (json.dumps(parts), 1, "the chat template failed"),
    ]
    for text, number, said in cases:
        file.write_text(text)
        out, err = run([*GENERATE, "--file", str(file)], 1)
        assert f"prompt {number}: {said}" in err
        assert out == ""
    file.write_text("word " * 400 + "\nb\n")
    kept = ["--truncate-prompt-tokens", "-1", "--max-new-tokens", "9"]
    rows = [*GENERATE, "--file", str(file), "--output", str(tmp_path / "out"), *kept]
    run(rows)
    made = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [len(row["prompt_ids"]) == 247 for row in made] == [True, False]
    assert made[0]["run"]["truncate_prompt_tokens"] == -1
    assert "truncate_prompt_tokens" in run([*rows, "--truncate-prompt-tokens", "4"], 1).err  # another run
    # The judge has room for all of it, and says the same.
    scored = json.loads(
        run(["score", "--model", str(MODEL), "--json", str(tmp_path / "out")]).out.splitlines()[0]
    )
    assert scored["logprobs"] == pytest.approx(made[0]["logprobs"], abs=1e-4)


@pytest.mark.processes
def test_a_run_goes_on_where_it_was_cut(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prompts, output = tmp_path / "prompts.txt", tmp_path / "out.jsonl"
    prompts.write_text("one\ntwo words\nthree\n", encoding="utf-8")
    command = [*GENERATE, "--file", str(prompts), "--samples", "2"]
    command += ["--temperature", "1", "--max-new-tokens", "4", "--batch-size", "2", "--output", str(output)]
    said = run(command)
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
        said = run([*command, "--json"])
        assert json.loads(said.out)["responses"] == records, told
    assert told in said.err
    assert output.read_bytes() == whole


def test_rows_keep_the_columns_of_their_prompt(run: Run, tmp_path: Path) -> None:
    """From `lite generate` through `lite score`, and a run that goes on knows them again."""
    prompts, drawn, scored = (tmp_path / name for name in ("prompts.jsonl", "drawn.jsonl", "scored.jsonl"))
    own = {"answer": [7], "weight": float("nan"), "line": "x", "run": 1, "tokens": "many"}
    prompts.write_text(f"{json.dumps({'prompt': 'one'} | own)}\n{json.dumps({'prompt': 'two'})}\n")
    command = [*GENERATE, "--file", str(prompts), "--max-new-tokens", "2", "--output", str(drawn)]
    assert main(command) == 0
    assert json.loads(run([*command, "--json"]).out)["load_seconds"] == 0  # nothing is left to do
    score = ["score", "--model", str(MODEL), str(drawn), "--output", str(scored)]
    assert main(score) == main(score) == 0
    said = {drawn: "generate", scored: "score"}
    for file in said:
        first, second = map(json.loads, file.read_text().splitlines())
        assert (first["answer"], str(first["weight"]), first["line"]) == ([7], "nan", 1), file
        assert (first["run"]["command"], first["tokens"]) == (said[file], 2)
        assert not {"answer", "weight"} & second.keys(), file
    prompts.write_text(f"{json.dumps({'prompt': 'one'} | own | {'answer': 8})}\n")
    assert "line 1: answer is [7], and 8 in the input" in run(command, 1).err


def test_another_file_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    command = [*GENERATE, "--max-new-tokens", "2", "--output", str(output)]
    assert main([*command, "one", "two"]) == 0
    whole = output.read_bytes()
    for other, said in (
        (["one", "other"],
            f'{output}, line 2: prompt is "two", and "other" in the input: give another file.'),
        (["one"], "line 2: the input has 1 rows"),
        (["one", "two", "--samples", "2"], "was made otherwise: samples was 1 and is 2; "),
        (["one", "two", "--seed", "7"], "seed was 0 and is 7."),
        (["one", "two", "--raw", "--system", "x"],
            'raw was false and is true; system was not given and is "x".'),
        (["one", "two", "--temperature", "0.5"], "temperature was not given and is 0.5"),
        (["one", "two", "--model", str(MODELS / "genai-llama-fp32")], "model was {"),
    ):  # fmt: skip
        assert said in run([*command, *other], 1).err
        assert output.read_bytes() == whole
    for wrong, said in (
        (tmp_path / "none" / "out.jsonl", "--output .*: there is no folder .*none"),
        (tmp_path, "--output .* is a folder"),
    ):
        err = run([*command[:-1], str(wrong), "one"], 1).err
        assert re.search(said, err)
    assert "is another file of this command" in run([*command, "--file", str(output)], 1).err
    output.write_text("notes of my own\n")
    assert "that `lite generate` did not write: give another file" in run([*command, "one"], 1).err
    assert output.read_text() == "notes of my own\n"
    assert (
        "--output writes each response as JSON, and --stream prints it"
        in run([*command, "one", "--stream"], 2).err
    )
