"""Hostile model folders: each is opened and used in a process with limits on memory and time.

Whatever a folder holds, what becomes of it is an answer or an error that says what is wrong: nothing hangs,
dies, fills memory, reads a file that lies elsewhere or raises what only a debugger understands. The rules
behind these cases are tested beside what keeps them: `graph/test_json_files.py`, `graph/test_summary.py`,
`graph/test_session.py`, `text/test_tokenizer_rules.py`, `text/test_template_sandbox_attacks.py`.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.models.hostile import Cases, graph_of_size
from helpers.models.real_models import MODELS
from helpers.tiers import standing_for_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")

ENDLESS = Path(__file__).parent / "graphs" / "endless.onnx"
LEFT, SLOTS = "optimum-llama", "genai-llama-fp32"
FINE = "fine"
REFUSED = "ValueError: "
MISSING = "FileNotFoundError: "
Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def cases() -> Iterator[Cases]:
    with Cases() as running:
        yield running


@pytest.fixture
def result(cases: Cases, tmp_path: Path) -> Callable[..., str]:
    """What comes of an export that was changed."""

    def run(change: Change, *, export: str = LEFT, action: str = "use", **options: Any) -> str:
        folder = tmp_path / "models" / "model"
        shutil.copytree(MODELS / export, folder)
        change(folder)
        return cases.run(action, folder, **options)

    return run


def write(name: str, content: Any) -> Change:
    """Put a file in place of another: text, bytes or what JSON can say."""

    def change(folder: Path) -> None:
        data = content if isinstance(content, (str, bytes)) else json.dumps(content)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)

    return change


def edit(name: str, *path: str, **entries: Any) -> Change:
    """Set entries of a JSON file, at the end of a path of keys."""

    def change(folder: Path) -> None:
        file = folder / name
        whole = json.loads(file.read_text()) if file.exists() else {}
        part = whole
        for key in path:
            part = part[key]
        part.update(entries)
        file.write_text(json.dumps(whole))

    return change


def instead(name: str, make: Callable[[Path], Any]) -> Change:
    """Have something else stand where a file was."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return change


def elsewhere(name: str) -> Change:
    """Move a file out of the folder and link to it."""

    def change(folder: Path) -> None:
        shutil.move(folder / name, folder.parent / "secret")
        (folder / name).symlink_to(folder.parent / "secret")

    return change


def cut(name: str, share: float) -> Change:
    return lambda folder: os.truncate(folder / name, int((folder / name).stat().st_size * share))


@pytest.mark.parametrize("export", standing_for_all([SLOTS, "handmade-no-cache"]))
def test_what_is_not_changed_is_fine(result: Callable[..., str], export: str) -> None:
    assert result(lambda folder: None, export=export) == FINE


# -- what is no file -----------------------------------------------------------------------------

KINDS = ["pipe", "folder", "device", "link to itself"]
CONFIGS = ["config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"]
FILES = ["model.onnx", "chat_template.jinja", "tokenizer.json", *CONFIGS]


@pytest.mark.processes
@pytest.mark.parametrize(("name", "kind"), list(zip(FILES, KINDS, strict=False)))
def test_what_is_no_file_is_none(result: Callable[..., str], name: str, kind: str) -> None:
    make: dict[str, Callable[[Path], Any]] = {
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "link to itself": lambda path: path.symlink_to(path.name),
    }
    found = result(instead(name, make[kind]))
    if name in ("model.onnx", "tokenizer.json"):
        assert found.startswith(MISSING), found
    else:
        assert found == FINE


# -- files from elsewhere ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "export"),
    [
        ("chat_template.jinja", LEFT),
        ("config.json", LEFT),
        ("model.onnx.data", SLOTS),
        ("prefill.onnx", "exporter-llama-pair"),
    ],
)
def test_a_link_to_elsewhere_is_not_followed(result: Callable[..., str], name: str, export: str) -> None:
    def change(folder: Path) -> None:
        if not (folder / name).exists():
            (folder / name).write_text("{}")
        elsewhere(name)(folder)

    found = result(change, export=export)
    assert found.startswith(REFUSED), found
    assert "link out of its folder" in found


