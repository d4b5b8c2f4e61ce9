"""Attention: ONNX's own operator, and those of exported language models, with rotations and caches."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from lite._arrays.types import Array, is_symbolic, stored
from lite._transforms.grad.tape import value_of
from lite.nn import functional
from lite.nn._import.integers import integers
from lite.nn._import.operators import MICROSOFT, Run, Spec, Unsupported, operator
from lite.nn._import.quantized import nibbles
from lite.nn.layers.masked_attention import ScoreRule, attention_in_blocks, key_ranges, masked_attention
from lite.nn.layers.row_attention import Rotary, Seen, row_attention

# -- rotations ---------------------------------------------------------------------------------------------


def apply_rotary(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """Pairs of numbers turned by angles.

    Args:
        x: (..., T, width); its first `2 * cos.shape[-1]` numbers are turned.
        cos: (..., T, half).
        sin: likewise.
        interleaved: whether a pair stands side by side, not half a width apart.
    """
    half = int(cos.shape[-1])
    if interleaved:
        pairs = x[..., : 2 * half].reshape(*x.shape[:-1], half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        turned = np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(*x.shape[:-1], 2 * half)
    else:
        a, b = x[..., :half], x[..., half : 2 * half]
        turned = np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    if 2 * half == x.shape[-1]:
        return turned
    return np.concatenate([turned, x[..., 2 * half :]], -1)


def split_heads(x: Array, count: int) -> Array:
    """(N, T, heads * width) as (N, heads, T, width)."""
    n, times, width = x.shape
    return np.transpose(x.reshape(n, times, count, width // count), (0, 2, 1, 3))


def _merge_heads(x: Array) -> Array:
    """(N, heads, T, width) as (N, T, heads * width)."""
    n, heads, times, width = x.shape
    return np.transpose(x, (0, 2, 1, 3)).reshape(n, times, heads * width)


def _rotary(spec: Spec, x: Array, cos: Array, sin: Array, position_ids: Array | None) -> Array:
    """The rotation of x (N, heads, T, width), or (N, T, heads * width), by tables (positions, half)."""
    flat, heads = x.ndim == 3, spec.get("num_heads", 0)
    if flat and not heads:
        heads = int(x.shape[-1]) // (2 * int(cos.shape[-1]))
    if flat:
        x = split_heads(x, heads)
    if position_ids is not None:
        if position_ids.ndim == 1:  # the first position of all rows
            position_ids = (position_ids + np.arange(x.shape[2]))[None]
        cos, sin = cos[position_ids], sin[position_ids]
    width = spec.get("rotary_embedding_dim", 0)
    if width:
        cos, sin = cos[..., : width // 2], sin[..., : width // 2]
    out = apply_rotary(x, cos[:, None], sin[:, None], bool(spec.get("interleaved", 0)))
    return _merge_heads(out) if flat else out


@operator("RotaryEmbedding")
def _rotary_embedding(spec: Spec) -> Run:
    return lambda x, cos, sin, position_ids=None: _rotary(spec, x, cos, sin, position_ids)


@operator("RotaryEmbedding", domain=MICROSOFT)
def _microsoft_rotary(spec: Spec) -> Run:
    return lambda x, position_ids, cos, sin: _rotary(spec, x, cos, sin, position_ids)


# -- attention ---------------------------------------------------------------------------------------------


def grouped_attention(
    q: Array, k: Array, v: Array, scale: float, score_bias: Array | None, rule: ScoreRule | None = None
) -> Array:
    """Means of values by the softmax of scores, where each head of k and v serves several of q.

    Args:
        q: (N, heads, T, width).
        k: (N, heads of keys, S, width).
        v: (N, heads of keys, S, width of values).
        scale: what scores are multiplied by.
        score_bias: what is added to them, broadcast to (N, heads, T, S); -inf hides a key.
        rule: what happens to them before that; nothing, unless given. Its ranges are (N, T).
    """
    n, heads, times, width = q.shape
    kv_heads, length = k.shape[1], k.shape[2]
    group_size = heads // kv_heads
    rule = ScoreRule() if rule is None else rule
    q = q * np.asarray(scale, q.dtype)
    out = _in_blocks(q, k, v, score_bias, rule)
    if out is not None:
        return out
    if rule.seen is not None:
        keys = np.arange(length)
        visible = (keys >= rule.seen.first[..., None]) & (keys < rule.seen.last[..., None])
        low = np.where(visible, 0, rule.low).astype(q.dtype)[:, None]
        score_bias = low if score_bias is None else low + score_bias
    grouped = q.reshape(n, kv_heads, group_size * times, width)
    scores = np.matmul(grouped, k.swapaxes(-1, -2)).reshape(n, heads, times, length)
    if rule.softcap:
        scores = rule.softcap * functional.tanh(scores / rule.softcap)
    if score_bias is not None:
        scores = scores + score_bias.astype(scores.dtype, copy=False)
    weights = functional.softmax(scores, -1)
    out = np.matmul(weights.reshape(n, kv_heads, group_size * times, length), v)
    return out.reshape(n, heads, times, v.shape[-1])


def _in_blocks(q: Array, k: Array, v: Array, score_bias: Array | None, rule: ScoreRule) -> Array | None:
    """`grouped_attention` of plain arrays, whose queries have the scale; None for others."""
    n, heads, times, width = q.shape
    kv_heads = k.shape[1]
    if type(value_of(q)) is not np.ndarray or heads % kv_heads:
        return None
    seen = rule.seen and Seen(*(x[:, None, None] for x in rule.seen))
    grouped = q.reshape(n, kv_heads, heads // kv_heads, times, width)
    bias = None if score_bias is None else _by_group(score_bias, heads, kv_heads)
    out = attention_in_blocks(grouped, k[:, :, None], v[:, :, None], bias, rule._replace(seen=seen))
    return None if out is None else out.reshape(n, heads, times, v.shape[-1])


def _by_group(bias: Array, heads: int, kv_heads: int) -> Array:
    """A bias that broadcasts to (N, heads, T, S), with the heads of queries that share one of keys apart."""
    batch = (1,) * (4 - bias.ndim) + tuple(bias.shape[:-2])
    repeats = (kv_heads, heads // kv_heads) if batch[1] > 1 else (1, 1)
    return bias.reshape(batch[0], *repeats, *bias.shape[-2:])


@operator("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(spec: Spec) -> Run:
    heads, kv_heads = spec.need("num_heads"), spec.need("kv_num_heads")
    window, softcap = spec.get("local_window_size", -1), spec.get("softcap", 0.0)
    rotates, interleaved = spec.get("do_rotary", 0), bool(spec.get("rotary_interleaved", 0))
    bits = spec.get("kv_cache_bit_width", 0) if spec.get("k_quant_type", "NONE") != "NONE" else 0
    if spec.get("smooth_softmax", 0) == 1 or spec.has_input(11):
        raise Unsupported("a sink of attention")
    if bits not in (0, 4, 8) or spec.get("v_quant_type", "NONE") != spec.get("k_quant_type", "NONE"):
        raise Unsupported(f"a cache of {bits} bits")
    # Keys and values that no other node reads need not be computed by themselves.
    in_rows = not (bits or softcap or interleaved or spec.uses_output(1) or spec.uses_output(2))

    def run(
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array | None,
        past_value: Array | None,
        seqlens_k: Array,
        total_length: Array,
        cos: Array | None = None,
        sin: Array | None = None,
        position_ids: Array | None = None,
        bias: Array | None = None,
        sink: Array | None = None,
        key_scale: Array | None = None,
        value_scale: Array | None = None,
        *rest: Any,
    ) -> tuple[Array, Array | None, Array | None]:
        times = query.shape[1]
        parts = [query] if key is None or value is None else [query, key, value]
        if key is None or value is None:
            width = int(query.shape[2]) // (heads + 2 * kv_heads)
            ends = heads * width, (heads + kv_heads) * width
            query, key, value = query[..., : ends[0]], query[..., ends[0] : ends[1]], query[..., ends[1] :]
        if int(query.shape[2]) % heads or heads % kv_heads:
            raise ValueError(
                f"num_heads={heads} and kv_num_heads={kv_heads} for queries of width {query.shape[2]}"
            )
        past_length = 0 if past_key is None else past_key.shape[2]
        row_lengths = seqlens_k.reshape(-1).astype(np.int64) + 1  # tokens of each row with the new ones
        # In a first run the new tokens stand at the beginning, and rows may be shorter than the others.
        is_prompt = (
            int(np.asarray(total_length).reshape(())) == times
            if not is_symbolic(total_length)
            else past_length == 0
        )
        past_lengths = np.zeros_like(row_lengths) if is_prompt else row_lengths - times
        positions = past_lengths[:, None] + np.arange(times)  # (N, T): positions of the new tokens
        scale = spec.get("scale", 0.0) or 1 / math.sqrt(int(query.shape[-1]) // heads)
        plain = type(positions) is type(value_of(query)) is np.ndarray
        if in_rows and plain and is_prompt and not past_length and bias is None:
            angles: Rotary | None = None
            if rotates and cos is not None and sin is not None:
                at = positions if position_ids is None else position_ids
                angles = Rotary(
                    *(np.broadcast_to(x[at], (*positions.shape, x.shape[-1])) for x in (cos, sin))
                )
            seen = Seen(starts_of(positions), positions + 1)
            out = row_attention(parts, seen, scale, heads, kv_heads, angles)
            if out is not None:
                return out, None, None
        q, k, v = split_heads(query, heads), split_heads(key, kv_heads), split_heads(value, kv_heads)
        if rotates and cos is not None and sin is not None:
            at = positions if position_ids is None else position_ids
            c, s = cos[at][:, None], sin[at][:, None]
            q, k = apply_rotary(q, c, s, interleaved), apply_rotary(k, c, s, interleaved)
        scales = [_of_channels(x, kv_heads) for x in (key_scale, value_scale) if x is not None]
        caches: Any = past_key, past_value
        if spec.as_runtime and all(map(_is_writable, caches)):
            k, v = (
                _written(cache, new, past_lengths, int(row_lengths.max()), scale, bits)
                for cache, new, scale in zip(caches, (k, v), scales or (None, None), strict=True)
            )
            return attend(q, k, v, positions, scale, bias), *caches
        if scales:
            k, v = (_rounded(x, scale, bits) for x, scale in zip((k, v), scales, strict=True))
            if past_key is not None and past_value is not None:
                past_key, past_value = (
                    _from_cache(x, scale, bits)
                    for x, scale in zip((past_key, past_value), scales, strict=True)
                )
        if past_key is not None and past_value is not None and not (is_prompt and past_length == 0):
            k, v = (
                _placed(past_key, k, past_lengths, is_prompt, total_length),
                _placed(past_value, v, past_lengths, is_prompt, total_length),
            )
        out = attend(q, k, v, positions, scale, bias)
        if scales:
            k, v = (_to_cache(x, s, bits) for x, s in zip((k, v), scales, strict=True))
        return out, k, v

    def starts_of(positions: Array) -> Array:
        """The first key that each token reads."""
        return np.maximum(positions - window + 1, 0) if window > 0 else np.zeros_like(positions)

    def attend(q: Array, k: Array, v: Array, positions: Array, scale: float, bias: Array | None) -> Array:
        """What the new tokens, at positions (N, T), read of all."""
        low = np.finfo(q.dtype).min
        rule = ScoreRule(softcap, Seen(starts_of(positions), positions + 1), low)
        bias = None if bias is None else bias[..., : k.shape[2]]
        return _merge_heads(grouped_attention(q, k, v, scale, bias, rule))

    return run


def _is_writable(x: Any) -> bool:
    return type(x) is np.ndarray and x.flags.writeable


def _written(
    cache: Array, new: Array, past_lengths: Array, length: int, scale: Array | None, bits: int
) -> Array:
    """Write new entries (N, heads, T, width) into a cache where each row ends; the first `length` of all."""
    stored = new if scale is None else _to_cache(new, scale, bits)
    for row, start in enumerate(past_lengths.tolist()):
        cache[row, :, start : start + stored.shape[2]] = stored[row]
    seen = cache[:, :, :length]
    return seen.astype(new.dtype, copy=False) if scale is None else _from_cache(seen, scale, bits)


def _of_channels(scale: Array, kv_heads: int) -> Array:
    """Scales of a cache: of all, or of each channel of each head."""
    return scale.reshape(()) if scale.size == 1 else scale.reshape(1, kv_heads, 1, -1)


def _rounded(x: Array, scale: Array, bits: int) -> Array:
    """The numbers that a cache gives back; their derivative is that of the numbers themselves."""
    plain = stored(x)
    return x + (_whole(plain, scale, bits) * scale - plain)


def _whole(x: Array, scale: Array, bits: int) -> Array:
    """The integers of a cache, as floats."""
    most = 1 << (bits - 1)
    return np.clip(np.round(x / scale), -most, most - 1)


def _to_cache(x: Array, scale: Array, bits: int) -> Array:
    whole = _whole(stored(x), scale, bits)
    if bits == 8:
        return whole.astype(np.int8)
    nibble = (whole + 8).astype(np.uint8)
    return nibble[..., ::2] | (nibble[..., 1::2] << 4)


def _from_cache(x: Array, scale: Array, bits: int) -> Array:
    whole = x.astype(np.float32) if bits == 8 else nibbles(x).astype(np.float32) - 8
    return whole * scale


def _placed(past: Array, new: Array, past_lengths: Array, is_prompt: bool, total_length: Array) -> Array:
    """A cache (N, heads, S, width) with new entries where the old ones of each row end."""
    past_length, times = past.shape[2], new.shape[2]
    length = max(int(past_length), integers(total_length)[0])
    known = past_lengths.tolist() if isinstance(past_lengths, np.ndarray) else None
    if known is not None and all(n == past_length for n in known):
        return np.concatenate([past, new], 2)
    if length > past_length:
        padding = np.zeros((*past.shape[:2], length - past_length, past.shape[3]), past.dtype)
        past = np.concatenate([past, padding], 2)
    slots = np.arange(length)
    inside = slots - past_lengths[:, None]  # (N, S): which of the new entries stands there
    is_new = (inside >= 0) & (inside < times)
    moved = np.take_along_axis(new, np.clip(inside, 0, times - 1)[:, None, :, None], 2)
    return np.where(is_new[:, None, :, None], moved, past)


@operator("Attention")
def _attention(spec: Spec) -> Run:
    causal, softcap = spec.get("is_causal", 0), spec.get("softcap", 0.0)
    mode, precision = spec.get("qk_matmul_output_mode", 0), spec.get("softmax_precision", 0)
    asks_scores = spec.uses_output(3)
    left, right = spec.get("left_window_size", -1), spec.get("right_window_size", -1)

    def run(
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        lengths: Array | None = None,
    ) -> Any:
        flat = q.ndim == 3
        if flat:
            q = split_heads(q, spec.get("q_num_heads"))
            k, v = (split_heads(x, spec.get("kv_num_heads")) for x in (k, v))
        offset = 0
        if past_key is not None and past_value is not None:
            offset = past_key.shape[2]
            k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
        times, length = q.shape[2], k.shape[2]
        start = offset if lengths is None or offset else lengths.reshape(-1, 1, 1, 1) - times
        keys = np.arange(length)
        ahead = keys - (np.arange(times)[:, None] + start)  # how far a key is ahead of a query
        rules = [ahead <= (0 if causal else right)] if causal or right >= 0 else []
        rules += [ahead >= -left] if left >= 0 else []
        if lengths is not None:
            rules.append(keys < lengths.reshape(-1, 1, 1, 1))
        visible: Any = functools.reduce(np.logical_and, rules) if rules else None
        narrow = q.dtype
        if narrow.itemsize < 4:
            q, k, v = (x.astype(np.float32) for x in (q, k, v))
        wide = spec.dtype(precision) if precision else q.dtype
        score_bias: Any = None
        if mask is not None and mask.dtype.kind == "b":
            mask = _long(mask, length, False)
            visible = mask if visible is None else visible & mask
        elif mask is not None:
            score_bias = _long(mask, length, -np.inf)
        if visible is not None:
            low = np.where(visible, 0, -np.inf).astype(q.dtype)
            score_bias = low if score_bias is None else score_bias + low
        scale = spec.get("scale") or 1 / math.sqrt(int(q.shape[-1]))
        out: Any = None
        seen: dict[int, Any] = {}
        if not asks_scores and wide == q.dtype:
            out = None if softcap else _without_scores(q, k, v, scale, score_bias)
            if out is None:
                rule = ScoreRule(softcap, empty=1.0)
                out = _in_blocks(q * np.asarray(scale, q.dtype), k, v, score_bias, rule)
        if out is None:
            root = np.asarray(math.sqrt(scale), q.dtype)
            group_size = q.shape[1] // k.shape[1]
            k_all, v_all = (np.repeat(x, group_size, 1) if group_size > 1 else x for x in (k, v))
            scores = np.matmul(q * root, (k_all * root).swapaxes(-1, -2))
            seen[0] = scores
            if softcap:
                scores = (softcap * np.tanh(scores / softcap)).astype(q.dtype)
            seen[1 if spec.opset < 24 else 2] = scores
            if score_bias is not None:
                scores = scores + score_bias.astype(scores.dtype, copy=False)
            seen[2 if spec.opset < 24 else 1] = scores
            weights = _softmax(scores.astype(wide, copy=False)).astype(q.dtype, copy=False)
            seen[3] = weights
            out = np.matmul(weights, v_all)
        out = _merge_heads(out) if flat else out
        found: list[Any] = [out, k, v, seen.get(mode)] if asks_scores or spec.uses_output(1) else [out]
        found = [x if x is None else x.astype(narrow, copy=False) for x in found]
        return tuple(found) if len(found) > 1 else found[0]

    return run


@operator("Attention", domain=MICROSOFT)
def _projected_attention(spec: Spec) -> Run:
    heads, sizes = spec.need("num_heads"), spec.ints("qkv_hidden_sizes")
    if spec.get("do_rotary", 0) or spec.get("past_present_share_buffer", 0):
        raise Unsupported("do_rotary, or past_present_share_buffer,")

    def run(
        x: Array, weights: Array, bias: Array | None = None, mask: Array | None = None,
        past: Array | None = None, score_bias: Array | None = None,
    ) -> Any:  # fmt: skip
        both = np.matmul(x, weights)
        both = both if bias is None else both + bias
        first, second = sizes[:2] if sizes else (both.shape[-1] // 3,) * 2
        parts = both[..., :first], both[..., first : first + second], both[..., first + second :]
        before = (None, None) if past is None else (past[0], past[1])
        q, k, v = (split_heads(part, heads) for part in parts)
        out, k, v = _masked_attention(spec, q, k, v, mask, before, score_bias)
        return (out, np.stack([k, v])) if spec.uses_output(1) else out

    return run


@operator("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(spec: Spec) -> Run:
    heads = spec.need("num_heads")
    if spec.uses_output(3) or spec.has_input(8) or spec.has_input(9):
        raise Unsupported("scores as an output, or a cache of several beams,")

    def run(
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        bias: Array | None = None,
        mask: Array | None = None,
        score_bias: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
    ) -> Any:
        parts = [*_apart(query), *_apart(key), *_apart(value)]
        parts = [split_heads(x, heads) if x.ndim == 3 else x for x in parts]
        if bias is not None:
            ends = np.cumsum([heads * int(x.shape[-1]) for x in parts]).tolist()
            rows = bias[: ends[0]], bias[ends[0] : ends[1]], bias[ends[1] :]
            has_own = key is not None and key.ndim == 4  # those that a decoder has of an encoder
            for i, row in enumerate(rows[:1] if has_own else rows):
                parts[i] = parts[i] + row.reshape(heads, 1, -1)
        q, k, v = parts
        out, k, v = _masked_attention(spec, q, k, v, mask, (past_key, past_value), score_bias)
        return (out, k, v) if spec.uses_output(1) else out

    return run


def _apart(x: Array | None) -> list[Array]:
    """Several in one array (N, T, heads, several, width) as (N, heads, T, width); others as they are."""
    if x is None or x.ndim < 5:
        return [] if x is None else [x]
    return [np.transpose(x[:, :, :, i], (0, 2, 1, 3)) for i in range(int(x.shape[3]))]


def _masked_attention(
    spec: Spec, q: Array, k: Array, v: Array, mask: Array | None, past: tuple[Any, Any],
    score_bias: Array | None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """What queries (N, heads, T, width) read of keys that a mask does not lower, and all keys and values."""
    if past[0] is not None:
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    n, times, length = q.shape[0], q.shape[2], k.shape[2]
    keys = np.arange(length)
    if mask is not None:
        if mask.ndim > 3 or (mask.ndim == 1 and mask.shape[0] not in (n, 2 * n)):
            raise NotImplementedError(f"{spec.op} with a mask of shape {tuple(mask.shape)}")
        if mask.ndim == 1:  # the key after the last of each row; then, if given, the first ones
            shown = keys < mask[:n, None]
            shown = (shown if mask.shape[0] == n else shown & (keys >= mask[n:, None]))[:, None, None]
        else:
            shown = (mask if mask.ndim == 3 else mask[:, None])[:, None] > 0
        low = np.where(shown, 0, spec.get("mask_filter_value", -1e4)).astype(q.dtype)
        score_bias = low if score_bias is None else score_bias + low
    if spec.get("unidirectional", 0):
        # As onnxruntime counts where there are more keys than queries: the first reads one, the last all.
        before, rows = 0 if past[0] is None else past[0].shape[2], np.arange(times)[:, None]
        ahead = (keys > rows + before) & (rows < times - 1)
        low = np.where(ahead, -np.inf, 0).astype(q.dtype)
        score_bias = low if score_bias is None else score_bias + low
    scale = spec.get("scale", 0.0) or 1 / math.sqrt(int(q.shape[-1]))
    return _merge_heads(grouped_attention(q, k, v, scale, score_bias)), k, v


def _without_scores(q: Array, k: Array, v: Array, scale: float, score_bias: Array | None) -> Array | None:
    """Attention where each head of k and v serves several of q, if a kernel computes it."""
    n, heads, times, width = q.shape
    kv_heads = k.shape[1]
    if heads % kv_heads:
        return None
    q = q.reshape(n, kv_heads, heads // kv_heads, times, width)
    ranges = None
    if score_bias is not None:
        ranges = key_ranges([_by_group(score_bias, heads, kv_heads)], True)
        if ranges is None:
            return None
    out = masked_attention(q, k[:, :, None], v[:, :, None], scale, ranges)
    return None if out is None else out.reshape(n, heads, times, width)


def _softmax(scores: Array) -> Array:
    """Softmax in which a row of only -inf gives zeros."""
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0).astype(scores.dtype))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total).astype(scores.dtype)


def _long(mask: Array, length: int, value: Any) -> Array:
    """A mask for all keys: those that it is too short for are hidden."""
    missing = int(length) - int(mask.shape[-1])
    if missing <= 0:
        return mask
    padding = np.full((*mask.shape[:-1], missing), value, mask.dtype)
    return np.concatenate([mask, padding], -1)


# -- states of fixed size ----------------------------------------------------------------------------------


@operator("CausalConvWithState")
@operator("CausalConvWithState", domain=MICROSOFT)
def _causal_convolution(spec: Spec) -> Run:
    activation = {"none": None, "silu": functional.silu, "swish": functional.silu}.get(
        spec.get("activation", "none")
    )

    def run(
        x: Array, weight: Array, bias: Array | None = None, past: Array | None = None
    ) -> tuple[Array, Array]:
        width, times = int(weight.shape[-1]), x.shape[-1]
        before = np.zeros((*x.shape[:2], width - 1), x.dtype) if past is None else past
        padded = np.concatenate([before, x], -1)
        parts = [padded[..., i : i + times] * weight[:, 0, i, None] for i in range(width)]
        out = functools.reduce(np.add, parts)
        out = out if bias is None else out + bias[:, None]
        out = out if activation is None else activation(out)
        return out, padded[..., padded.shape[-1] - (width - 1) :]

    return run


@operator("LinearAttention")
@operator("LinearAttention", domain=MICROSOFT)
def _linear_attention(spec: Spec) -> Run:
    heads, kv_heads = spec.get("q_num_heads"), spec.get("kv_num_heads")
    rule = spec.get("update_rule", "gated_delta")

    def run(
        query: Array,
        key: Array,
        value: Array,
        past: Array | None = None,
        decay: Array | None = None,
        beta: Array | None = None,
    ) -> tuple[Array, Array]:
        q, k, v = split_heads(query, heads), split_heads(key, kv_heads), split_heads(value, kv_heads)
        scale = spec.get("scale", 0.0) or 1 / math.sqrt(int(q.shape[-1]))
        n, times = q.shape[0], int(q.shape[2])
        state: Any = np.zeros((n, kv_heads, k.shape[-1], v.shape[-1]), q.dtype) if past is None else past
        rates = (
            None
            if beta is None
            else split_heads(beta, kv_heads)
            if beta.shape[-1] >= kv_heads
            else beta[:, None]
        )
        faded = None if decay is None else np.exp(split_heads(decay, kv_heads))
        outputs = []
        for t in range(times):
            if faded is not None and "gated" in rule:
                state = state * faded[:, :, t, :, None]
            new = v[:, :, t]
            if "delta" in rule:
                new = new - np.matmul(k[:, :, t, None], state)[:, :, 0]
                new = new if rates is None else new * rates[:, :, t]
            state = state + k[:, :, t, :, None] * new[:, :, None]
            row = q[:, :, t].reshape(n, kv_heads, heads // kv_heads, q.shape[-1])
            outputs.append(np.matmul(row * np.asarray(scale, q.dtype), state).reshape(n, heads, v.shape[-1]))
        return _merge_heads(np.stack(outputs, 2)), state

    return run
