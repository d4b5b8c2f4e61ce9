"""Finding the graph and the configuration of a model directory."""

import json
import os
import shutil
from pathlib import Path

import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS

from lite._files.onnx.arrays import check_external_files
from lite.models import ModelConfig
from lite.models.graph.model_config import find_graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a graph and nothing else."""
    shutil.copy(MODELS / "optimum-gpt2" / "model.onnx", tmp_path)
    return tmp_path


def test_real_exports() -> None:
    for name in ("optimum-llama", "exporter-llama-static", "genai-lfm2", "optimum-gpt2-pair"):
        config = ModelConfig.from_directory(MODELS / name)
        assert config.eos_token_ids == (2, 0), name
        assert (config.pad_token_id, config.bos_token_id) == (3, 0), name
        assert (config.context_length, config.vocab_size) == (256, 512), name
        assert config.sampling["temperature"] == 0.7, name
        pairs = {"exporter": "decode.onnx", "optimum-gpt2-pair": "decoder_with_past_model.onnx"}
        names = [file for start, file in pairs.items() if name.startswith(start)] or ["model.onnx"]
        assert config.graph.name == names[0], name


def test_without_configuration_files_everything_is_unknown(folder: Path) -> None:
    config = ModelConfig.from_directory(folder)
    assert config.eos_token_ids == ()
    assert (config.pad_token_id, config.context_length, config.vocab_size) == (None, None, None)
    assert config.sampling == {}


def test_generation_config_wins_over_config(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 5, "n_positions": 99}))
    assert ModelConfig.from_directory(folder).eos_token_ids == (5,)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
    config = ModelConfig.from_directory(folder)
    assert config.eos_token_ids == (7, 8)
    assert config.context_length == 99


def test_eos_given_as_text_is_resolved_by_the_tokenizer(folder: Path) -> None:
    cases: list[object] = ["<end>", {"content": "<end>", "lstrip": False}]
    for form in cases:
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": form}))
        (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": [{"id": 11, "content": "<end>"}]}))
        assert ModelConfig.from_directory(folder).eos_token_ids == (11,), form
        vocabulary = {"a": 3, "<end>": 7, "<pad>": "none"}
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
        assert ModelConfig.from_directory(folder).eos_token_ids == (7,), form


def test_a_named_token_is_found_before_the_model_of_the_tokenizer(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    added = '{"added_tokens": [{"id": 11, "content": "<end>", "model": 2}]'
    for rest in (', "padding": null}', ', "model": {"vocab": {"<end>": 7}}}'):
        (folder / "tokenizer.json").write_text(added + rest)
        assert ModelConfig.from_directory(folder).eos_token_ids == (11,), rest
    unread = ',\n  "model": {"vocab": what takes long to read'
    (folder / "tokenizer.json").write_text(added.replace(', "model": 2', "") + unread)
    assert ModelConfig.from_directory(folder).eos_token_ids == (11,)


def test_text_config_of_multimodal_models(folder: Path) -> None:
    content = {"max_position_embeddings": 1, "text_config": {"max_position_embeddings": 77}}
    (folder / "config.json").write_text(json.dumps(content))
    assert ModelConfig.from_directory(folder).context_length == 77


def test_graph_in_the_onnx_folder(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    shutil.copy(MODELS / "optimum-gpt2" / "model.onnx", tmp_path / "onnx")
    (tmp_path / "config.json").write_text('{"n_positions": 12}')
    assert find_graph(tmp_path) == (tmp_path / "onnx" / "model.onnx", tmp_path)
    assert ModelConfig.from_directory(tmp_path / "onnx" / "model.onnx").context_length == 12


def test_a_single_graph_of_another_name_is_taken(tmp_path: Path) -> None:
    shutil.copy(MODELS / "optimum-gpt2" / "model.onnx", tmp_path / "mine.onnx")
    assert find_graph(tmp_path)[0].name == "mine.onnx"
    shutil.copy(tmp_path / "mine.onnx", tmp_path / "yours.onnx")
    raises(FileNotFoundError, r"several graphs \(mine\.onnx, yours\.onnx\)", lambda: find_graph(tmp_path))


def test_a_folder_of_what_was_learnt_says_where_the_model_is(tmp_path: Path) -> None:
    (tmp_path / "adapter.onnx_adapter").touch()
    raises(FileNotFoundError, "holds an adapter and no", lambda: find_graph(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").touch()
    raises(FileNotFoundError, r"the model in it is '.*model'", lambda: find_graph(tmp_path))


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()


def test_of_several_variants_full_precision_is_the_default(tmp_path: Path) -> None:
    touch(tmp_path, "onnx/model_fp16.onnx", "onnx/model_q4.onnx", "onnx/model_q4f16.onnx", "onnx/model.onnx")
    assert find_graph(tmp_path)[0].name == "model.onnx"
    assert find_graph(tmp_path, "q4")[0].name == "model_q4.onnx"
    assert find_graph(tmp_path, "")[0].name == "model.onnx"
    with pytest.raises(
        ValueError, match=r"variant='int8': pass one of the files, or variant='' \(onnx/model\.onnx\), 'fp16'"
    ):
        find_graph(tmp_path, "int8")
    with pytest.raises(ValueError, match="chooses among files of a directory"):
        find_graph(tmp_path / "onnx" / "model.onnx", "q4")


def test_without_full_precision_a_variant_is_asked_for(tmp_path: Path) -> None:
    touch(tmp_path, "onnx/model_fp16.onnx")
    assert find_graph(tmp_path)[0].name == "model_fp16.onnx"  # there is no other
    touch(tmp_path, "onnx/model_q4.onnx")
    with pytest.raises(
        ValueError,
        match=r"several graphs: pass one of the files, or variant='fp16' \(onnx/model_fp16\.onnx\), 'q4'",
    ):
        find_graph(tmp_path)
    touch(tmp_path, "model_q4.onnx")
    assert find_graph(tmp_path, "q4")[0] == tmp_path / "model_q4.onnx"


def test_merged_decoders_and_pairs_have_variants_too(tmp_path: Path) -> None:
    touch(tmp_path, "decoder_model.onnx", "decoder_with_past_model.onnx", "decoder_with_past_model_q4.onnx")
    assert find_graph(tmp_path)[0].name == "decoder_with_past_model.onnx"
    touch(tmp_path, "decoder_model_merged.onnx", "decoder_model_merged_fp16.onnx")
    assert find_graph(tmp_path)[0].name == "decoder_model_merged.onnx"
    assert find_graph(tmp_path, "fp16")[0].name == "decoder_model_merged_fp16.onnx"
    assert find_graph(tmp_path, "q4")[0].name == "decoder_with_past_model_q4.onnx"


def test_either_half_of_a_pair_names_both() -> None:
    for name in ("exporter-llama-pair", "optimum-gpt2-pair"):
        config = ModelConfig.from_directory(MODELS / name)
        reads = config.of_prompts()
        assert config.prompts is not None, name
        assert reads is not None, name
        assert (reads.graph, reads.prompts, reads.eos_token_ids) == (
            config.prompts,
            None,
            config.eos_token_ids,
        )
        for half in (config.graph, config.prompts):
            other = ModelConfig.from_directory(half)
            assert (other.graph, other.prompts) == (config.graph, config.prompts), name


def test_either_half_of_a_pair_of_a_variant(tmp_path: Path) -> None:
    for suffix in ("", "_q4"):
        for half in ("decoder_with_past_model", "decoder_model"):
            shutil.copy(MODELS / "optimum-gpt2-pair" / f"{half}.onnx", tmp_path / f"{half}{suffix}.onnx")
    for half in ("decoder_with_past_model", "decoder_model"):
        config = ModelConfig.from_directory(tmp_path / f"{half}_q4.onnx")
        assert config.graph.name == "decoder_with_past_model_q4.onnx"
        assert config.prompts == tmp_path / "decoder_model_q4.onnx"


def test_half_of_a_pair_stands_alone(tmp_path: Path) -> None:
    shutil.copy(MODELS / "optimum-gpt2-pair" / "decoder_with_past_model.onnx", tmp_path)
    config = ModelConfig.from_directory(tmp_path)
    assert (config.prompts, config.of_prompts()) == (None, None)


def test_missing_things_are_named(tmp_path: Path) -> None:
    raises(FileNotFoundError, "nowhere", lambda: ModelConfig.from_directory(tmp_path / "nowhere"))
    raises(FileNotFoundError, r"no \.onnx file; looked for model\.onnx", ModelConfig.from_directory, tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"expected a directory or an \.onnx file"):
        ModelConfig.from_directory(tmp_path / "notes.txt")


def test_external_data_outside_the_folder_is_refused(tmp_path: Path) -> None:
    for name in ("../secret", "/etc/passwd", "a/../../b", "C:\\data", "\\\\host\\x", ""):
        raises(ValueError, "outside its folder", check_external_files, tmp_path / "model.onnx", [name])


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    shutil.copy(MODELS / "genai-llama-fp32" / "model.onnx", tmp_path)
    raises(FileNotFoundError, r"model\.onnx\.data", lambda: ModelConfig.from_directory(tmp_path))


def test_what_is_no_id_or_length_is_not_taken_for_one(folder: Path) -> None:
    cases: list[object] = ["x", 1.5, [1, "a"], -3, True, {}, 10**30, [10**30], [[1]]]
    for value in cases:
        (folder / "config.json").write_text(
            json.dumps({"eos_token_id": value, "max_position_embeddings": value, "vocab_size": value})
        )
        config = ModelConfig.from_directory(folder)
        assert config.eos_token_ids == (), value
        assert config.context_length is None, value
        assert config.vocab_size is None, value


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_pipes_are_no_graphs(tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    for model in (tmp_path, tmp_path / "model.onnx"):
        raises(FileNotFoundError, r"no \.onnx file", find_graph, model)


def test_a_digest_is_of_what_decides_results_wherever_it_lies(tmp_path: Path) -> None:
    folder, copy = tmp_path / "model", tmp_path / "copy"
    shutil.copytree(MODELS / "exporter-llama-pair", folder)
    (folder / "chat_templates").mkdir()
    (folder / "chat_templates" / "tool_use.jinja").write_text("{{ messages }}")
    shutil.copytree(folder, copy)
    digest = ModelConfig.from_directory(folder).digest()
    assert ModelConfig.from_directory(copy).digest() == digest
    (copy / "README.md").write_text("says nothing to the model")
    assert ModelConfig.from_directory(copy).digest() == digest
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".onnx", ".data", ".json", ".jinja"}
    for file in files:
        changed, content = copy / file.relative_to(folder), file.read_bytes()
        # a field of a graph that nobody knows, another weight, a space in a text
        more = {".onnx": content + b"\x78\x00", ".data": bytes([content[0] ^ 1]) + content[1:]}
        changed.write_bytes(more.get(file.suffix, content + b" "))
        assert ModelConfig.from_directory(copy).digest() != digest, file.name
        shutil.copy(file, changed)
    assert ModelConfig.from_directory(copy).digest() == digest
