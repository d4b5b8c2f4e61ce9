"""The Python in the READMEs runs as printed: the blocks of a file in order, in one namespace."""

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import ray_jobs
from helpers.readmes import blocks, stated

import lite

ROOT = Path(__file__).parents[1]


def run(readme: str, names: dict[str, object]) -> dict[str, object]:
    """Run a README's blocks in order."""
    for number, source in enumerate(blocks(readme)):
        exec(compile(source, f"{readme}, block {number}", "exec"), names)
    return names


def test_every_readme_is_known() -> None:
    found = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("*/README.md")} | {"README.md"}
    with_python = {readme for readme in found if blocks(readme)}
    assert with_python == {"README.md", "kernels/README.md", "lite/README.md", "models/README.md"}


def test_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 9000


def test_differences_are_few_and_each_has_its_reason() -> None:
    rows = []
    for file in ("lite/DIFFERENCES.md", "models/DIFFERENCES.md"):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        rows += [line for line in lines if line.startswith("| ") and not line.startswith("| what |")]
    assert 0 < len(rows) <= 120
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 4, row
        assert all(cells), row


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "CONTRIBUTING.md",
        "lite/README.md",
        "models/README.md",
        "kernels/README.md",
        "bench/README.md",
        "lite/DIFFERENCES.md",
        "models/DIFFERENCES.md",
    ],
)
def test_files_that_documents_name_exist(document: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.M | re.S)
    links = [(ROOT / document).parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    paths = [ROOT / path for path in re.findall(r"`((?:lite|kernels|models|tests|bench)/[\w/.]*)`", text)]
    assert links + paths
    assert [str(path) for path in links + paths if not path.exists()] == []


def check_stated(source: str, names: dict[str, object]) -> int:
    """Evaluate the lines of a block that state their value; returns how many there are."""
    pairs = stated(source)
    for expression, value in pairs:
        got, expected = eval(expression, names), eval(value, {"array": np.array})
        np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-4)
    return len(pairs)


