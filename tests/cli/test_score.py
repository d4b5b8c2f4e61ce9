"""`lite score` on a real export."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Run
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.models import OnnxDecoder, ScoreBatches, Tokenizer, score

MODEL = MODELS / "optimum-llama"
SCORE = ["score", "--model", str(MODEL)]


def test_score_gives_the_log_prob_of_the_response(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"prompt": "hello", "response": " world"}) + "\n\n")
    out = run([*SCORE, "--raw", "--json", str(file)]).json
    tokenizer = Tokenizer.from_pretrained(MODEL)
    prompt, response = tokenizer.encode("hello"), tokenizer.encode(" world", add_special_tokens=False)
    (log_probs,) = score(OnnxDecoder(MODEL), [np.array(prompt + response)])
    assert out["tokens"] == len(response)
    np.testing.assert_allclose(out["log_prob"], log_probs[len(prompt) :].sum(), rtol=1e-5)
    told = run(
        [*SCORE, "--raw", "--json", "--logprobs", "2", str(file), "--html", str(tmp_path / "page")]
    ).json
    assert told | out == told
    best = ScoreBatches(MODEL, logprobs=2, raw=True)({"prompt": ["hello"], "response": [" world"]})
    np.testing.assert_array_equal(told["top_ids"], best["top_ids"][0])
    np.testing.assert_allclose(told["top_log_probs"], best["top_log_probs"][0], rtol=1e-5)


def test_tools_and_their_calls_are_a_part_of_the_prompt(run: Run, tmp_path: Path) -> None:
    model, file = tmp_path / "model", tmp_path / "in.jsonl"
    shutil.copytree(MODEL, model)
    (model / "chat_template.jinja").write_text("{{ tools | tojson if tools }}{{ messages | tojson }}")
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "tool", "content": "3", "tool_call_id": "c"},
    ]
    tools = [{"function": {"name": "f"}}]
    file.write_text(json.dumps({"tools": tools, "messages": turns, "response": "ho"}))
    wanted = Tokenizer.from_pretrained(model).apply_chat_template(turns, tools=tools)["input_ids"]
    assert run(["score", "--model", str(model), "--json", str(file)]).json["prompt_ids"] == wanted
    out = run(
        ["generate", "--model", str(model), "--file", str(file), "--json", "--max-new-tokens", "1"]
    ).json
    assert out["responses"][0]["prompt_ids"] == wanted


def test_score_ends_a_response_as_the_template_does(run: Run, tmp_path: Path) -> None:
    folder, file = tmp_path / "model", tmp_path / "in.jsonl"
    shutil.copytree(MODEL, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    # many a chat model keeps the end token of its base model
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": "<|endoftext|>"}))
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    file.write_text(
        json.dumps({"messages": turns}) + "\n" + json.dumps({"prompt": "hi", "response": "ho"}) + "\n"
    )
    lines = run(["score", "--model", str(folder), "--json", str(file)]).rows
    tokenizer = Tokenizer.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(turns[:1], add_generation_prompt=True)["input_ids"]
    response = tokenizer.encode("ho<|im_end|>", add_special_tokens=False)
    (log_probs,) = score(OnnxDecoder(folder), [np.array(prompt + response)])
    for line in lines:
        assert line["tokens"] == len(response)
        np.testing.assert_allclose(line["log_prob"], log_probs[len(prompt) :].sum(), rtol=1e-5)


def test_score_fails_where_a_damaged_model_gives_no_numbers(run: Run, tmp_path: Path) -> None:
    model, file, output = tmp_path / "model", tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    shutil.copytree(MODELS / "genai-llama-fp32", model)
    weights = np.fromfile(model / "model.onnx.data", np.uint8)
    at = len(weights) // 2
    weights[at : at + 16000] = np.full(4000, np.nan, np.float32).view(np.uint8)
    weights.tofile(model / "model.onnx.data")
    file.write_text(json.dumps({"prompt": "a", "response": "b"}) + "\n")
    words, why = (
        ["score", "--model", str(model), str(file)],
        "not numbers in 1 of the lines, the first is line 1",
    )
    said = run(words, 1)
    assert said.out == "line 1: log-prob nan, 2 tokens, mean nan\n"
    assert why in said.err
    for _ in range(2):  # what was written is not taken for done without a word
        assert why in run([*words, "--output", str(output)], 1).err
    assert json.loads(output.read_text())["log_prob"] is None


def test_score_says_that_there_is_nothing_to_do(run: Run, tmp_path: Path) -> None:
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("\n")
    assert run([*SCORE, "--raw", str(file)]).err.endswith(
        f"nothing to do for {file}: it has no line to score\n"
    )
    file.write_text('{"prompt": "a", "response": "b"}\n')
    for told in ("", f"nothing to do for {file}: its 1 lines are in {output}\n"):
        assert run([*SCORE, "--raw", str(file), "--output", str(output)]).err.endswith(told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_score_writes_to_devices_and_reads_none(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"prompt": "a", "response": "b"}\n')
    run([*SCORE, "--raw", str(file), "--output", "/dev/null"])
    assert "No space left" in run([*SCORE, "--raw", str(file), "--output", "/dev/full"], 1).err


def test_score_resumes_its_own_output_only(run: Run, tmp_path: Path) -> None:
    for content in ("notes\n", "notes", '{"line": 1}\nnotes\n'):
        file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        file.write_text('{"prompt": "a", "response": "b"}\n')
        output.write_text(content)
        assert "give another file" in run([*SCORE, "--raw", "--output", str(output), str(file)], 1).err
        assert output.read_text() == content, content


def test_score_says_which_line_is_wrong(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    cases = [
        ('{"prompt": "", "response": "b"}', "line 1: the prompt has no token"),
        ('{"prompt": "a", "response": ""}', "line 1: the response has no token"),
        ("[" * 100_000, "line 1: not JSON"),
        ("{", f"{file}, line 1: not JSON"),
        ("[1]", f"{file}, line 1: expected"),
        ('{"prompt": 3}', f"{file}, line 1: expected an object"),
        ('{"prompt": "\\ud800", "response": "b"}', "text must be valid Unicode"),
        ('{"prompt": 1, "response": "b"}', "got {'prompt': 1, 'response': 'b'}"),
        ('{"messages": []}', "line 1: expected an object"),
    ]
    for line, message in cases:
        file.write_text(line + "\n")
        err = run([*SCORE, "--raw", str(file)], 1).err
        assert message in err, line
        assert len(err.splitlines()) == 1, line
    file.write_bytes(b"\xff\xfe")
    assert f"{file} is not text in UTF-8" in run([*SCORE, str(file)], 1).err


def test_score_takes_what_it_needs_from_a_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('\ufeff{"prompt": "a", "response": "b", "line": "x", "messages": []}\n', encoding="utf-8")
    assert json.loads(run([*SCORE, "--raw", "--json", str(file)]).out)["line"] == 1


def test_long_prompts_lose_their_first_tokens(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"prompt": "word " * 400, "response": "b"}) + "\n")
    assert "line 1: ids: a prompt of " in run([*SCORE, str(file)], 1).err
    row = json.loads(run([*SCORE, str(file), "--json", "--truncate-prompt-tokens", "-1"]).out)
    assert len(row["prompt_ids"]) + len(row["response_ids"]) == 257  # the last is not read


def test_score_reads_the_names_of_trl(run: Run, tmp_path: Path) -> None:
    files = [tmp_path / "own.jsonl", tmp_path / "trl.jsonl"]
    user, said = ({"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b")))
    own = [{"prompt": "a", "response": "b"}, {"messages": [user, said]}]
    trl = [{"prompt": "a", "completion": "b"}, {"prompt": [user], "completion": [said]}]
    found = []
    for file, rows in zip(files, (own, trl), strict=True):
        file.write_text("\n".join(map(json.dumps, rows)))
        lines = run([*SCORE, "--json", str(file)]).out.splitlines()
        found.append([json.loads(line)["logprobs"] for line in lines])
    assert found[0] == found[1]


CHANGES: list[tuple[list[str], dict[str, object] | None, str]] = [
    ([], {}, ""),
    (["--batch-size", "1", "--threads", "1"], {}, ""),  # no row shows them
    (["--raw"], {}, "raw was false and is true."),
    (["--logprobs", "2"], {}, "logprobs was not given and is 2."),
    (["--model", str(MODELS / "genai-llama-fp32")], {}, "model was {"),
    (["--adapter", str(MODELS / "handmade-lora" / "casual.onnx_adapter")], {}, "adapter was not given and"),
    ([], {"response": "C"}, 'line 2: response is "c", and "C" in the input'),
    ([], {"id": 4}, "line 2: id is 3, and 4 in the input"),
    ([], {"prompt": None, "messages": [{"role": "user", "content": "a"}]}, "line 2: messages is null, and"),
    ([], None, "line 2: the input has 1 rows"),
]


@pytest.mark.depth
def test_score_goes_on_behind_what_the_same_command_wrote(capsys, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    first, second = {"prompt": "a", "response": "b"}, {"id": 3, "prompt": "a", "response": "c"}
    file.write_text("\n".join(map(json.dumps, [first, second])))
    command = [*SCORE, str(file), "--output", str(output)]
    assert main(command) == 0
    whole = output.read_bytes()
    for flags, change, message in CHANGES:
        output.write_bytes(whole)
        rows = [first] if change is None else [first, second | change]
        file.write_text(
            "\n".join(
                map(json.dumps, [*rows, {"prompt": "a", "response": "d"}][: 1 if change is None else 3])
            )
        )
        assert main([*command, *flags]) == bool(message), flags
        assert message in capsys.readouterr().err, flags
        assert output.read_bytes()[: len(whole)] == whole, flags
        assert (output.read_bytes() == whole) == bool(message), flags


def test_score_takes_ids_before_texts(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    encode = Tokenizer.from_pretrained(MODEL).encode
    prompt, response = encode("hello"), encode(" wide world", add_special_tokens=False)
    turns, ids = [{"role": "user", "content": "x"}], {"prompt_ids": prompt, "response_ids": response}
    rows = [
        ids,
        {**ids, "prompt": "y", "response": " wide"},  # a stop text was left out
        {**ids, "messages": turns, "response": " wide world"},
        {**ids, "response_ids": [], "response": ""},
        {"messages": turns, "response": "ho"},
        {"messages": [*turns, {"role": "assistant", "content": "ho"}]},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    out = run([*SCORE, "--json", str(file)]).rows
    (expected,) = score(OnnxDecoder(MODEL), [np.array(prompt + response)])
    for row in out[:3]:
        np.testing.assert_allclose(row["logprobs"], expected[len(prompt) :], atol=1e-5)
    assert (out[3]["logprobs"], out[3]["log_prob"], out[3]["tokens"]) == ([], 0.0, 0)
    assert out[4]["response_ids"] == out[5]["response_ids"]
    np.testing.assert_allclose(out[4]["logprobs"], out[5]["logprobs"], atol=1e-5)
    for row, message in (
        ({**ids, "response": "other"}, "line 1: its token ids are not those of this model's tokenizer"),
        ({**ids, "response_ids": [10**9], "response": "other"}, "line 1: its token ids are not those"),
        ({**ids, "response_ids": [1.5]}, "line 1: 'response_ids' must be a list of integers, got [1.5]"),
        ({"messages": turns}, "line 1: messages must end with an assistant's turn, or have a 'response'"),
        (
            {**rows[5], "response": "he"},
            "line 1: messages end with an assistant's turn, and 'response' is another",
        ),
    ):
        file.write_text(json.dumps(row))
        assert message in run([*SCORE, str(file)], 1).err


def test_json_is_utf_8_whatever_the_system_has(run: Run, tmp_path: Path, monkeypatch) -> None:
    """Texts of a pipe are cp1252 on Windows."""
    line = json.dumps({"prompt": "ü", "response": "é"}, ensure_ascii=False)
    (tmp_path / "x.jsonl").write_text(line, encoding="utf-8")
    piped = io.TextIOWrapper(io.BytesIO(line.encode()), encoding="cp1252")
    monkeypatch.setattr("sys.stdin", piped)
    assert run(["score", "-", "--json"]).out == run(["score", str(tmp_path / "x.jsonl"), "--json"]).out


def test_what_generate_prints_as_json_is_scored(tmp_path: Path, run: Run) -> None:
    argv = ["--quiet", "--model", str(MODELS / "optimum-llama")]
    generate = ["generate", "--json", "--samples", "2", "--max-new-tokens", "3", "Hi", "Ho", *argv]
    (tmp_path / "r.json").write_text(run(generate).out)
    given = json.loads((tmp_path / "r.json").read_text())["responses"]
    scored = run(["score", "--json", str(tmp_path / "r.json"), *argv]).rows
    assert [row["line"] for row in scored] == [1, 2, 3, 4]
    for row, before in zip(scored, given, strict=True):
        assert (row["prompt"], row["response_ids"]) == (before["prompt"], before["response_ids"])
        assert abs(row["log_prob"] - before["log_prob"]) < 1e-4
    (tmp_path / "r.json").write_text('{"responses": [{"prompt": "a", "response": "b"}, 7]}')
    assert "line 2: expected an object" in run(["score", str(tmp_path / "r.json"), *argv], 1).err
