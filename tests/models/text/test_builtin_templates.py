"""The built-in chat templates, registered ones, and the choice among them."""

from typing import Any

import pytest
from helpers.cases import raises

from lite.models.text.builtin_templates import (
    BUILT_IN,
    add_chat_template,
    find_chat_template,
    has_generation_block,
)
from lite.models.text.template_rendering import render_chat

USER = {"role": "user", "content": "Hi"}
BOT = {"role": "assistant", "content": "Yo"}


def test_built_in_masks_cover_what_the_assistant_wrote() -> None:
    for name, source in BUILT_IN.items():
        out = render_chat(source, [USER, BOT, USER, BOT], eos_token="</s>", bos_token="<s>")
        assert [out.text[a:b].strip() for a, b in out.spans] == ["Yo", "Yo"], name


def test_texts_of_parts_are_written() -> None:
    image = {"type": "image_url", "image_url": {"url": "u"}}
    for name, source in BUILT_IN.items():
        for roles in (["user"], ["system", "user"], ["user", "assistant"], ["user", "assistant", "tool"]):
            turns: list[dict[str, Any]] = [{"role": role, "content": f"a {role}"} for role in roles]
            parts = [
                [{"type": "text", "text": "a "}, image, {"type": "text", "text": role}] for role in roles
            ]
            told = [{**turn, "content": content} for turn, content in zip(turns, parts, strict=True)]
            special = {"bos_token": "<s>", "eos_token": "</s>"}
            assert render_chat(source, told, **special) == render_chat(source, turns, **special), (
                name,
                roles,
            )


def test_choice_of_template() -> None:
    class Tok:
        def __init__(self, name: str, own: str | None = None) -> None:
            self.name_or_path, self.chat_template = name, own

    tagged = "{%- generation %}{% endgeneration %}"
    assert find_chat_template(None, source="S", name="qwen") == "S"
    assert find_chat_template(None, name="qwen") == BUILT_IN["qwen"]
    assert find_chat_template(Tok("org/Qwen2.5", "own")) == "own"
    assert find_chat_template(Tok("org/Qwen2.5")) == BUILT_IN["qwen"]
    assert find_chat_template(Tok("qwen/falcon-7b/")) == BUILT_IN["falcon"]
    assert find_chat_template(Tok("qwen/other")) == BUILT_IN["chatml_format"]
    raises(KeyError, "unknown chat template name 'nope'", lambda: find_chat_template(None, name="nope"))
    raises(RuntimeError, "pass a tokenizer", lambda: find_chat_template(None))
    add_chat_template("zeta", tagged, model_family_keywords=["ZetaQwen"])
    assert find_chat_template(Tok("org/zetaqwen-1", "own")) == tagged
    with pytest.raises(TypeError, match="template must be Jinja source, a str, got 5"):
        add_chat_template("x", 5)  # type: ignore[arg-type]
    raises(ValueError, "generation", lambda: add_chat_template("eta", "no block"))
    assert not has_generation_block("{% if add_generation_prompt %}")


def test_the_tokenizers_template_for_tools(byte_tokenizer: Any) -> None:
    tokenizer = byte_tokenizer(chat_template={"default": "a", "tool_use": "b"})
    assert find_chat_template(tokenizer) == find_chat_template(tokenizer, tools=None) == "a"
    assert find_chat_template(tokenizer, tools=[]) == "b"
    assert find_chat_template(byte_tokenizer(chat_template="a"), tools=[]) == "a"
    assert find_chat_template(tokenizer, tools=[], source="c") == "c"
