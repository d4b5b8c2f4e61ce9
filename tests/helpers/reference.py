"""The kernels as plain loops in float64, slow and easy to check by eye."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def multistep_return(
    reward: NDArray[Any], done: NDArray[Any], gamma: float, n_steps: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Summed rewards and window lengths of (rows, time) or (rows, time, features) rewards, in float64."""
    rows, time = done.shape
    sums = np.zeros(reward.shape, np.result_type(reward.dtype, np.float64))
    steps = np.zeros(done.shape, np.int64)
    for b in range(rows):
        for t in range(time):
            for k in range(n_steps):
                if t + k >= time:
                    break
                sums[b, t] += gamma**k * reward[b, t + k].astype(sums.dtype)
                steps[b, t] += 1
                if done[b, t + k]:
                    break
    return sums, steps


def td_lambda_return(
    reward: NDArray[Any],
    next_value: NDArray[Any],
    done: NDArray[Any],
    terminated: NDArray[Any],
    gamma: NDArray[Any],
    lmbda: NDArray[Any],
) -> NDArray[np.float64]:
    """Of (rows, time) arrays."""
    out = np.zeros(reward.shape)
    rows, time = reward.shape
    for b in range(rows):
        for t in reversed(range(time)):
            bootstrap = 0.0 if terminated[b, t] else float(next_value[b, t])
            tail = bootstrap if done[b, t] or t == time - 1 else out[b, t + 1]
            out[b, t] = reward[b, t] + gamma[b, t] * ((1 - lmbda[b, t]) * bootstrap + lmbda[b, t] * tail)
    return out


