"""OnnxWrapper against torchrl's TransformersWrapper, both around one real export.

What differs on purpose is left out of the comparison: the reference forces the first log-prob of a
response to 0, does not clear log-probs on padding, cuts padded history texts at the wrong place, and
gives no assistant mask at generation.
"""

from pathlib import Path

import numpy as np
import pytest
import tensordict
import transformers
from parity.torch_face import TorchFace
from torchrl.data import llm as data
from torchrl.modules import llm
from torchrl.modules.llm.policies import common

import lite
from lite.models import ChatHistory, History, OnnxDecoder, OnnxWrapper, Text, Tokenizer, Tokens

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("lists_as_batches")]


FOLDER = Path(__file__).parents[1] / "models" / "exports" / "optimum-llama"
TEXTS = ["Hi", "Hello there, 12 + 30?"]
MODES = ["history", "text", "tokens"]
NEW_TOKENS = 5


@pytest.fixture(scope="module")
def sides():
    """(our model and tokenizer, the reference's model and tokenizer)."""
    decoder, tokenizer = OnnxDecoder(FOLDER), Tokenizer.from_pretrained(FOLDER)
    face = TorchFace(
        decoder, new_tokens=NEW_TOKENS, eos=decoder.config.eos_token_ids, pad=tokenizer.pad_token_id
    )
    return decoder, tokenizer, face, transformers.AutoTokenizer.from_pretrained(FOLDER)


def wrappers(sides, mode, **options):
    decoder, tokenizer, face, their_tokenizer = sides
    options |= {"input_mode": mode, "inplace": False}
    if mode == "history":
        options["chat_template_name"] = "chatml_format"
    ours = (
        {"generate_kwargs": {"max_new_tokens": NEW_TOKENS, "do_sample": False}} if options["generate"] else {}
    )
    return (
        OnnxWrapper(decoder, tokenizer=tokenizer, **options, **ours),
        llm.TransformersWrapper(face, tokenizer=their_tokenizer, **options),
    )


def inputs(sides, mode, field):
    size = [len(TEXTS)]
    if mode == "tokens":
        ids = sides[3](TEXTS, padding=True, padding_side="left", return_tensors="pt")["input_ids"]
        ours, theirs = (
            Tokens(**{field: ids.numpy()}, batch_size=size),
            common.Tokens(**{field: ids}, batch_size=size),
        )
    elif mode == "text":
        ours, theirs = Text(**{field: TEXTS}, batch_size=size), common.Text(**{field: TEXTS}, batch_size=size)
    else:
        chats = [[{"role": "user", "content": text}] for text in TEXTS]
        if field == "full":
            chats = [[*chat, {"role": "assistant", "content": "yes"}] for chat in chats]
        ours = ChatHistory(**{field: History.from_chats(chats)}, batch_size=size)
        theirs = common.ChatHistory(**{field: data.History.from_chats(chats)}, batch_size=size)
    return lite.TensorDict({mode: ours}, batch_size=size), tensordict.TensorDict(
        {mode: theirs}, batch_size=size
    )


def rows(td, *key):
    return [np.asarray(row) for row in td.get(key, as_list=True)]


def assert_same(ours, theirs, *key, atol=0.0):
    for mine, other in zip(rows(ours, *key), rows(theirs, *key), strict=True):
        assert mine.dtype == other.dtype, key
        np.testing.assert_allclose(mine, other, rtol=0, atol=atol, err_msg=str(key))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