def test_external_data_from_elsewhere_are_not_read(result: Callable[..., str]) -> None:
    def change(folder: Path) -> None:
        (folder.parent / "secret").write_bytes(bytes(1 << 16))
        whole = (folder / "model.onnx").read_bytes()
        name = "../secret".ljust(len("model.onnx.data"), "/").encode()
        assert b"model.onnx.data" in whole
        (folder / "model.onnx").write_bytes(whole.replace(b"model.onnx.data", name))

    found = result(change, export=SLOTS)
    assert found.startswith(REFUSED)
    assert "outside its folder" in found


# -- JSON ----------------------------------------------------------------------------------------

JSON: dict[str, Any] = {
    "deep": '{"a":' + "[" * 200_000 + "]" * 200_000 + "}", "cut": '{"a": [1,',
    "long numbers": '{"eos_token_id": ' + "9" * 5000 + "}", "no object": "[1]", "empty": "",
    "no text": bytes(range(256)), "zeros": bytes(100),
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), list(zip([*CONFIGS, "tokenizer.json"], JSON, strict=False)))
def test_json_that_is_none(result: Callable[..., str], name: str, kind: str) -> None:
    found = result(write(name, JSON[kind]))
    assert found.startswith(REFUSED), found
    assert name in found


@pytest.mark.parametrize("name", standing_for_all(["chat_template.jinja", "tokenizer.json"]))
def test_files_of_a_terabyte(result: Callable[..., str], name: str) -> None:
    found = result(lambda folder: os.truncate(folder / name, 1 << 40))
    assert found.startswith(REFUSED)
    assert "may have at most" in found


@pytest.mark.parametrize(
    "value", standing_for_all([2**62, -5, "12", [[1]], {"a": 1}, float("nan")]), ids=repr
)
def test_sizes_and_options_that_are_none(result: Callable[..., str], value: Any) -> None:
    """What is no size counts for nothing, where the graph says what it needs."""
    sizes = ("max_position_embeddings", "vocab_size", "num_key_value_heads", "num_attention_heads")
    more = ("hidden_size", "head_dim", "num_hidden_layers", "eos_token_id", "pad_token_id", "text_config")

    def change(folder: Path) -> None:
        edit("config.json", **dict.fromkeys((*sizes, *more), value))(folder)
        edit("tokenizer_config.json", eos_token=value, chat_template=value, added_tokens_decoder=value)(
            folder
        )
        edit("generation_config.json", eos_token_id=value, pad_token_id=value)(folder)

    assert result(change) == FINE


@pytest.mark.parametrize("name", standing_for_all(["temperature", "top_k", "do_sample"]))
def test_options_of_generation_that_are_none(cases: Cases, tmp_path: Path, name: str) -> None:
    for i, value in enumerate([10**30, -5, "12", [[1]], None, float("inf"), float("nan")]):
        folder = shutil.copytree(MODELS / LEFT, tmp_path / str(i))
        edit("generation_config.json", **{name: value})(folder)
        found = cases.run("configure", folder)
        assert found == FINE or (found.startswith(REFUSED) and name in found), (value, found)


@pytest.mark.parametrize(
    "path", standing_for_all(["decoder.head_size", "vocab_size", "decoder.num_key_value_heads"])
)
def test_a_cache_of_any_size_is_not_allocated(cases: Cases, tmp_path: Path, path: str) -> None:
    *parts, name = path.split(".")
    for i, value in enumerate([2**62, -5, 1.5, "12", {"a": 1}]):
        folder = shutil.copytree(MODELS / SLOTS, tmp_path / str(i))
        edit("genai_config.json", "model", *parts, **{name: value})(folder)
        found = cases.run("use", folder)
        if name == "head_size" and isinstance(value, int) and value > 2**60:
            assert found.startswith("MemoryError: cannot allocate"), found
        else:
            assert found == FINE or found.startswith(REFUSED), (value, found)


# -- graphs --------------------------------------------------------------------------------------


LARGE, LARGER = (1, 3, 2**38), (1, 3, 2**63 - 1)


