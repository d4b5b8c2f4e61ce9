"""Options of generation against transformers' `generate`, on a model whose logits are a random table."""

import contextlib
import itertools
import warnings

import numpy as np
import pytest
import torch
import transformers
from helpers.cases import each_case
from helpers.models.real_models import MODELS
from helpers.models.table_model import TableModel
from transformers import modeling_outputs as outputs

from lite.models import GenerationConfig, OnnxDecoder, full_logits, generate
from lite.models.generation import beams as our_beams

pytestmark = pytest.mark.filterwarnings("ignore")


class _Config(transformers.PretrainedConfig):
    model_type = "table"


class _Table(transformers.PreTrainedModel, transformers.GenerationMixin):
    """The same table as a model of the reference."""

    config_class = _Config

    def __init__(self, table):
        super().__init__(_Config(vocab_size=table.shape[1]))
        self.table = torch.from_numpy(table)
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids, **_):
        places = torch.arange(1, input_ids.shape[1] + 1)
        keys = (input_ids * places).sum(1) % len(self.table)
        return outputs.CausalLMOutput(logits=self.table[keys][:, None])


PROMPT = [1, 2, 3, 2, 5]


def theirs(model, prompt, **options):
    """The responses, and their scores where there are beams."""
    eos = options.get("eos_token_id")
    config = transformers.GenerationConfig(
        use_cache=False, return_dict_in_generate=True, output_scores=True, pad_token_id=999, **options
    )
    ids = torch.tensor([prompt])
    out = _Table(model.table).generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    ends = set(eos if isinstance(eos, list) else [eos])
    rows = []
    for row in out.sequences[:, len(prompt) :].tolist():
        end = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        rows.append([token for token in row[:end] if token != 999])
    return rows, None if out.get("sequences_scores") is None else out.sequences_scores.numpy()


def ours(model, prompts, count=1, **options):
    return generate(model, prompts, GenerationConfig.from_kwargs(options), num_samples=count)


