"""Batches in the actors of a Ray cluster: results do not depend on it, and nothing is lost or doubled."""

from typing import Any

import numpy as np
import pytest
from helpers import ray_jobs
from helpers.models.real_models import MODELS

from lite.models import GenerateBatches, ScoreBatches

pytestmark = pytest.mark.processes

LLAMA = MODELS / "optimum-llama"
COUNT = 40
SAMPLED = {"max_new_tokens": 6, "temperature": 1.0, "do_sample": True}

_DATA = """
import json, signal
from pathlib import Path
import numpy as np
from lite.kernels import get_num_threads
from lite.models import GenerateBatches, ScoreBatches

folder, model, count, sampled = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])

def rows():
    rng = np.random.default_rng(0)
    return [
        {"id": i, "prompt_ids": rng.integers(3, 500, 1 + i % 5).tolist(),
         "response_ids": rng.integers(3, 500, 1 + i % 7).tolist()}
        for i in range(count)
    ]

class Marked(ScoreBatches):
    "Says who scored a row; dies at the row that it is told to, once."
    def __init__(self, model, dies_at=None, **options):
        super().__init__(model, **options)
        self.dies_at = dies_at
    def __call__(self, batch):
        died = Path(folder) / "died"
        if self.dies_at in batch["id"] and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        out = super().__call__(batch)
        own = np.full(len(out["id"]), os.getpid())
        return out | {"pid": own, "threads": np.full(len(own), get_num_threads())}

def job(kind, blocks, actors, batch_size, cpus=1, **options):
    data = ray.data.from_items(rows(), override_num_blocks=blocks)
    pool = ray.data.ActorPoolStrategy(min_size=1, initial_size=actors, max_size=actors)
    done = data.map_batches(kind, fn_constructor_kwargs={"model": model, **options}, compute=pool,
                            batch_size=batch_size, num_cpus=cpus)
    return sorted(done.take_all(), key=lambda row: (row["id"], row.get("sample", 0)))

def plain(rows, *names):
    return [[list(map(int, x)) if isinstance(x := row[name], (list, np.ndarray)) else float(x)
             for name in names] for row in rows]
"""


def rows() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    pairs = [
        (rng.integers(3, 500, 1 + i % 5).tolist(), rng.integers(3, 500, 1 + i % 7).tolist())
        for i in range(COUNT)
    ]
    return {
        "id": list(range(COUNT)),
        "prompt_ids": [p for p, _ in pairs],
        "response_ids": [r for _, r in pairs],
    }


@pytest.fixture(scope="module")
def on_one_machine() -> Any:
    ray_jobs.need_ray()
    script = (
        ray_jobs.start(cpus=2)
        + _DATA
        + """
options = {"generate_kwargs": sampled, "num_samples": 2, "seed": 3}
scores = [job(Marked, 10, 2, 3, dies_at=13), job(Marked, 2, 1, None, cpus=2)]
chats = [{"id": i, "messages": [{"role": "user", "content": f"text {i}"}]} if i % 2 else
         {"id": i, "prompt": f"text {i}"} for i in range(6)]
(Path(folder) / "rows.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in chats))
write = ray.data.read_json(folder + "/rows.jsonl").map_batches(
    GenerateBatches, fn_constructor_kwargs={"model": model, **options}, num_cpus=1, batch_size=2,
    compute=ray.data.ActorPoolStrategy(size=1))
write.write_parquet(folder + "/written")
back = ray.data.read_parquet(folder + "/written").map_batches(
    ScoreBatches, fn_constructor_kwargs={"model": model, "prefix": "ref_"}, num_cpus=1,
    compute=ray.data.ActorPoolStrategy(size=1)).take_all()
print(json.dumps({
    "files": [[int(row["id"]), row["log_prob"], row["ref_log_prob"]] for row in back],
    "scores": [plain(rows, "id", "log_prob", "threads") for rows in scores],
    "processes": len({row["pid"] for row in scores[0]}),
    "died": (Path(folder) / "died").exists(),
    "texts": [plain(job(GenerateBatches, *how, **options), "id", "sample", "response_ids")
              for how in ((10, 2, 3), (3, 1, 8))],
}))
ray.shutdown()
"""
    )
    import json

    return ray_jobs.run(script, LLAMA, COUNT, json.dumps(SAMPLED))


def test_scores_do_not_depend_on_actors_and_batches(on_one_machine: Any) -> None:
    expected = ScoreBatches(LLAMA, threads=1)(rows())["log_prob"]
    for found in on_one_machine["scores"]:
        ids, log_probs, _ = np.array(found).T
        np.testing.assert_array_equal(ids, range(COUNT))
        np.testing.assert_allclose(log_probs, expected, atol=1e-4)


def test_a_killed_actor_loses_and_doubles_nothing(on_one_machine: Any) -> None:
    assert on_one_machine["died"]
    assert on_one_machine["processes"] >= 2
    assert [row[0] for row in on_one_machine["scores"][0]] == list(range(COUNT))


def test_threads_follow_the_processors(on_one_machine: Any) -> None:
    threads = [{int(row[2]) for row in found} for found in on_one_machine["scores"]]
    assert threads == [{1}, {2}]


def test_responses_do_not_depend_on_actors_and_batches(on_one_machine: Any) -> None:
    here = GenerateBatches(LLAMA, generate_kwargs=SAMPLED, num_samples=2, seed=3, threads=1)
    out = here({name: column for name, column in rows().items() if name != "response_ids"})
    expected = [[i, s, ids] for i, s, ids in zip(out["id"], out["sample"], out["response_ids"], strict=True)]
    for found in on_one_machine["texts"]:
        assert found == expected


def test_results_go_through_files(on_one_machine: Any) -> None:
    """Texts and conversations from JSON lines, responses in Parquet as plain lists, and scores of these."""
    ids, log_probs, scores = np.array(on_one_machine["files"]).T
    assert sorted(ids) == [i for i in range(6) for _ in range(2)]
    np.testing.assert_allclose(scores, log_probs, atol=1e-3)