@pytest.mark.parametrize(
    ("action", "runtime"),
    standing_for_all([("run_graph", "onnxruntime"), ("run_graph", "numpy"), ("impatient", "onnxruntime")], 2),
)
def test_a_graph_that_never_ends(result: Callable[..., str], action: str, runtime: str) -> None:
    endless = write("model.onnx", ENDLESS.read_bytes())
    found = result(endless, action=action, runtime=runtime)
    assert found.startswith("TimeoutError: the graph may never end")


@pytest.mark.parametrize(
    ("shape", "action", "runtime"),
    standing_for_all(
        [
            (LARGE, "use", "onnxruntime"),
            (LARGE, "run_graph", "numpy"),
            (LARGER, "run_graph", "onnxruntime"),
            (LARGER, "use", "numpy"),
        ],
        2,
    ),
)
def test_a_graph_that_makes_more_than_fits(result, shape, action, runtime):
    found = result(write("model.onnx", graph_of_size(*shape)), action=action, runtime=runtime)
    assert found.startswith((REFUSED, "RuntimeError: ")), found
    said = ["cannot be made"] if runtime == "numpy" else ["alloc", "dimensions", "too big", "graph failed"]
    assert any(text in found.lower() for text in said), found


@pytest.mark.parametrize(
    ("name", "export", "share"),
    standing_for_all(
        [("model.onnx", LEFT, 0.5), ("model.onnx", SLOTS, 0.999), ("model.onnx.data", SLOTS, 0.01)]
    ),
)
def test_graphs_that_are_cut(result: Callable[..., str], name: str, export: str, share: float) -> None:
    found = result(cut(name, share), export=export)
    assert found.startswith(REFUSED), found
    assert "model.onnx" in found


@pytest.mark.grid
def test_graphs_with_other_bytes(cases: Cases, tmp_path: Path) -> None:
    refused = 0
    for seed in range(8):
        folder = shutil.copytree(MODELS / SLOTS, tmp_path / str(seed))
        choose, data = random.Random(seed), bytearray((folder / "model.onnx").read_bytes())
        for _ in range(20):
            data[choose.randrange(len(data))] = choose.randrange(256)
        (folder / "model.onnx").write_bytes(data)
        found = cases.run("use", folder)
        assert found == FINE or found.startswith((REFUSED, MISSING)), found
        refused += found != FINE
    assert refused


# -- tokenizers ----------------------------------------------------------------------------------


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def sequence(key: str, *rules: Any) -> dict[str, Any]:
    return {"type": "Sequence", key: list(rules)}


def doubled(rule: Any, key: str, times: int) -> Any:
    for _ in range(times):
        rule = sequence(key, rule, rule)
    return rule


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "twelve rules that multiply": {"normalizer": sequence("normalizers", *[replace("l", "l" * 8)] * 12)},
    "rules without end": {"decoder": doubled({"type": "Fuse"}, "decoders", 16)},
    "a map of four gigabytes": {
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////////////////w=="}
    },
    "a piece of no length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizers_that_are_refused(result: Callable[..., str], name: str) -> None:
    found = result(edit("tokenizer.json", **TOKENIZERS[name]), action="tokenize")
    assert found.startswith(REFUSED), found
    assert "tokenizer" in found


@pytest.mark.parametrize("pattern", standing_for_all([r"(.*)(.*)(.*)(.*)(.*)\5\x01", "(.+)+\x01"]))
def test_expressions_that_try_for_ever(result: Callable[..., str], pattern: str) -> None:
    found = result(edit("tokenizer.json", pre_tokenizer={**SPLIT, "pattern": {"Regex": pattern}}))
    assert found == FINE or found.startswith(REFUSED), found


# -- templates -----------------------------------------------------------------------------------

TEMPLATES = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "long texts": "{% set a = 'a' * 16000000 %}{{ [a] * 9999 }}",
    "Python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_that_are_refused(result: Callable[..., str], name: str) -> None:
    found = result(write("chat_template.jinja", TEMPLATES[name]))
    assert found.startswith(REFUSED), found
    assert "chat template" in found


def test_templates_of_the_configuration_are_no_others(result: Callable[..., str]) -> None:
    def change(folder: Path) -> None:
        (folder / "chat_template.jinja").unlink()
        edit("tokenizer_config.json", chat_template=TEMPLATES["Python"])(folder)

    assert result(change).startswith("ValueError: the chat template failed")
