"""Log-probs of a reference model, and the KL penalty they give, as modules on TensorDicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import LazyStackedTensorDict, NestedKey
from lite._arrays.caller import warn
from lite.models.text.data import LogProbs
from lite.models.text.nesting import nest, ragged, rows_of
from lite.models.wrapper.input import nested_key
from lite.models.wrapper.output import by_row
from lite.nn import TensorDictModuleBase, TensorDictSequential

Rows = Sequence[NDArray[Any]]


class RetrieveLogProb(TensorDictModuleBase):
    """Write the log-probs of a model for the tokens in a TensorDict.

    The model reads from the TensorDict; the log-probs are written below "next" if there is such an entry,
    else beside what was read. Nothing else that the model writes is kept.

    Args:
        model: a wrapper with ``generate=False``.
        log_probs_full_key: key of the log-probs; by default the model's ``(log_probs_key, "full")``.
        assistant_only: 0 for what assistants did not say; the model reads histories then, or tokens, of which
            the batch has ("masks", "all_assistant_mask").
        tokenizer_kwargs, detach, tokenizer: kept for compatibility; have no effect.
        device: None, or the model's own.
        padding_side: kept for compatibility; rows stay where the model has them.

    Raises:
        ValueError: the model generates or gives no log-probs, it reads texts and ``assistant_only`` is set,
            or it is on another device.

    Source:
        `RetrieveLogProb` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> from lite import TensorDict
        >>> from lite.models import OnnxWrapper, RetrieveLogProb, Text, embedded_model_path
        >>> judge = OnnxWrapper(embedded_model_path(), input_mode="text", generate=False)
        >>> td = TensorDict(text=Text(full=["one", "two"], batch_size=[2]), batch_size=[2])
        >>> transform = RetrieveLogProb(judge, log_probs_full_key=("ref", "full"), assistant_only=False)
        >>> [row.shape for row in transform(td).get(("ref", "full"), as_list=True)]
        [(1,), (3,)]
    """

    def __init__(
        self,
        model: Any,
        *,
        log_probs_full_key: NestedKey | None = None,
        assistant_only: bool = True,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        detach: bool = True,
        device: str | None = None,
        tokenizer: Any = None,
        padding_side: str = "left",
    ) -> None:
        super().__init__()
        _check_scores(model, "model", "RetrieveLogProb")
        mode = getattr(model, "input_mode", "history")
        if assistant_only and mode == "text":
            raise ValueError(
                "The model must have `input_mode='history'` when `assistant_only=True`, or 'tokens' for those"
                " of a batch with a mask: of texts none knows what assistants said; pass assistant_only=False"
            )
        own = getattr(getattr(model, "model", None), "device", "cpu")
        if device not in (None, own):
            raise ValueError(
                f"device={device!r} differs from the model's, {own!r}; give it where the model is made"
            )
        if log_probs_full_key is None:
            log_probs_full_key = nested_key(model.log_probs_key, "full")
        elif isinstance(log_probs_full_key, str) or log_probs_full_key[-1] != "full":
            warn(
                f"log_probs_full_key should be a tuple that ends with 'full', got {log_probs_full_key!r}",
                UserWarning,
            )
        self.model = model
        self.log_probs_full_key = log_probs_full_key
        self.assistant_only = assistant_only
        self.in_keys = list(model.in_keys)
        self.out_keys = [log_probs_full_key]

    def forward(self, tensordict: Any) -> Any:
        """Score, and write the log-probs.

        Args:
            tensordict: holds what the model reads; any batch shape.

        Returns:
            The TensorDict. If it is a dense one and a key at its top is to hold rows of different lengths, a
            lazy stack of its elements, as nothing else holds those.

        Raises:
            ValueError: ``assistant_only`` is set, and the tokens of assistants are unknown.
        """
        model, ndim = self.model, len(tensordict.batch_size)
        scored = model(tensordict.copy())
        rows = rows_of(scored.get(nested_key(model.log_probs_key, "full"), as_list=True), ndim)
        if self.assistant_only:
            said = scored.get(nested_key(model.masks_key, "all_assistant_mask"), None, as_list=True)
            if said is None:
                raise ValueError(
                    "there is no assistant mask: the chat template does not tell what assistants said, or a"
                    " batch of tokens has none. Use a template with {% generation %} blocks, or pass"
                    " assistant_only=False"
                )
            rows = [
                np.where(mask, row, np.zeros_like(row))
                for row, mask in zip(rows, rows_of(said, ndim), strict=True)
            ]
        return _at_next(tensordict, lambda td: _put(td, self.log_probs_full_key, rows))


class KLComputation(TensorDictModuleBase):
    """Write how much more probable one model finds each token than another, and lower the reward by it.

    The penalty of a token is log p - log q of the token that was drawn from p, whose mean is the divergence
    KL(p||q); it is 0 where either is NaN, which stands for no score. The new reward is
    ``reward - coeff * penalty``, one for each token; rewards are those of tokens, (..., L, 1), or of
    responses, (..., 1). Everything is read and written below "next" if there is such an entry.

    Args:
        gen_log_probs_full_key: the log-probs under the model that generates, (*batch, L) or ragged rows.
        ref_log_probs_full_key: those under the reference model, of the same lengths.
        kl_key: key of the penalty.
        add_to_reward: write the reward, too, if there is one.
        coeff: the factor of the penalty in the reward.
        padding_side: kept for compatibility; rows stay where they are.

    Source:
        `KLComputation` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.models import KLComputation
        >>> gen, ref = TensorDict(full=np.array([-1.0, -2.0])), TensorDict(full=np.array([-3.0, -2.0]))
        >>> td = TensorDict(log_probs=gen, ref_log_probs=ref, reward=np.ones((1, 1)))
        >>> KLComputation(coeff=0.5)(td)["reward"].tolist()
        [[0.0], [1.0]]
    """

    def __init__(
        self,
        gen_log_probs_full_key: NestedKey = ("log_probs", "full"),
        ref_log_probs_full_key: NestedKey = ("ref_log_probs", "full"),
        *,
        kl_key: NestedKey = "kl_penalty",
        add_to_reward: bool = True,
        coeff: float = 1.0,
        padding_side: str = "left",
    ) -> None:
        super().__init__()
        self.gen_log_probs_full_key = gen_log_probs_full_key
        self.ref_log_probs_full_key = ref_log_probs_full_key
        self.kl_key = kl_key
        self.add_to_reward = add_to_reward
        self.coeff = coeff
        reward: list[NestedKey] = ["reward"] if add_to_reward else []
        self.in_keys = [gen_log_probs_full_key, ref_log_probs_full_key, *reward]
        self.out_keys = [kl_key, *reward]

    def forward(self, tensordict: Any) -> Any:
        """Write the penalty and the reward.

        Returns:
            The TensorDict; a dense one without "next" as a lazy stack of its elements if rows have different
            lengths, as nothing else holds those.

        Raises:
            ValueError: log-probs are missing or of different shapes, or rewards are of neither shape.
        """
        return _at_next(tensordict, self._compute)

    def _compute(self, td: Any) -> Any:
        ndim = len(td.batch_size)
        keys = (self.gen_log_probs_full_key, self.ref_log_probs_full_key)
        found = [td.get(key, None, as_list=True) for key in keys]
        if found[0] is None or found[1] is None:
            raise ValueError(f"Log-probs not found. Expected keys: {keys[0]}, {keys[1]}")
        penalties = _differences(*(rows_of(value, ndim) for value in found))
        length = np.shape(found[0])[ndim:] if not penalties else ()
        value = td.get("reward", None, as_list=True) if self.add_to_reward else None
        if value is None:
            return _put(td, self.kl_key, penalties, length)
        rewards = rows_of(value, ndim)
        # those of responses, as `LLMCollector` gives them: each token has its response's
        rewards = [reward[..., None] if reward.shape == (1,) else reward for reward in rewards]
        for reward, penalty in zip(rewards, penalties, strict=True):
            if reward.ndim != penalty.ndim + 1:
                raise ValueError(
                    f"The rewards have shape {reward.shape} but the kl has shape {penalty.shape}: the rewards"
                    " should have one more dimension than the KL."
                )
        rewards = [
            reward - self.coeff * penalty[..., None]
            for reward, penalty in zip(rewards, penalties, strict=True)
        ]
        return _put(_put(td, self.kl_key, penalties, length), "reward", rewards, (*length, 1))


class RetrieveKL(TensorDictSequential):
    """Score with two models and write the KL penalty between them.

    These are two `RetrieveLogProb` and a `KLComputation` in a row.

    Args:
        gen_model: the model that generates, as a wrapper with ``generate=False``
            (``policy.get_new_version(generate=False, log_probs_key="gen_log_probs")``).
        ref_model: the reference model, likewise, with another ``log_probs_key``.
        gen_model_factory, ref_model_factory: functions that make them, instead.
        assistant_only: penalties of what assistants said only, see `RetrieveLogProb`.
        history_key, tokenizer_kwargs, detach, tokenizer, padding_side: kept for compatibility; have no
            effect.
        device: None, or the models' own.
        gen_log_probs_full_key, ref_log_probs_full_key: keys of the log-probs.
        kl_key, add_to_reward, coeff: see `KLComputation`.

    Raises:
        ValueError: a model is missing, generates or gives no log-probs, or the two pad differently or have
            one ``log_probs_key``.

    Source:
        `RetrieveKL` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> from lite import TensorDict
        >>> from lite.models import OnnxWrapper, RetrieveKL, Text, embedded_model_path
        >>> options = {"input_mode": "text", "generate": False, "pad_output": True}
        >>> gen = OnnxWrapper(embedded_model_path(), log_probs_key="gen", **options)
        >>> ref = gen.get_new_version(log_probs_key="ref")
        >>> td = TensorDict(text=Text(full=["one"], batch_size=[1]), batch_size=[1])
        >>> RetrieveKL(gen, ref, assistant_only=False)(td)["kl_penalty"].tolist()
        [[0.0]]
    """

    def __init__(
        self,
        gen_model: Any = None,
        ref_model: Any = None,
        *,
        gen_model_factory: Callable[[], Any] | None = None,
        ref_model_factory: Callable[[], Any] | None = None,
        assistant_only: bool = True,
        history_key: NestedKey = "history",
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        detach: bool = True,
        device: str | None = None,
        tokenizer: Any = None,
        padding_side: str = "left",
        gen_log_probs_full_key: NestedKey = ("log_probs", "full"),
        ref_log_probs_full_key: NestedKey = ("ref_log_probs", "full"),
        kl_key: NestedKey = "kl_penalty",
        add_to_reward: bool = True,
        coeff: float = 1.0,
    ) -> None:
        gen_model = _made("gen_model", gen_model, gen_model_factory)
        ref_model = _made("ref_model", ref_model, ref_model_factory)
        pads = [getattr(model, "pad_output", None) for model in (gen_model, ref_model)]
        if pads[0] != pads[1]:
            raise ValueError(
                f"pad_output mismatch: gen_model.pad_output={pads[0]}, ref_model.pad_output={pads[1]}."
                " Both models must pad in the same way"
            )
        _check_scores(gen_model, "generation model", "RetrieveKL")
        _check_scores(ref_model, "reference model", "RetrieveKL")
        if gen_model.log_probs_key == ref_model.log_probs_key:
            raise ValueError(
                "The generation and reference models must have different `log_prob_key` values, got"
                f" {gen_model.log_probs_key!r} twice"
            )
        options: dict[str, Any] = {"assistant_only": assistant_only, "device": device}
        super().__init__(
            RetrieveLogProb(gen_model, log_probs_full_key=gen_log_probs_full_key, **options),
            RetrieveLogProb(ref_model, log_probs_full_key=ref_log_probs_full_key, **options),
            KLComputation(
                gen_log_probs_full_key,
                ref_log_probs_full_key,
                kl_key=kl_key,
                add_to_reward=add_to_reward,
                coeff=coeff,
            ),
        )


def _made(name: str, model: Any, factory: Callable[[], Any] | None) -> Any:
    if model is not None and factory is not None:
        raise ValueError(f"Cannot provide both '{name}' and '{name}_factory'. Choose one.")
    made = factory() if factory is not None else model
    if made is None:
        raise ValueError(f"{name} cannot be None")
    return made


def _check_scores(model: Any, what: str, user: str) -> None:
    if not hasattr(model, "log_probs_key"):
        raise TypeError(f"The {what} of `{user}` must be an OnnxWrapper with generate=False, got {model!r}")
    for name, value in (("return_log_probs", True), ("generate", False)):
        if getattr(model, name, None) is (not value):
            raise ValueError(f"The {what} must have `{name}={value}` to use `{user}`")


def _differences(gen: Rows, ref: Rows) -> list[NDArray[Any]]:
    penalties = []
    for i, (p, q) in enumerate(zip(gen, ref, strict=True)):
        if p.shape != q.shape:
            if p.ndim > 1 and len(p) != len(q):  # several rows in a TensorDict without a batch
                raise ValueError(
                    f"Batch size mismatch: gen_log_probs has {len(p)} samples, ref_log_probs has {len(q)}"
                    " samples"
                )
            raise ValueError(
                f"Sample {i} has different shapes: gen_log_probs[{i}].shape={p.shape},"
                f" ref_log_probs[{i}].shape={q.shape}"
            )
        unknown = np.isnan(p) | np.isnan(q)
        with np.errstate(invalid="ignore"):  # the difference of two infinities is not a number
            penalties.append(np.where(unknown, np.zeros_like(p), p - q))
    return penalties


def _at_next(td: Any, change: Callable[[Any], Any]) -> Any:
    next_td = td.get("next", None)
    return change(td) if next_td is None else td.set("next", change(next_td))


def _put(td: Any, key: NestedKey, rows: Rows, length: tuple[int, ...] = (0,)) -> Any:
    """Write one array per batch element; rows of different lengths make a lazy stack of what holds them.

    `length` is the shape of a row where there are no rows.
    """
    shape = tuple(td.batch_size)
    if len({row.shape for row in rows}) <= 1:
        joined = np.stack(rows) if rows else np.zeros((0, *length), np.float32)
        return td.set(key, joined.reshape(*shape, *joined.shape[1:]))
    *above, name = (key,) if isinstance(key, str) else key
    if above and td.get(tuple(above), None) is None and name == "full":
        return td.set(tuple(above), ragged(LogProbs, {name: rows}, shape))
    if not isinstance(td, LazyStackedTensorDict) and not (above and tuple(above) in td):
        td = by_row(td)
    return td.set(key, nest(rows, shape))
