"""Commands run as printed: every line of a README that is typed into a shell is run, here or by `.ci/run`.

What neither can run is listed below with the reason; a line that is new has to go to one of the three.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.readme_blocks import blocks

ROOT = Path(__file__).parents[1]
READMES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *ROOT.glob("*/README.md"),
        *ROOT.glob("lite/*/README.md"),
        *ROOT.glob("lite/guides/*/*.md"),
        ROOT / "README.md",
    ]
    # Two folders in lite are links to the top ones; the first pages have a program of their own.
    if not path.parent.is_symlink() and path.parent.name != "start"
)

# How a command begins that is run neither here nor by `.ci/run`, and why.
ELSEWHERE = {
    "python bench/": "takes minutes; tests/test_bench_catalogue.py reads these scripts",
    "lite bench --peers": "takes minutes; tests/cli/test_bench.py times a case",
    "lite warmup": "compiles all kernels for minutes; tests/cli/test_warmup.py",
    "lite footprint": "measures for a minute, in fresh processes; tests/cli/test_footprint.py",
    "lite generate --file prompts.txt": "tests/cli/test_generate.py",
    "lite score drawn.jsonl": "scores what `lite generate` wrote; tests/cli/test_score.py",
    "lite mismatch DIR drawn.jsonl": "reads what `lite generate` wrote; tests/cli/test_generate.py",
    "lite chat": "holds a conversation; tests/cli/test_chat.py",
    "lite generate --device cuda": "needs a GPU",
    "lite info --device cuda": "needs a GPU",
    "lite generate --file prompts.jsonl": "needs a cluster of Ray; tests/cli/test_on_ray.py starts one",
    "lite score rows.jsonl --model DIR --output scores.jsonl --ray": "starts Ray; tests/cli/test_on_ray.py",
    "ray ": "makes a cluster of several machines",
    "export RAY_AUTH_MODE": "is for several machines",
    'python -c "from numba import cuda': "needs a GPU",
    "pytest -rs tests/kernels/cuda": "needs a GPU",
    'pip install . "numba-cuda[cu12]"': "is for a GPU; `.ci/run` installs it with the tests",
    'pip install ".[llm,cuda]"': "is for a GPU",
    'pip install -e ".[test,bench,llm,cuda]"': "is for a GPU",
    'pip install -e ".[bench': "is for the scripts of bench/",
    "pip install onnxruntime-genai": "brings an exporter, some gigabytes",
    "pip install optimum-onnx": "brings an exporter, some gigabytes",
    "pip install transformers": "brings an exporter, some gigabytes",
    "python -m onnxruntime_genai.models.builder": "is an exporter, and gets a model from the network",
    "optimum-cli": "is an exporter, and gets a model from the network",
    "python tests/examples/export_llm.py": "gets a model; tests/parity/test_export_llm.py",
    "python -m lite.kernels.prebuild --target armv8": "wants a compiler for ARM64; bench/arm64.py",
    "python -m lite.kernels.prebuild": "compiles for minutes; `.ci/run` compiles for one level",
    "LITE_KERNELS_PATH=DIR": "runs the reader's program",
    "pip install dist/*linux*.whl": "is the small installation of the top README, with NumPy from an index",
    "pip download --no-deps -d bundle --only-binary": "gets packages for another processor",
    "python3 -m venv /opt/robot": "is the place of one's own machine",
    ". /opt/robot/bin/activate": "is the place of one's own machine",
    "scp ": "copies to one's own machine",
    "ssh ": "works on one's own machine",
    "python -m http.server": "does not end; tests/test_browser.py opens the page",
    "pip wheel --no-deps -w bundle": "is `-w dist` of the top README; `.ci/run` copies that wheel",
    "pip wheel --no-deps -w site": "tests/test_browser.py opens the page",
    "cp tests/examples/n_step_returns.html": "tests/test_browser.py opens the page",
}


class Line(NamedTuple):
    """What is typed: `&&` and comments part commands."""

    document: str
    command: str


def typed(document: str) -> list[Line]:
    """The commands in the blocks of a document that name no language."""
    found = []
    for block in blocks(document):
        for line in "" if block.language else block.source.replace("\\\n", " ").splitlines():
            for part in line.partition(" # ")[0].split(" && "):
                command = " ".join(part.split())
                if command and not command.startswith("#"):
                    found.append(Line(document, command))
    return found


EVERY = [line for document in READMES for line in typed(document)]
# `.ci/first_pages` runs each of these pages from top to bottom, commands and Python, in a fresh environment.
IN_GUIDES = [
    line
    for path in sorted(ROOT.glob("lite/guides/start/*.md"))
    for line in typed(path.relative_to(ROOT).as_posix())
]
IN_CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace('"$work"/', "")
IN_CI = re.sub(r"(?<=pip )(install|wheel|download) -q", r"\1", IN_CI)
HERE = [
    line
    for line in EVERY
    if line.command.startswith(("lite ", 'python -c "import lite'))
    and not any(line.command.startswith(beginning) for beginning in ELSEWHERE)
    and line.command != "lite demo"  # `.ci/run` runs it, as installed
]


def test_every_command_is_run_or_has_its_reason() -> None:
    unknown = [
        line
        for line in EVERY
        if line not in HERE
        and not any(line.command.startswith(beginning) for beginning in ELSEWHERE)
        and line.command not in IN_CI
    ]
    assert not unknown, "run these here or in .ci/run, or say in ELSEWHERE why not"
    assert len(HERE) > 12


def test_pages_of_ten_minutes_are_run_in_ci() -> None:
    assert ".ci/first_pages\n" in (ROOT / ".ci" / "release").read_text(encoding="utf-8")
    assert {line.document for line in IN_GUIDES if line.command.startswith("pip install ")} == {
        line.document for line in IN_GUIDES
    }
    assert len(IN_GUIDES) > 8


def test_what_is_listed_is_still_typed() -> None:
    """In a block, or in a table of commands."""
    text = "\n".join((ROOT / document).read_text(encoding="utf-8") for document in READMES)
    commands = [line.command for line in EVERY] + re.findall(r"`([^`\n]+)`", text)
    unused = [b for b in ELSEWHERE if not any(command.startswith(b) for command in commands)]
    assert not unused


def test_options_are_those_of_the_program() -> None:
    from lite.cli.main import build_parser

    parser = build_parser()
    for line in EVERY + IN_GUIDES:
        if line.command.startswith("lite "):
            try:
                parser.parse_args(shlex.split(line.command)[1:])
            except SystemExit:
                pytest.fail(f"{line.document}: {line.command}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models and files that commands name, as the READMEs say they are."""
    from lite.models import embedded_model_path

    made = tmp_path_factory.mktemp("commands")
    for name in ("DIR", "OTHER_DIR"):
        shutil.copytree(embedded_model_path(), made / name)
    shutil.copy(made / "DIR" / "model.onnx", made / "DIR" / "model_q4.onnx")
    rows = [
        {"prompt": "What is 12 + 30?", "response": "42"},
        {"prompt": "Copy: sun sea", "response": "sun sea"},
    ]
    logged = [{"prompt_ids": [10, 11, 12], "response_ids": [20, 21], "logprobs": [-0.5, -1.25]}]
    backwards = {"prompt": "Write backwards: dog moon tree", "answer": "tree moon dog"}
    turns = [{"role": "user", "content": "dog moon"}, {"role": "assistant", "content": "moon dog"}]
    pair = {"prompt": "Write backwards: dog moon", "chosen": "moon dog", "rejected": "dog moon"}
    files = {"file": rows, "rows": rows, "rollouts": logged, "trainer": logged}
    files |= dict.fromkeys(("prompts", "held_out", "more"), [backwards] * 3)
    files |= {"chats": [{"messages": turns}] * 3, "pairs": [pair] * 3}
    for name, records in files.items():
        text = "".join(json.dumps(record) + "\n" for record in records)
        (made / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (made / "mine.py").write_text("def score(response, row):\n    return float(len(response))\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        learn(["lite", "learn", "prompts.jsonl", "--output", "learnt"])
    return made


def learn(words: list[str]) -> int:
    """The command, of one step; what another one has learnt is not in the way."""
    from lite.cli.main import main

    output = Path(words[words.index("--output") + 1])
    if output.exists() and not any(word.startswith(f"{output}/") for word in words):
        shutil.rmtree(output)
    return main([*words[1:], "--steps", "1"])


@pytest.mark.processes
@pytest.mark.parametrize("line", HERE, ids=lambda line: f"{line.document}: {line.command}")
def test_a_command_runs_as_printed(line, folder, monkeypatch, capsys):
    """It ends well, prints something, and leaves the page that it was to write."""
    from lite.cli.main import main

    monkeypatch.chdir(folder)
    words = shlex.split(line.command)
    if words[0] == "lite":
        if words[1] == "bench":
            words += [] if "--list" in words else ["--rounds", "1"]
        assert (learn(words) if words[1] == "learn" else main(words[1:])) == 0
        assert capsys.readouterr().out.strip()
        for flag, name in pairwise(words):
            if flag in ("--html", "--plot"):
                page = folder / name / "bench.html" if words[1] == "bench" else folder / name
                assert "</html>" in page.read_text(encoding="utf-8")
    else:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, *words[1:]], env=environment, capture_output=True, text=True, timeout=100,
            check=True,
        )  # fmt: skip
        assert done.stdout.strip() in ("prebuilt", "numba", "numpy")