def test_options_of_the_reference_work_or_raise():
    """None is only warned of; those that are ignored choose what else is told, or how it is computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in vars(transformers.GenerationConfig()):
            with contextlib.suppress(ValueError, TypeError):
                GenerationConfig.from_kwargs({name: 7})


# -- beams -------------------------------------------------------------------------------------

BEAMS, EARLY = [2, 3, 5], [False, True, "never"]
PENALTIES, ENDS = [1.0, 0.0, 2.0, -0.7], [0, [0], [0, 4, 7], None]
# Each pair of values of two options.
PAIRS = [
    (BEAMS[(i + j) % 3], PENALTIES[i], EARLY[(i + 2 * j) % 3], ENDS[j])
    for i, j in itertools.product(range(4), range(4))
]


@pytest.mark.parametrize("seed", range(2))
@each_case(("beams", "penalty", "early", "eos"), PAIRS)
def test_beams(seed, beams, penalty, early, eos):
    model = TableModel.random(seed + 10 * beams, vocab_size=13, spread=1.0 + seed)
    options = {
        "num_beams": beams, "length_penalty": penalty, "early_stopping": early, "eos_token_id": eos,
        "max_new_tokens": 9, "num_return_sequences": beams, "do_sample": False,
    }  # fmt: skip
    tokens, scores = theirs(model, PROMPT, **options)
    found = ours(model, [PROMPT], beams, **options)
    assert [one.tokens.tolist() for one in found] == tokens
    np.testing.assert_allclose([one.score for one in found], scores, atol=1e-5, rtol=1e-5)
    assert not model.rows


@each_case(("seed", "beams"), [(0, 1), (1, 3)])
@each_case(
    "options",
    [
        {"repetition_penalty": 1.7},
        {"repetition_penalty": 0.6},
        {"no_repeat_ngram_size": 1},
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 3},
        {"bad_words_ids": [[4], [2, 5], [1, 2, 3], [0]]},
        {"min_new_tokens": 6},
        {"sequence_bias": {(3,): 2.5, (5, 6): -4.0, (2, 5, 7): 9.0}},
        {
            "sequence_bias": {(3,): 2.5, (5, 6): 4.0}, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2,
            "bad_words_ids": [[9], [3, 8]], "min_new_tokens": 4,
        },
    ],
)  # fmt: skip
def test_processors(seed, beams, options):
    model = TableModel.random(seed, vocab_size=14)
    common = {"max_new_tokens": 8, "eos_token_id": [0, 6], "num_beams": beams, "do_sample": False, **options}
    tokens, scores = theirs(model, PROMPT, **common)
    (found,) = ours(model, [PROMPT], **common)
    assert found.tokens.tolist() == tokens[0]
    if beams > 1:
        np.testing.assert_allclose(found.score, scores[0], atol=1e-5, rtol=1e-5)


# -- beams that are drawn ------------------------------------------------------------------------


class Multinomial:
    """Draws of the reference without replacement, with the noise that lite draws with."""

    def __init__(self, seed):
        self.seed = seed
        self.step = 0

    def __call__(self, probs, num_samples, **_):
        (row,) = probs.double().log().numpy()
        keys = row + our_beams._gumbel(np.uint64(self.seed), self.step, row.astype(np.float32))
        self.step += 1
        return torch.from_numpy(np.argsort(-keys, kind="stable")[:num_samples].copy())[None]


FILTERS = [
    {},
    {"temperature": 0.6},
    {"temperature": 2.5, "top_k": 1},
    {"top_k": 4},
    {"top_p": 0.4},
    {"top_p": 0.8, "temperature": 1.5},
    {"min_p": 0.3},
    {"typical_p": 0.3},
    {"typical_p": 0.9, "top_k": 8, "top_p": 0.95, "min_p": 0.02, "temperature": 1.2},
    {"top_k": 6, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "bad_words_ids": [[4], [2, 5]]},
    {"temperature": 1.4, "min_new_tokens": 4, "sequence_bias": {(3,): 2.5, (5, 6): -4.0}},
]


@each_case(("seed", "beams", "eos"), [(0, 2, [0, 4, 7]), (1, 4, 0), (1, 2, None)])
@pytest.mark.parametrize("options", FILTERS)
def test_beams_that_are_drawn(seed, beams, eos, options, monkeypatch):
    """With equal noise the same beams, the same scores, and the same log-prob of each token."""
    model = TableModel.random(seed + 3 * beams, vocab_size=14, spread=1.0 + seed)
    common = {
        "num_beams": beams, "num_return_sequences": beams, "do_sample": True, "eos_token_id": eos,
        "max_new_tokens": 8, "length_penalty": [1.0, 0.3][seed], **options,
    }  # fmt: skip
    if eos is None:
        common.pop("min_new_tokens", None)
    monkeypatch.setattr(torch, "multinomial", Multinomial(seed + 70))
    config = transformers.GenerationConfig(
        use_cache=False, return_dict_in_generate=True, output_scores=True, output_logits=True,
        pad_token_id=999, **{"top_k": None, **common},
    )  # fmt: skip
    ids = torch.tensor([PROMPT])
    table = _Table(model.table)
    out = table.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    rows = out.sequences[:, len(PROMPT) :]
    sampled = table.compute_transition_scores(
        rows.clamp(max=13), out.scores, out.beam_indices, normalize_logits=True
    )
    seeds = np.full(beams, seed + 70, np.uint64)
    known = GenerationConfig.from_kwargs({**common, "sampled_log_probs": True, "logprobs": 3})
    found = generate(model, [PROMPT], known, num_samples=beams, seeds=seeds)
    ends = set(eos if isinstance(eos, list) else [eos])
    compared = 0
    for one, row, score, own in zip(found, rows.tolist(), out.sequences_scores, sampled, strict=True):
        if score < -1e8:  # the reference fills up with beams that are none
            assert one.score == -np.inf
            continue
        end = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        assert one.tokens.tolist() == row[:end]
        np.testing.assert_allclose(one.score, score, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(one.details.sampled_log_probs, own[:end], atol=2e-6)
        compared += 1
    assert compared >= (1 if options.get("top_k") == 1 else 2)


# -- draws -------------------------------------------------------------------------------------

OPTIONS = [
    {}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.15}, {"typical_p": 0.7},
    {"typical_p": 0.3, "top_k": 9, "temperature": 1.6},
    {"repetition_penalty": 1.6},
    {"repetition_penalty": 0.7, "top_p": 0.9},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 1},
    {"bad_words_ids": [[4], [2, 5], [1, 2, 3], [0]]},
    {"min_new_tokens": 6, "top_k": 4},
    {"sequence_bias": {(3,): 2.5, (5, 6): -4.0, (2, 5): 9.0, (2, 5, 7): 6.0}},
    {
        "sequence_bias": {(3,): 2.5, (5, 6): 4.0}, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2,
        "bad_words_ids": [[9], [3, 8]], "min_new_tokens": 4, "temperature": 1.3, "top_k": 10, "top_p": 0.9,
        "min_p": 0.05, "typical_p": 0.8,
    },
    # twice: the last
    {"sequence_bias": [[[3], 9.0], [[1, 2], 1.0], [[3], -2.0], [[5, 5], 3.0], [[1, 2], 4.0]]},
    {"suppress_tokens": [0, 2, 9], "min_new_tokens": 2},  # an end among them
]  # fmt: skip


def processed(model, ids, start, **options):
    """The reference's scores of the next token, after all of its processors."""
    config = transformers.GenerationConfig(do_sample=True, **{"top_k": None, **options})
    table = _Table(model.table)
    table._prepare_special_tokens(config, True, device="cpu")
    processors = table._get_logits_processor(config, input_ids_seq_length=start, device="cpu")
    logits = torch.from_numpy(model.logits(ids).copy())[None]
    return torch.log_softmax(processors(torch.tensor([ids]), logits)[0].double(), -1).numpy()


