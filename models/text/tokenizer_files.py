"""What the tokenizer files of a model folder say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lite.models.graph.json_files import read_json_object, read_text

MAX_TOKENIZER_BYTES = 256 << 20

# The named special tokens, in the order the configuration files list them.
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def load_tokenizer_files(path: Path) -> tuple[Any, dict[str, Any]]:
    """The ``tokenizers.Tokenizer`` of a folder, and the options to make a ``Tokenizer`` with.

    Only files of fixed names (and ``chat_templates/*.jinja``) are read: no file names another.
    """
    folder = _find_folder(path)
    try:
        from tokenizers import Tokenizer as Backend
    except ImportError as error:
        raise ImportError(
            'Tokenizer needs the tokenizers package: pip install "tensordict-lite[llm]"'
        ) from error
    source = read_text(folder / "tokenizer.json", max_bytes=MAX_TOKENIZER_BYTES)
    try:
        backend = Backend.from_str(source)
    except Exception as error:  # the package raises plain Exception
        raise ValueError(f"{folder / 'tokenizer.json'} is not a valid tokenizer: {error}") from None
    config = read_json_object(folder / "tokenizer_config.json")
    _add_configured_tokens(backend, config)
    return backend, {
        "special_tokens": _named_tokens(folder, config, backend),
        "chat_template": _chat_templates(folder, config),
        "name_or_path": str(path),
        "padding_side": "left" if config.get("padding_side") == "left" else "right",
    }


def _find_folder(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"no such model folder: {path}")
    folder = path if path.is_dir() else path.parent
    tried = [folder, folder.parent] if folder.resolve().name == "onnx" else [folder]
    for candidate in tried:
        if (candidate / "tokenizer.json").is_file():
            return candidate
    where = " and ".join(str(candidate) for candidate in tried)
    found = sorted(p.name for p in folder.iterdir())[:20]
    raise FileNotFoundError(f"no tokenizer.json in {where} (found: {', '.join(found) or 'nothing'})")


def _content(token: Any) -> str | None:
    """Configuration files spell a token as a string or as an object with a "content"."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) and value else None


def _add_configured_tokens(backend: Any, config: Mapping[str, Any]) -> None:
    """Add the tokens that tokenizer_config.json lists beyond those of tokenizer.json, in id order."""
    from tokenizers import AddedToken

    declared = config.get("added_tokens_decoder")
    if not isinstance(declared, dict):
        return
    entries = sorted(
        (int(i), t) for i, t in declared.items() if i.isascii() and i.isdigit() and isinstance(t, dict)
    )
    for index, entry in entries:
        content = _content(entry)
        if content is None or backend.token_to_id(content) is not None:
            continue
        if index != backend.get_vocab_size(with_added_tokens=True):
            continue  # the package numbers added tokens itself: any other id would be a different token
        flags = {k: bool(entry.get(k, False)) for k in ("single_word", "lstrip", "rstrip", "normalized")}
        backend.add_tokens([AddedToken(content, special=bool(entry.get("special", False)), **flags)])


def _named_tokens(folder: Path, config: Mapping[str, Any], backend: Any) -> dict[str, str | None]:
    token_map = read_json_object(folder / "special_tokens_map.json")
    ids = [
        read_json_object(folder / "generation_config.json"),
        read_json_object(folder / "genai_config.json").get("model", {}),
        read_json_object(folder / "config.json"),
    ]
    named: dict[str, str | None] = {}
    for name in NAMED:
        token = _content(config.get(name)) or _content(token_map.get(name))
        for source in ids:
            if token is not None or name in config or not isinstance(source, dict):
                break  # a token that the tokenizer's own file sets to null stays unset
            value = source.get(f"{name}_id")
            first = value[0] if isinstance(value, list) and value else value
            if isinstance(first, int) and 0 <= first < 2**31:
                token = backend.id_to_token(first)
        named[name] = token
    return named


def _chat_templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Template files win over the entry in tokenizer_config.json."""
    templates: dict[str, str] = {}
    declared = config.get("chat_template")
    if isinstance(declared, str):
        templates["default"] = declared
    elif isinstance(declared, list):
        for entry in declared:
            if isinstance(entry, dict) and isinstance(entry.get("template"), str):
                templates[str(entry.get("name", "default"))] = entry["template"]
    for file in sorted((folder / "chat_templates").glob("*.jinja")):
        templates[file.stem] = read_text(file)
    if (folder / "chat_template.jinja").is_file():
        templates["default"] = read_text(folder / "chat_template.jinja")
    return templates