def test_generation(sides, mode, padded):
    ours, theirs = wrappers(sides, mode, generate=True, pad_output=padded)
    assert (ours.in_keys, ours.out_keys) == (theirs.in_keys, theirs.out_keys)
    mine, other = inputs(sides, mode, "prompt")
    mine, other = ours(mine), theirs(other)
    assert tuple(mine.batch_size) == tuple(other.batch_size)
    extra = {("masks", "all_assistant_mask")}
    assert set(mine.keys(True)) - extra == set(other.keys(True))
    for name in ("prompt", "response", "full"):
        assert_same(mine, other, "tokens", name)
    assert_same(mine, other, "masks", "all_attention_mask")
    pad = sides[1].pad_token_id
    for a, b, ids in zip(
        *(rows(td, "log_probs", "response") for td in (mine, other)),
        rows(mine, "tokens", "response"),
        strict=True,
    ):
        real = np.flatnonzero(ids != pad)[1:]
        np.testing.assert_allclose(a[real], b[real], atol=1e-5)
    for key in ("tokens", "masks", "log_probs"):
        assert mine.get(key).padded is padded
    if mode != "tokens":
        for name in ("prompt", "response", "full") if not padded or mode == "text" else ("prompt",):
            assert list(mine["text", name]) == list(other["text", name])
    if mode == "history" and not padded:
        a, b = mine["history"].full, other["history"].full
        assert tuple(a.batch_size) == tuple(b.batch_size)
        for i in range(len(TEXTS)):
            assert list(a[i].role) == list(b[i].role)
            assert [text.strip() for text in a[i].content] == list(b[i].content)
            assert a[i, -1].is_complete == b[i, -1].is_complete


@pytest.mark.parametrize("mode", MODES)
def test_log_probs_of_the_reference_on_request(sides, mode):
    decoder, tokenizer = sides[:2]
    _, theirs = wrappers(sides, mode, generate=True)
    options = {"chat_template_name": "chatml_format"} if mode == "history" else {}
    ours = OnnxWrapper(
        decoder, tokenizer=tokenizer, input_mode=mode, zero_first_log_prob=True,
        generate_kwargs={"max_new_tokens": NEW_TOKENS, "do_sample": False}, **options,
    )  # fmt: skip
    mine, other = inputs(sides, mode, "prompt")
    mine, other = ours(mine), theirs(other)
    lengths = [len(row) for row in rows(mine, "log_probs", "response")]
    assert max(lengths) > 1
    for a, b in zip(*(rows(td, "log_probs", "response") for td in (mine, other)), strict=True):
        assert a[0] == b[0] == 0
        np.testing.assert_allclose(a, b[: len(a)], atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("selected", [("masks",), ("log_probs", "masks")])
def test_selected_out_keys_in_place(sides, mode, selected):
    found = []
    for wrapper, td in zip(wrappers(sides, mode, generate=True), inputs(sides, mode, "prompt"), strict=True):
        version = wrapper.get_new_version(inplace=True)
        found.append(set(version.select_out_keys(*selected)(td).keys(True)))
    assert found[0] - {("masks", "all_assistant_mask")} == found[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
def test_scoring(sides, mode, padded):
    ours, theirs = wrappers(sides, mode, generate=False, pad_output=padded)
    assert (ours.in_keys, ours.out_keys) == (theirs.in_keys, theirs.out_keys)
    mine, other = inputs(sides, mode, "full")
    mine, other = ours(mine), theirs(other)
    assert set(mine.keys(True)) == set(other.keys(True))
    assert_same(mine, other, "tokens", "full")
    assert_same(mine, other, "masks", "all_attention_mask")
    assert_same(mine, other, "log_probs", "full", atol=1e-5)
    if mode == "history":  # ours has the end of the turn, too, which the model has to write
        masks = (rows(td, "masks", "all_assistant_mask") for td in (mine, other))
        for ours_, theirs_, ids in zip(*masks, rows(mine, "tokens", "full"), strict=True):
            assert not (theirs_ & ~ours_).any()
            assert ids[ours_ & ~theirs_].tolist() == [sides[1].eos_token_id]
            assert np.flatnonzero(ours_ & ~theirs_) == np.flatnonzero(theirs_)[-1] + 1
    if mode != "tokens":
        assert list(mine["text", "full"]) == list(other["text", "full"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("generate", [True, False])
def test_single_rows(sides, mode, padded, generate):
    ours, theirs = wrappers(sides, mode, generate=generate, pad_output=padded)
    mine, other = inputs(sides, mode, "prompt" if generate else "full")
    mine, other = ours(mine[0]), theirs(other[0])
    assert mine.batch_size == tuple(other.batch_size) == ()
    np.testing.assert_array_equal(mine["tokens", "full"], other["tokens", "full"])
    np.testing.assert_array_equal(mine["masks", "all_attention_mask"], other["masks", "all_attention_mask"])