def test_lite_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first three blocks; the others move data to and from libraries that may be absent."""
    monkeypatch.chdir(tmp_path)  # one of them writes files
    names: dict[str, object] = {}
    for number, stated_at_least in enumerate((3, 2, 1)):
        source = blocks("lite/README.md")[number]
        exec(compile(source, "lite/README.md", "exec"), names)
        assert check_stated(source, names) >= stated_at_least


def test_lite_readme_on_environments() -> None:
    pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'tensordict-lite[gym]'")
    (source,) = (block for block in blocks("lite/README.md") if "= Collector(" in block)
    names: dict[str, object] = {"np": np}
    exec(compile(source, "lite/README.md", "exec"), names)
    assert names["batch"].shape == (4, 20)  # type: ignore[attr-defined]
    assert names["collector"].stats()["frames"] == 400  # type: ignore[attr-defined]
    assert names["collector"].stats()["episode_reward_mean"] > 20  # type: ignore[attr-defined]


def test_lite_readme_on_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="needs the export extra: pip install 'tensordict-lite[export]'")
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
    monkeypatch.chdir(tmp_path)
    (source,) = (
        block for block in blocks("lite/README.md") if "OnnxModule(" in block and "example =" in block
    )
    names: dict[str, object] = {"np": np, "TensorDict": lite.TensorDict}
    exec(compile(source, "lite/README.md", "exec"), names)
    got = eval(source.splitlines()[-1].partition("#")[0], names)
    np.testing.assert_equal((got, (tmp_path / "policy.onnx.json").is_file()), ((32, 2), True))


def test_main_readme() -> None:
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
    pytest.importorskip("tokenizers", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
    names: dict[str, object] = {}
    checked = 0
    for source in blocks("README.md"):
        exec(compile(source, "README.md", "exec"), names)
        checked += check_stated(source, names)
    assert checked >= 4
    out = names["out"]
    assert out.batch_size == (1, 4)  # type: ignore[attr-defined]
    assert len(out["text", "response"][0]) == 4  # type: ignore[index]


def test_kernels_readme() -> None:
    rng = np.random.default_rng(0)
    names = run(
        "kernels/README.md",
        {
            "reward": rng.normal(size=(2, 7)).astype(np.float32),
            "done": rng.random((2, 7)) < 0.3,
            "terminated": np.zeros((2, 7), bool),
            "value": rng.normal(size=(2, 7)).astype(np.float32),
            "next_value": rng.normal(size=(2, 7)).astype(np.float32),
            "next_observation": rng.normal(size=(2, 7, 3)),
            "logits": rng.normal(size=(2, 7, 11)).astype(np.float32),
            "tokens": rng.integers(0, 11, (2, 7)),
            "seeds": np.arange(2),
            "t": 0,
        },
    )
    assert names["next_observation"].shape == (2, 7, 3)  # type: ignore[attr-defined]
    assert names["advantage"].shape == names["value_target"].shape == (2, 7)  # type: ignore[attr-defined]
    assert names["tokens"].shape == (2,)  # type: ignore[attr-defined]


def test_models_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block opens a graph by a path from the root of the checkout."""
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
    pytest.importorskip("tokenizers", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
    monkeypatch.chdir(ROOT)
    chat, replayed, told, graph, rows, tables, _ = blocks("models/README.md")
    names: dict[str, object] = {}
    exec(compile(chat, "models/README.md, block 0", "exec"), names)
    td = names["td"]
    assert td["text", "response"][0] == "42<|im_end|>"  # type: ignore[index]
    assert td["history"].full[0].content == ["What is 12 + 30?", "42"]  # type: ignore[index]
    generated = td.get(("log_probs", "response"), as_list=True)  # type: ignore[attr-defined]
    scored = names["scored"].get(("log_probs", "full"), as_list=True)  # type: ignore[attr-defined]
    for response, full in zip(generated, scored, strict=True):
        # the template ends a turn with a line break, which the model was not asked for
        np.testing.assert_allclose(full[-1 - len(response) : -1], response, atol=1e-4)
    exec(compile(replayed, "models/README.md, block 1", "exec"), names)
    scored = names["trainer"](names["sampled"])  # type: ignore[operator]
    for drawn, full in zip(
        names["sampled"].get(("sampling", "kept_offsets"), as_list=True),  # type: ignore[attr-defined]
        scored.get(("log_probs", "full"), as_list=True),
        strict=True,
    ):
        assert np.isfinite(full).all()
        assert len(drawn) - 1 < len(full)
    exec(compile(told, "models/README.md, block 2", "exec"), names)
    known = names["known"]
    assert len(known.kept_offsets) == len(known.sampled_log_probs) + 1  # type: ignore[attr-defined]
    assert known.top_ids.shape[1] == 5  # type: ignore[attr-defined]
    exec(compile(graph, "models/README.md, block 3", "exec"), names)
    assert check_stated(graph, names) == 1
    policy, td, action = names["policy"], names["td"], names["action"]
    assert policy.in_keys == ["observation", "hidden"]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(td["action"], action)  # type: ignore[index]
    np.testing.assert_array_equal(td["next", "hidden"], names["new_hidden"])  # type: ignore[index]
    exec(compile(rows, "models/README.md, block 4", "exec"), names)
    assert names["cache"].state()["hits"] == 1  # type: ignore[attr-defined]
    assert names["number"] in range(10)
    exec(compile(tables, "models/README.md, block 5", "exec"), names)
    np.testing.assert_array_equal(names["written"]["id"], [0, 0, 1, 1])  # type: ignore[index]
    scored = names["scored"]
    np.testing.assert_allclose(scored["ref_log_prob"], scored["log_prob"], atol=1e-3)  # type: ignore[index]


@pytest.mark.parametrize(
    ("readme", "name", "told"),
    [
        ("models/README.md", "ray.data", "sorted(row['id'] for row in scored.take_all())"),
        ("lite/README.md", "RayCollector", "[len(batch)]"),
    ],
)
def test_blocks_on_ray(readme: str, name: str, told: str) -> None:
    ray_jobs.need_ray()
    pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'tensordict-lite[gym]'")
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
    (source,) = (block for block in blocks(readme) if name in block)
    script = f"""
import json, os, sys
os.chdir(sys.argv[1])
{ray_jobs.start()}
ray.init = lambda: None
{source}
print(json.dumps([{told}]))
ray.shutdown()
"""
    assert ray_jobs.run(script) == ([list(range(64))] if name == "ray.data" else [[64]])


def test_commands_exist() -> None:
    """Every `lite ...` and every option that a README names is one of the command's."""
    from lite.cli.main import build_parser

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    helps = build_parser().format_help()
    for command in set(re.findall(r"\blite (demo|generate|score|info|warmup|bench|\w+) --", text)):
        assert f"    {command} " in helps