@pytest.mark.parametrize("options", OPTIONS)
def test_distributions_that_tokens_are_drawn_from(options):
    """Each token's support and log-prob are those of the reference's scores after the same ids."""
    model = TableModel.random(7, vocab_size=14)
    common = {"max_new_tokens": 10, "eos_token_id": [0, 6], **options}
    config = GenerationConfig.from_kwargs({"do_sample": True, "kept_ids": True, **common})
    prompts = [PROMPT, [3, 1], [5, 6, 7, 5]]
    for i, response in enumerate(generate(model, prompts, config, num_samples=2)):
        known, ids = response.details, list(prompts[i // 2])
        for t, token in enumerate(response.tokens.tolist()):
            expected = processed(model, ids, len(prompts[i // 2]), **{**common, "pad_token_id": 999})
            kept = known.kept_ids[known.kept_offsets[t] : known.kept_offsets[t + 1]].tolist()
            assert (kept or list(range(14))) == np.flatnonzero(np.isfinite(expected)).tolist()
            np.testing.assert_allclose(known.sampled_log_probs[t], expected[token], atol=2e-6)
            ids.append(token)


@pytest.mark.parametrize("beams", [1, 3])
def test_functions_of_the_user_come_after_the_rest(beams):
    """As the reference's `logits_processor`: after biases, penalties and bans, before the temperature."""
    model, seen = TableModel.random(8, vocab_size=14), {}
    options = {"repetition_penalty": 1.7, "bad_words_ids": [[9], [2, 5]], "max_new_tokens": 6}

    class Theirs(transformers.LogitsProcessor):
        def __call__(self, ids, scores):
            for row, own in zip(ids, scores, strict=True):
                seen[tuple(row.tolist())] = own.numpy().copy()
            return scores - scores.clamp(min=-3) * (torch.arange(14) % 3)

    def our(ids, scores):
        if tuple(ids.tolist()) in seen:
            np.testing.assert_allclose(scores, seen[tuple(ids.tolist())], atol=1e-5)
        return scores - scores.clip(min=-3) * (np.arange(14, dtype=np.float32) % 3)

    ids = torch.tensor([PROMPT])
    config = transformers.GenerationConfig(
        use_cache=False, pad_token_id=99, do_sample=False, num_beams=beams, **options
    )
    processors = transformers.LogitsProcessorList([Theirs()])
    out = _Table(model.table).generate(
        ids, attention_mask=torch.ones_like(ids), generation_config=config, logits_processor=processors
    )
    (found,) = ours(model, [PROMPT], logits_processor=our, num_beams=beams, **options)
    assert found.tokens.tolist() == out[0, len(PROMPT) :].tolist()
    assert len(seen) >= 6


# -- real exports --------------------------------------------------------------------------------


class _Export(_Table):
    """An export behind the reference's `generate`."""

    def __init__(self, decoder):
        super().__init__(np.zeros((1, decoder.vocab_size), np.float32))
        self.decoder = decoder

    def forward(self, input_ids, **_):
        rows = [np.array([*row, 0]) for row in input_ids.tolist()]  # the logits after the last id
        logits = np.stack([row[-1] for row in full_logits(self.decoder, rows)])
        return outputs.CausalLMOutput(logits=torch.from_numpy(logits)[:, None])


EXPORTS = sorted(path.name for path in MODELS.iterdir() if path.is_dir())
# Beams on all, as each decoder moves its cache with them; the other options know nothing of it.
ON_EXPORTS = [
    *((name, {"num_beams": 3, "num_return_sequences": 3}) for name in EXPORTS),
    (
        "optimum-llama",
        {"num_beams": 4, "length_penalty": 0.5, "early_stopping": "never", "no_repeat_ngram_size": 2},
    ),
    ("optimum-gpt2-nopos", {"repetition_penalty": 1.3, "bad_words_ids": [[7], [3, 9]], "min_new_tokens": 3}),
]


@pytest.mark.parametrize(("name", "options"), ON_EXPORTS)
def test_exports(name, options):
    """Ragged prompts in one batch, each as the reference has it alone."""
    decoder = OnnxDecoder(MODELS / name, num_threads=1)
    prompts = [[3, 4, 5], [6, 7, 8, 9, 10], [11]]
    common = {"max_new_tokens": 6, "eos_token_id": 2, **options}
    count = common.pop("num_return_sequences", 1)
    found = generate(decoder, prompts, GenerationConfig.from_kwargs(common), num_samples=count)
    for i, prompt in enumerate(prompts):
        ids = torch.tensor([prompt])
        config = transformers.GenerationConfig(
            use_cache=False, return_dict_in_generate=True, output_scores=True, do_sample=False,
            pad_token_id=0, num_return_sequences=count, **common,
        )  # fmt: skip
        out = _Export(decoder).generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        own = found[i * count : (i + 1) * count]
        for one, row in zip(own, out.sequences[:, len(prompt) :].tolist(), strict=True):
            assert one.tokens.tolist() == row[: len(one.tokens)]
        if "num_beams" in options:
            tolerance = 2e-2 if "int4" in name else 1e-4
            np.testing.assert_allclose([one.score for one in own], out.sequences_scores, atol=tolerance)
