"""Read a model directory: where the graph is, and what its JSON files say about tokens, context and sampling.

Exporters disagree on the file a value lives in; each is looked up in the order of trust:
`generation_config.json`, `genai_config.json`, `config.json`, then the tokenizer's files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lite._files.onnx.arrays import check_external_files, check_links
from lite.models.graph.summary import GraphSummary, scan

MAX_CONFIG_BYTES = 16 << 20
MAX_TOKENIZER_BYTES = 256 << 20


def read_text(path: Path, *, folder: Path | None = None, max_bytes: int = MAX_CONFIG_BYTES) -> str:
    """The UTF-8 text of a file of a model folder, by default the one that it is in.

    Raises:
        ValueError: it is a link out of the folder, larger than ``max_bytes`` or not UTF-8.
    """
    _check(path, folder or path.parent, max_bytes)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from None


def _check(path: Path, folder: Path, max_bytes: int) -> None:
    check_links(path, folder)
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path} has {size} bytes; a file of this kind may have at most {max_bytes}")


def read_json_object(path: Path, *, max_bytes: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in a file, or ``{}`` when there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(read_text(path, max_bytes=max_bytes))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    except ValueError as error:  # not UTF-8, too large, or a number of thousands of digits
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(value).__name__}")
    return value


MAX_INT = 2**31  # an id or a length that is larger is none

GRAPH_NAMES = ("model", "decoder_model_merged", "decoder_with_past_model", "decode", "decoder")  # best first
# What reads prompts, where that is a graph of its own.
PROMPTS_NAMES = {"decoder_with_past_model": "decoder_model", "decode": "prefill"}
_DECIDING = (
    "config.json", "genai_config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja",
)  # fmt: skip
_NAME = re.compile(
    rf"({'|'.join(sorted({*GRAPH_NAMES, *PROMPTS_NAMES.values()}, reverse=True))})(?:[_-](.+))?"
)


_BESIDE = (".json", ".jinja")
_MODEL = re.compile(rb',\s*"model"\s*:')  # of a tokenizer


@dataclass(frozen=True)
class ModelConfig:
    """The configuration in a model directory.

    Attributes:
        graph: path of the ONNX file.
        prompts: path of the graph that reads prompts, where exporters wrote one beside it; else None.
        directory: the folder that holds the configuration and tokenizer files.
        eos_token_ids: ids that end a response, possibly none.
        pad_token_id: filler id, or None. It may equal an eos id: validity never follows from ids.
        bos_token_id: begin-of-text id, or None.
        context_length: most positions the model takes, or None if no file says.
        vocab_size: number of token ids, or None if no file says (the graph usually does).
        sampling: the model's own defaults for generation (`temperature`, `top_p`, ...), as its files have
            them: `generation_config.json` before the "search" of `genai_config.json`.
        raw: content of `config.json` (its text part for multimodal models), `{}` without one.
        genai: content of `genai_config.json`, `{}` without one.
        summary: what the graph file itself says.
    """

    graph: Path
    directory: Path
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    context_length: int | None = None
    vocab_size: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    genai: Mapping[str, Any] = field(default_factory=dict)
    summary: GraphSummary | None = None
    prompts: Path | None = None

    @classmethod
    def from_directory(cls, model: str | Path, *, variant: str | None = None) -> ModelConfig:
        """Read the directory of an exported model (or the directory that holds the given `.onnx` file).

        Args:
            model: a directory, or an ONNX file in one.
            variant: which of several graphs, by the end of its name: `"q4"` is `model_q4.onnx`, `""` is
                `model.onnx`. By default that in full precision, `""`, or the only one that there is.

        Returns:
            The configuration; a field that no file gives is None or empty.

        Raises:
            FileNotFoundError: if there is no such path, no graph in it, or the graph's external data is
                missing.
            ValueError: if a file is not what its name says or a link out of the folder (links of download
                caches, from `snapshots` to `blobs`, are none), the graph refers to a file outside its folder,
                or `variant` is needed (the message lists them) or given with a file.

        Example:
            >>> from lite.models import ModelConfig, embedded_model_path
            >>> ModelConfig.from_directory(embedded_model_path()).graph.name
            'model.onnx'
        """
        graph, directory = find_graph(model, variant)
        graph, prompts = _pair(graph)
        if Path(model).is_dir():  # a file that is given is what it is a link to
            for file in filter(None, (graph, prompts)):
                check_links(file, Path(model))
        summary = scan(graph)
        check_external_files(graph, summary.external_files)
        raw = read_json_object(directory / "config.json")
        text = raw.get("text_config")
        config = {**raw, **text} if isinstance(text, dict) else raw
        genai = read_json_object(directory / "genai_config.json")
        model_part = _dict(genai.get("model"))
        generation = read_json_object(directory / "generation_config.json")
        sources = (generation, model_part, config)
        eos = _token_ids(sources, "eos_token_id") or _named_token(directory, "eos_token")
        pad = _token_ids(sources, "pad_token_id") or _named_token(directory, "pad_token")
        bos = _token_ids(sources, "bos_token_id") or _named_token(directory, "bos_token")
        context_keys = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "context_length")
        search = _dict(genai.get("search"))
        return cls(
            graph=graph,
            directory=directory,
            eos_token_ids=eos,
            pad_token_id=pad[0] if pad else None,
            bos_token_id=bos[0] if bos else None,
            context_length=_first_int((config, model_part), context_keys),
            vocab_size=_first_int((config, model_part), ("vocab_size",)),
            sampling={
                key: value
                for source in (search, generation)  # the later one wins
                for key, value in source.items()
                if value is not None
            },
            raw=config,
            genai=genai,
            summary=summary,
            prompts=prompts,
        )

    def copy_beside(self, folder: Path) -> Path:
        """Copy the tokenizer, templates and configuration to a folder, for another graph of the model.

        Returns:
            The folder, which is made if it is not there.
        """
        import shutil  # which imports all that compresses: 2 ms of opening a model

        folder.mkdir(parents=True, exist_ok=True)
        for place in dict.fromkeys((self.directory, self.graph.parent)):
            for file in sorted(place.iterdir()):
                if file.suffix in _BESIDE and file.is_file():
                    shutil.copyfile(file, folder / file.name)
        return folder

    def digest(self) -> str:
        """SHA-256 of the files that determine the results of the model. All are read completely.

        They are its graphs with their weights, and the configuration, tokenizer and templates beside them.
        Equal digests are of equal models, wherever they are.
        """
        graphs = [config for config in (self, self.of_prompts()) if config is not None]
        weights = [
            config.graph.parent / name
            for config in graphs
            for name in sorted(config.summary.external_files if config.summary else ())
        ]
        beside = [self.directory / name for name in _DECIDING]
        templates = sorted((self.directory / "chat_templates").glob("*.jinja"))
        total = hashlib.sha256()
        for path in [*(config.graph for config in graphs), *weights, *beside, *templates]:
            if path.is_file():
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                total.update(f"{path.name} {content}\n".encode())
        return total.hexdigest()

    def of_prompts(self) -> ModelConfig | None:
        """The config of the graph that reads prompts, if there is one. Raises as `from_directory`."""
        if self.prompts is None:
            return None
        summary = scan(self.prompts)
        check_external_files(self.prompts, summary.external_files)
        return replace(self, graph=self.prompts, prompts=None, summary=summary)


def find_graph(model: str | Path, variant: str | None = None) -> tuple[Path, Path]:
    """Locate the ONNX file of a model; returns (graph, directory with its configuration).

    A graph in the sub-folder `onnx` has its configuration beside that folder.
    """
    path = Path(model)
    if not path.exists():
        raise FileNotFoundError(
            f"model: there is no file or directory {str(path)!r}; models are folders with an .onnx file, and "
            "names of a hub are not looked up"
        )
    if path.is_file():
        if path.suffix != ".onnx":
            raise ValueError(f"model: expected a directory or an .onnx file, got {str(path)!r}")
        if variant is not None:
            raise ValueError(f"variant={variant!r} chooses among files of a directory, got {str(path)!r}")
        parent = path.parent
        return path, parent.parent if parent.name == "onnx" and _has_config(parent.parent) else parent
    files = [
        file
        for folder in (path, path / "onnx")
        for file in sorted(folder.glob("*.onnx"))
        if file.is_file()  # opening a pipe would wait for a writer
    ]
    found: dict[str, Path] = {}  # the best graph of each variant
    for name in GRAPH_NAMES:
        for file in files:
            match = _NAME.fullmatch(file.stem)
            if match and match[1] == name:
                found.setdefault(match[2] or "", file)
    wanted = "" if variant is None and "" in found else variant
    if wanted is None and len(found) == 1:
        wanted = next(iter(found))
    if wanted in found:
        return found[wanted], path
    if found:
        asked = "several graphs" if variant is None else f"no graph of variant={variant!r}"
        raise ValueError(
            f"model: {str(path)!r} holds {asked}: pass one of the files, or variant="
            + ", ".join(f"{name!r} ({file.relative_to(path)})" for name, file in sorted(found.items()))
            + " (on a CPU, float16 weights are the slowest)"
        )
    if len(files) == 1 and variant is None:
        return files[0], path
    raise FileNotFoundError(f"model: {str(path)!r} holds {_instead_of_a_graph(path, files)}")


def _instead_of_a_graph(path: Path, files: list[Path]) -> str:
    """For an error: what a directory holds whose .onnx files have none of the known names."""
    inner = path / "model"  # what `lite learn` wrote
    if not files and any(inner.glob("*.onnx")):
        return f"no .onnx file; the model in it is {str(inner)!r}"
    if not files and ((path / "adapter_config.json").is_file() or any(path.glob("*.onnx_adapter"))):
        return "an adapter and no .onnx file: name the model that it is for, and this as its adapter"
    names = ", ".join(str(file.relative_to(path)) for file in files)
    hint = f"several graphs ({names}): pass the file to use" if files else "no .onnx file"
    return (
        f"{hint}; looked for {', '.join(f'{name}.onnx' for name in GRAPH_NAMES)} there and in its folder "
        "'onnx'. Export one with the onnxruntime-genai model builder or "
        "`optimum-cli export onnx --task text-generation-with-past`"
    )


def _pair(graph: Path) -> tuple[Path, Path | None]:
    """The graph that goes on with rows and the one that reads prompts, given either of them."""
    if match := _NAME.fullmatch(graph.stem):
        for goes_on, reads in PROMPTS_NAMES.items():
            both = [graph.with_name(name + graph.name[len(match[1]) :]) for name in (goes_on, reads)]
            if graph in both and all(file.is_file() for file in both):
                return both[0], both[1]
    return graph, None


def _has_config(directory: Path) -> bool:
    return any(
        (directory / name).is_file() for name in ("config.json", "genai_config.json", "tokenizer.json")
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _token_ids(sources: tuple[Mapping[str, Any], ...], key: str) -> tuple[int, ...]:
    for source in sources:
        value = source.get(key)
        ids = value if isinstance(value, list) else [value]
        if ids and all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < MAX_INT for i in ids):
            return tuple(ids)
    return ()


def _first_int(sources: tuple[Mapping[str, Any], ...], keys: tuple[str, ...]) -> int | None:
    for source in sources:
        for key in keys:
            value = source.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_INT:
                return value
    return None


def _named_token(directory: Path, key: str) -> tuple[int, ...]:
    """Resolve a token that tokenizer_config.json gives as text to its id in tokenizer.json."""
    token = read_json_object(directory / "tokenizer_config.json").get(key)
    if isinstance(token, dict):  # the serialised AddedToken form
        token = token.get("content")
    if not isinstance(token, str):
        return ()
    return next(((i,) for text, i in _vocabulary(directory) if text == token), ())


def _vocabulary(directory: Path) -> Iterator[tuple[str, int]]:
    """Added tokens come first, mostly before the model: 150,000 tokens of that take 0.15 s to be read."""
    path = directory / "tokenizer.json"
    with suppress(OSError, ValueError, RecursionError):  # what is wrong is told below
        _check(path, directory, MAX_TOKENIZER_BYTES)
        content = path.read_bytes()
        model = _MODEL.search(content)
        yield from _added_tokens(json.loads(content[: model and model.start()] + b"}"))
    tokenizer = read_json_object(path, max_bytes=MAX_TOKENIZER_BYTES)
    yield from _added_tokens(tokenizer)
    vocab = _dict(tokenizer.get("model")).get("vocab")
    for text, i in vocab.items() if isinstance(vocab, dict) else ():
        if isinstance(i, int):
            yield text, i


def _added_tokens(tokenizer: Any) -> Iterator[tuple[str, int]]:
    declared = _dict(tokenizer).get("added_tokens")
    for added in declared if isinstance(declared, list) else ():
        if isinstance(added, dict) and isinstance(added.get("id"), int):
            yield str(added.get("content")), added["id"]
