"""RetrieveLogProb, RetrieveKL and KLComputation against torchrl's, around one real export."""

from pathlib import Path

import numpy as np
import pytest
import tensordict
import torch
import transformers
from helpers.cases import each_case
from parity.torch_face import TorchFace
from torchrl.data import llm as data
from torchrl.envs.llm.transforms import kl
from torchrl.modules import llm
from torchrl.modules.llm.policies import common

import lite
from lite import models
from lite.models import OnnxDecoder, OnnxWrapper, Tokenizer

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("lists_as_batches")]


EXPORTS = Path(__file__).parents[1] / "models" / "exports"
# two models of one tokenizer
FOLDERS = {"gen": "optimum-llama", "ref": "optimum-gpt2"}
CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello there!"}],
    [{"role": "user", "content": "12 + 30?"}, {"role": "assistant", "content": "42, as ever."}],
]
TEXTS = ["Hi", "Hello there, 12 + 30?"]
MODES = [("history", True, True), ("history", False, False), ("text", False, True)]
# chatml whose marks end behind the end of a turn, which is what lite counts under any template.
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{{ '\\n' }}{% else %}{{ message['content'] + '<|im_end|>\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def sides():
    """Makes a wrapper of one of the two models, ours and the reference's."""
    decoders = {name: OnnxDecoder(EXPORTS / folder) for name, folder in FOLDERS.items()}
    folder = EXPORTS / FOLDERS["gen"]
    ours, theirs = Tokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)

    def make(name, **options):
        options = {"generate": False, "log_probs_key": f"{name}_log_probs", **options}
        if options["input_mode"] == "history":
            options["chat_template"] = CHATML
        return (
            OnnxWrapper(decoders[name], tokenizer=ours, **options),
            llm.TransformersWrapper(TorchFace(decoders[name]), tokenizer=theirs, **options),
        )

    return make


def batches(mode, reward):
    """Data with rewards below "next"; the reference's in lazy stacks, which hold its ragged results."""
    if mode == "history":
        ours = models.ChatHistory(full=models.History.from_chats(CHATS), batch_size=[2])
        theirs = common.ChatHistory(full=data.History.from_chats(CHATS), batch_size=[2])
    else:
        ours, theirs = models.Text(full=TEXTS, batch_size=[2]), common.Text(full=TEXTS, batch_size=[2])
    mine = lite.TensorDict({mode: ours}, batch_size=[2])
    mine["next"] = lite.TensorDict({"reward": reward}, batch_size=[2])
    other = tensordict.TensorDict({mode: theirs}, batch_size=[2]).to_lazystack(0)
    other["next"] = tensordict.TensorDict({"reward": torch.tensor(reward)}, batch_size=[2]).to_lazystack(0)
    return mine, other


def assert_rows(mine, other, *key):
    found = [td.get(key if len(key) > 1 else key[0], as_list=True) for td in (mine, other)]
    assert len(found[0]) == len(found[1]) == 2
    for a, b in zip(*found, strict=True):
        assert np.any(np.asarray(a))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-5, err_msg=str(key))
        assert np.asarray(a).dtype == np.asarray(b).dtype


@each_case(("mode", "assistant_only", "padded"), MODES)
def test_kl(sides, mode, assistant_only, padded):
    pairs = [sides(name, input_mode=mode, pad_output=padded) for name in FOLDERS]
    reward = np.random.default_rng(0).normal(size=(2, 1, 1)).astype(np.float32)
    results = []
    for module, td, wrappers in zip(
        (models, kl), batches(mode, reward), zip(*pairs, strict=True), strict=True
    ):
        transform = module.RetrieveKL(*wrappers, assistant_only=assistant_only, coeff=0.3)
        results.append(transform(td)["next"])
    for key in (("log_probs", "full"), ("ref_log_probs", "full"), ("kl_penalty",), ("reward",)):
        assert_rows(*results, *key)
    ours, theirs = models.KLComputation(), kl.KLComputation()
    assert (ours.in_keys, ours.out_keys) == (theirs.in_keys, theirs.out_keys)


@each_case(("mode", "assistant_only", "padded"), MODES)
def test_log_probs(sides, mode, assistant_only, padded):
    results = []
    for module, td, wrapper in zip(
        (models, kl),
        batches(mode, np.zeros((2, 1, 1), np.float32)),
        sides("gen", input_mode=mode, pad_output=padded),
        strict=True,
    ):
        transform = module.RetrieveLogProb(wrapper, assistant_only=assistant_only)
        assert transform.in_keys == [(mode, "full")]
        assert transform.out_keys == [("gen_log_probs", "full")]
        results.append(transform(td.exclude("next")))
    assert_rows(*results, "gen_log_probs", "full")


def test_nan():
    values = np.array([[np.nan, -1, -np.inf, -2.5]]), np.array([[-1, np.nan, -1, -0.5]])
    found = []
    for library, module, array in ((lite, models, np.array), (tensordict, kl, torch.tensor)):
        gen, ref = (library.TensorDict(full=array(value), batch_size=[1]) for value in values)
        td = library.TensorDict(log_probs=gen, ref_log_probs=ref, batch_size=[1])
        found.append(module.KLComputation(add_to_reward=False)(td).get("kl_penalty", as_list=True))
    np.testing.assert_array_equal(np.asarray(found[0][0]), np.asarray(found[1][0]))
