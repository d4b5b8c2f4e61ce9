"""What is made at the first call: when many threads call first together, they get what one would get."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# In a process of its own, as caches are filled once. All threads call a function from one barrier, and get
# what it gives afterwards; they change places as often as Python lets them.
_PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-6)
import numpy as np

THREADS = 8
barrier = threading.Barrier(THREADS)

def kernels():
    import lite.kernels
    values = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)
    return lite.kernels.reward_to_go(values, np.zeros(values.shape, bool), gamma=0.5).tobytes()

def containers():
    from lite import TensorDict, stack
    td = TensorDict({"a": np.arange(6.0).reshape(2, 3), "n": {"b": np.ones(2)}}, [2])
    return repr((stack([td, td + 1])["n", "b"], td[0].flatten_keys("."), TensorDict.from_struct_array))[:80]

def drawn():
    from lite import vmap
    from lite.nn import Dropout
    def refused(x):
        try:
            vmap(Dropout(0.5))(x)
        except RuntimeError as error:
            return str(error)
    return refused(np.ones((4, 3), np.float32))

def modules():
    from lite import TensorDict, nn
    net = nn.Linear(3, 2)
    with TensorDict.from_module(net).apply(np.ones_like).to_module(net):
        return net(np.ones(3, np.float32)).tolist()

def gradients():
    from lite import grad
    return grad(lambda x: np.sum(np.tanh(x) * x))(np.linspace(0, 1, 5)).tolist()

def divergence():
    from lite.nn.distributions import Normal, kl_divergence
    return kl_divergence(Normal(np.zeros(2), 1.0), Normal(np.ones(2), 1.0)).tolist()

def template():
    from lite.models.text import template_sandbox
    return [template_sandbox._compile("{{ a }}" * n).render(a=n) for n in range(1, 9)]

for function in (FUNCTIONS):
    results = [None] * THREADS
    def call(i):
        try:
            barrier.wait()
            results[i] = function()
        except BaseException as error:
            results[i] = error
    threads = [threading.Thread(target=call, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = function()
    assert all(result == after for result in results), (function.__name__, after, results)
print("the same")
"""


@pytest.mark.processes
def test_first_calls_of_many_threads() -> None:
    functions = "kernels, containers, drawn, modules, gradients, divergence"
    functions += ", template" if find_spec("jinja2") else ""
    program = _PROGRAM.replace("FUNCTIONS", functions)
    # Warnings stay what they are by default: which of the threads is warned first is not the question here.
    run = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"LITE_KERNELS": "numpy"},
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert run.stdout == "the same\n", run.stderr