def vtrace(
    weight: NDArray[Any],
    reward: NDArray[Any],
    value: NDArray[Any],
    next_value: NDArray[Any],
    done: NDArray[Any],
    terminated: NDArray[Any],
    gamma: NDArray[Any],
    lmbda: NDArray[Any],
    rho_thresh: float,
    c_thresh: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Advantages and targets of (rows, time) arrays."""
    excess, advantage = np.zeros(reward.shape), np.zeros(reward.shape)
    rows, time = reward.shape
    for b in range(rows):
        for t in reversed(range(time)):
            rho, c = min(float(weight[b, t]), rho_thresh), min(float(weight[b, t]), c_thresh)
            bootstrap = 0.0 if terminated[b, t] else float(next_value[b, t])
            excess[b, t] = rho * (reward[b, t] + gamma[b, t] * bootstrap - value[b, t])
            ahead = bootstrap
            if not (done[b, t] or t == time - 1):
                excess[b, t] += gamma[b, t] * lmbda[b, t] * c * excess[b, t + 1]
                ahead = 0.0 if terminated[b, t] else value[b, t + 1] + excess[b, t + 1]
            advantage[b, t] = rho * (reward[b, t] + gamma[b, t] * ahead - value[b, t])
    return advantage, value + excess


def retrace(
    weight: NDArray[Any],
    reward: NDArray[Any],
    value: NDArray[Any],
    next_value: NDArray[Any],
    done: NDArray[Any],
    terminated: NDArray[Any],
    gamma: float,
    lmbda: NDArray[Any],
) -> NDArray[np.float64]:
    """Targets of (rows, time) arrays: the sum of the paper's equation (4), term by term."""
    target = value.astype(np.float64)
    rows, time = reward.shape
    for b in range(rows):
        for t in range(time):
            product = 1.0
            for s in range(t, time):
                if s > t:
                    product *= lmbda[b, s] * min(1.0, float(weight[b, s]))
                bootstrap = 0.0 if terminated[b, s] else float(next_value[b, s])
                error = reward[b, s] + gamma * bootstrap - value[b, s]
                target[b, t] += gamma ** (s - t) * product * error
                if done[b, s]:
                    break
    return target


def log_softmax(logits: NDArray[Any], temperature: float = 1.0) -> NDArray[np.float64]:
    """In float64, with the largest entries apart so that log-probs near zero are exact too."""
    scores = logits.astype(np.float64) / temperature
    scores = scores - scores.max(-1, keepdims=True)
    top = scores == 0
    count = top.sum(-1, keepdims=True)
    rest = np.where(top, 0.0, np.exp(scores)).sum(-1, keepdims=True)
    result: NDArray[np.float64] = scores - np.log(count) - np.log1p(rest / count)
    return result


def token_log_probs(
    logits: NDArray[Any], tokens: NDArray[Any], temperature: float = 1.0
) -> NDArray[np.float64]:
    return np.take_along_axis(log_softmax(logits, temperature), tokens[..., None], -1)[..., 0]


def linear_log_probs(
    hidden: NDArray[Any],
    weight: NDArray[Any],
    ids: NDArray[Any],
    bias: NDArray[Any] | None = None,
    temperature: Any = 1.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-probs of (rows, features), and their derivatives by the logits."""
    logits = hidden.astype(np.float64) @ weight.astype(np.float64).T
    logits += 0 if bias is None else bias.astype(np.float64)
    scale = np.broadcast_to(np.asarray(temperature, np.float64), ids.shape)[:, None]
    log_p = log_softmax(logits / scale)
    return log_p[np.arange(len(ids)), ids], (np.eye(len(weight))[ids] - np.exp(log_p)) / scale


def entropy(logits: NDArray[Any], temperature: float = 1.0) -> NDArray[np.float64]:
    """Terms p log p; those of p = 0 are 0."""
    log_p = log_softmax(logits, temperature)
    p = np.exp(log_p)
    result: NDArray[np.float64] = -np.where(p > 0, p * np.where(p > 0, log_p, 0.0), 0.0).sum(-1)
    return result


def kept_tokens(
    scores: NDArray[Any], *, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, typical_p: float = 1.0
) -> set[int]:
    """The tokens that top-k, top-p, min-p and typical-p leave of one row."""
    kept = [int(i) for i in np.argsort(scores, kind="stable") if scores[i] > -np.inf]  # ascending
    if top_k and top_k < len(kept):
        kept = [i for i in kept if scores[i] >= scores[kept[-top_k]]]
    weights = {i: float(np.exp(np.float64(scores[i]) - np.float64(scores.max()))) for i in kept}
    if top_p < 1.0:
        total = sum(weights.values())
        above, nucleus = 0.0, []
        for i in reversed(kept):
            if nucleus and above >= top_p * total:
                break
            nucleus.append(i)
            above += weights[i]
        kept = nucleus
    kept = [i for i in kept if weights[i] >= min_p]
    if typical_p < 1.0:
        total = sum(weights[i] for i in kept)
        surprise = {i: -float(np.log(weights[i] / total)) for i in kept}
        mean = sum(weights[i] / total * surprise[i] for i in kept)
        kept.sort(key=lambda i: abs(surprise[i] - mean))
        held = np.cumsum([weights[i] / total for i in kept])
        last = kept[min(int((held < typical_p).sum()), len(kept) - 1)]
        kept = [i for i in kept if abs(surprise[i] - mean) <= abs(surprise[last] - mean)]
    return set(kept)


def processed_scores(
    logits: NDArray[Any], previous: Any = (), penalty: float = 1.0, bias: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """One row after repetition penalty and finite `bias`, which has an entry for each token; no bans."""
    scores = logits.astype(np.float64)
    for token in {int(t) for t in previous if 0 <= t < len(scores)}:
        scores[token] = scores[token] * penalty if scores[token] < 0 else scores[token] / penalty
    return scores if bias is None else scores + np.where(np.isfinite(bias), bias, 0.0)


def draw_details(
    scores: NDArray[Any], allowed: NDArray[Any], temperature: float, **filters: Any
) -> tuple[NDArray[np.int64], float, NDArray[np.float64]]:
    """Of one row of processed scores: kept tokens, the log of their mass, the log-probs drawn from."""
    heated = scores / temperature
    kept = np.array(sorted(kept_tokens(np.where(allowed, heated, -np.inf), **filters)), np.int64)
    mass = float(_log_sum(heated[kept]) - _log_sum(heated))
    return kept, mass, heated - _log_sum(heated) - mass


def _log_sum(x: NDArray[Any]) -> Any:
    return x.max() + np.log(np.exp(x - x.max()).sum())
