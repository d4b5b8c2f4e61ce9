"""An actor of Ray that generates, beside a policy that learns here."""

import numpy as np
import pytest
from helpers import ray_jobs

pytestmark = pytest.mark.processes

_SCRIPT = """
import json
import numpy as np
from lite.data import LLMCollector
from lite.models import OnnxWrapper, embedded_model_path

PROMPTS = ["Reverse: abc", "2 + 2 = ", "Copy: sun "]

def told(batch):
    return [batch["tokens", "full"].tolist(), batch["policy_version"].tolist()]

wrapper = OnnxWrapper(embedded_model_path(), input_mode="text", num_threads=1, pad_output=True,
                      generate_kwargs={"max_new_tokens": 8})
policy = wrapper.trainable(input_mode="tokens", lora={"rank": 2, "rng": 0})
settings = {"policy": wrapper, "dialog_turns_per_batch": 3, "total_dialog_turns": -1, "seed": 0,
            "track_policy_version": True}
here = LLMCollector(PROMPTS, **settings)
there = ray.remote(num_cpus=1)(LLMCollector).remote(PROMPTS, **settings)
found = [[told(here.rollout()), told(ray.get(there.rollout.remote()))]]
rng = np.random.default_rng(0)
for parameter in policy.parameters():
    if parameter.requires_grad:
        parameter.data[...] += 0.2 * rng.normal(size=parameter.shape)
here.update_policy_weights_(policy)
ray.get(there.update_policy_weights_.remote(policy.learnt_weights()))
found.append([told(here.rollout()), told(ray.get(there.rollout.remote()))])
print(json.dumps(found))
"""


def test_weights_that_were_learnt_here_generate_there() -> None:
    ray_jobs.need_ray()
    before, after = ray_jobs.run(ray_jobs.start(cpus=1) + _SCRIPT)
    for here, there in (before, after):
        assert here == there
    assert np.unique(before[0][1]).tolist() == [0]
    assert np.unique(after[0][1]).tolist() == [1]
    assert before[0][0] != after[0][0]
