"""How likely a model finds given responses: a JSON-lines file in, scores out, and the best of each prompt.

`python tests/examples/score_jsonl.py rows.jsonl scores.jsonl [MODEL]` scores the lines that scores.jsonl
lacks, so that the same command goes on where an interrupted one ended, and refuses a file of another model
or of other rows; MODEL is a folder that an exporter wrote, by default the embedded model.
`lite score rows.jsonl --model MODEL --output scores.jsonl` gives the same scores, of lines with "messages",
or with "prompt" and "response", and its rows have the token ids, too.
"""

import json
import math
import os
import sys
from itertools import islice
from pathlib import Path

from lite.models import ScoreBatches, embedded_model_path


def as_messages(record):
    """Turns: TRL's "messages", or a "prompt" and its "completion" or "response", as texts or as turns."""
    if "messages" in record:
        return record["messages"]
    prompt, response = record["prompt"], record.get("completion", record.get("response"))
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if isinstance(response, str):
        response = [{"role": "assistant", "content": response}]
    return [*prompt, *response]


def read(rows):
    """The number of each line that is not blank, from 1 on, and its turns."""
    with open(rows, encoding="utf-8-sig") as source:
        for number, line in enumerate(source, 1):
            if line.strip():
                yield number, as_messages(json.loads(line))


def written(scores):
    """What an earlier run has scored; a line that it had only begun is cut off."""
    data = Path(scores).read_bytes() if Path(scores).exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(scores, whole)
    return [json.loads(line) for line in data[:whole].splitlines()]


def score_file(rows, scores, model=None, batch_size=32):
    """Append the scores that are not there yet; returns how many they were."""
    model = str(model or embedded_model_path())
    left, added = read(rows), 0
    for row in written(scores):
        if (row["model"], row["line"], row["messages"]) != (model, *next(left, (None, None))):
            raise ValueError(f"{scores}, line {row['line']}: of another model or row, give another file")
    judge = ScoreBatches(model, id_key="line")
    with open(scores, "a", encoding="utf-8") as sink:
        while batch := list(islice(left, batch_size)):
            lines, chats = zip(*batch, strict=True)
            found = judge({"line": list(lines), "messages": list(chats)})
            for i, (line, messages) in enumerate(batch):
                row = {"line": line, "model": model, "messages": messages, "tokens": int(found["tokens"][i])}
                scores_of_row = {name: float(found[name][i]) for name in ("log_prob", "mean_log_prob")}
                print(json.dumps(row | scores_of_row), file=sink)
            sink.flush()
            added += len(batch)
    return added


def summary(rows, scores):
    """The perplexity of all tokens, and of each prompt the best response with its mean log-prob."""
    log_prob = tokens = 0
    best = {}
    for (_, chat), score in zip(read(rows), written(scores), strict=True):
        log_prob, tokens = log_prob + score["log_prob"], tokens + score["tokens"]
        prompt = "\n".join(turn["content"] for turn in chat[:-1])
        if prompt not in best or score["mean_log_prob"] > best[prompt][1]:
            best[prompt] = chat[-1]["content"], score["mean_log_prob"]
    return math.exp(-log_prob / max(tokens, 1)), best


if __name__ == "__main__":
    rows, scores, *model = sys.argv[1:]
    print(f"{score_file(rows, scores, *model)} responses scored", file=sys.stderr)
    perplexity, best = summary(rows, scores)
    print(f"perplexity {perplexity:.4g}")
    for prompt, (response, mean) in best.items():
        print(f"{prompt!r}: {response!r}, mean log-prob {mean:.4f}")
