"""A few cases of every kind, lite alone or beside the peers that are installed: what `lite bench` runs.

In a minute or two it tells what the scripts beside it measure at length, and it needs none of the peers. What
documents claim is measured by those scripts.
"""

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import measure

Run = Callable[[], Any]
_NOTHING = {"lite_ms": None, "peer": None, "peer_ms": None, "times_faster": None, "note": None}
_ROUND = 2e-3  # seconds that a round takes at least: shorter calls are repeated in it


@dataclass(frozen=True)
class Case:
    """What is timed.

    Attributes:
        name: what it is.
        lite: the call.
        peers: the same by others; each makes its call, and raises ImportError where it is not installed.
    """

    name: str
    lite: Run
    peers: dict[str, Callable[[], Run]] = field(default_factory=dict)


def tensordicts() -> Iterator[Case]:
    """Five leaves (32, 4)."""
    from lite import TensorDict, stack

    data = {key: np.random.default_rng(0).random((32, 4), np.float32) for key in "abcde"}
    td = TensorDict(data, [32])

    def peer(call: Callable[[Any, Any, Any], Any]) -> dict[str, Callable[[], Run]]:
        def make() -> Run:
            import tensordict
            import torch

            leaves = {key: torch.from_numpy(value) for key, value in data.items()}
            theirs = tensordict.TensorDict(leaves, [32])
            return lambda: call(theirs, leaves, tensordict.TensorDict)

        return {"tensordict": make}

    yield Case("construct", lambda: TensorDict(data, [32]), peer(lambda td, leaves, kind: kind(leaves, [32])))
    yield Case("td[0]", lambda: td[0], peer(lambda td, *_: td[0]))
    yield Case("td[2:10]", lambda: td[2:10], peer(lambda td, *_: td[2:10]))
    yield Case("td + 1", lambda: td + 1, peer(lambda td, *_: td + 1))
    yield Case("clone", lambda: td.clone(), peer(lambda td, *_: td.clone()))

    def stacked() -> Run:
        import tensordict
        import torch

        theirs = tensordict.TensorDict({key: torch.from_numpy(value) for key, value in data.items()}, [32])
        return lambda: torch.stack([theirs] * 10)

    yield Case("stack of 10", lambda: stack([td] * 10), {"tensordict": stacked})


def files() -> Iterator[Case]:
    """Five mapped files in a new folder, written and read back."""
    from lite import TensorDict

    data = {key: np.zeros((32, 4), np.float32) for key in "abcde"}
    folder, numbers = Path(tempfile.mkdtemp()), count()

    def round_trip(td: Any) -> Any:
        new = folder / str(next(numbers))
        td.memmap(new)
        return type(td).load_memmap(new)

    def peer() -> Run:
        import tensordict
        import torch

        theirs = tensordict.TensorDict({key: torch.from_numpy(value) for key, value in data.items()}, [32])
        return lambda: round_trip(theirs)

    td = TensorDict(data, [32])
    try:
        yield Case("memmap and load_memmap", lambda: round_trip(td), {"tensordict": peer})
    finally:
        shutil.rmtree(folder)


def modules() -> Iterator[Case]:
    """Calls of modules, and of networks on one batch."""
    from lite import TensorDict, nn

    x = np.random.default_rng(0).random((256, 64), np.float32)
    td = TensorDict(obs=x, batch_size=[256])
    same = nn.TensorDictModule(lambda obs: obs, ["obs"], ["out"])
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))

    def identity() -> Run:
        import tensordict
        import torch
        from tensordict.nn import TensorDictModule

        theirs = tensordict.TensorDict({"obs": torch.from_numpy(x)}, [256])
        module = TensorDictModule(lambda obs: obs, ["obs"], ["out"])
        return lambda: module(theirs)

    def forward() -> Run:
        import torch

        theirs = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
        given = torch.from_numpy(x)

        def run() -> Any:
            with torch.no_grad():
                return theirs(given)

        return run

    yield Case("identity TensorDictModule", lambda: same(td), {"tensordict": identity})
    yield Case("MLP 64-256-8, batch 256", lambda: net(x), {"torch": forward})


def gradients() -> Iterator[Case]:
    """The gradient of a small network, and of 64 of them at once."""
    from lite import from_module, from_modules, nn, value_and_grad, vmap

    rng = np.random.default_rng(0)
    x, target = rng.random((256, 8), np.float32), rng.random((256, 4), np.float32)
    net = nn.MLP(8, 4, num_cells=[64, 64], activation_class=nn.ReLU)
    params = from_module(net)

    def loss(params: Any) -> Any:
        with params.to_module(net):
            return ((net(x) - target) ** 2).mean()

    def torchs() -> Run:
        import torch

        layers = [torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()]
        theirs = torch.nn.Sequential(*layers, torch.nn.Linear(64, 4))
        given, wanted = torch.from_numpy(x), torch.from_numpy(target)
        own = list(theirs.parameters())
        return lambda: torch.autograd.grad(((theirs(given) - wanted) ** 2).mean(), own)

    grads = value_and_grad(loss)
    yield Case("gradient of an MLP 8-64-64-4, batch 256", lambda: grads(params), {"torch": torchs})

    nets = [nn.MLP(8, 4, num_cells=[16, 16], activation_class=nn.ReLU) for _ in range(64)]
    many, one = from_modules(*nets), nets[0]

    def call(params: Any, x: Any) -> Any:
        with params.to_module(one):
            return one(x)

    together = vmap(call, (0, None))
    yield Case(
        "vmap of 64 MLPs 8-16-16-4, batch 256",
        lambda: together(many, x),
        {"a loop": lambda: lambda: [each(x) for each in nets]},
    )


def returns() -> Iterator[Case]:
    """Returns and advantages of 64 sequences of 1000 steps."""
    from lite.kernels import gae, multistep_return

    rng = np.random.default_rng(0)
    reward, value, following = (rng.normal(size=(64, 1000, 1)).astype(np.float32) for _ in range(3))
    done = rng.random((64, 1000, 1)) < 0.05

    def windows() -> Run:
        import torch
        from torchrl.data.postprocs.postprocs import _get_reward

        theirs = torch.from_numpy(reward[..., 0]), torch.from_numpy(done[..., 0])
        return lambda: _get_reward(0.99, *theirs, 9)

    def estimate() -> Run:
        import torch
        from torchrl.objectives.value import functional

        v, n, r, d = map(torch.from_numpy, (value, following, reward, done))
        return lambda: functional.vec_generalized_advantage_estimate(0.99, 0.95, v, n, r, d, d)

    yield Case(
        "multistep_return 64x1000, n=10",
        lambda: multistep_return(reward[..., 0], done[..., 0], gamma=0.99, n_steps=10),
        {"torchrl": windows},
    )
    yield Case(
        "gae 64x1000",
        lambda: gae(reward, value, following, done, done, gamma=0.99, lmbda=0.95, time_dim=-2),
        {"torchrl": estimate},
    )


def logits() -> Iterator[Case]:
    """Log-probs of tokens, and draws."""
    from lite.kernels import sample_tokens, token_log_probs

    rng = np.random.default_rng(0)
    given = rng.normal(size=(4, 32, 32000)).astype(np.float32)
    tokens = rng.integers(0, 32000, (4, 32))
    last, seeds = given[:, -1], np.arange(4)

    def torchs() -> Run:
        import torch

        x, ids = torch.from_numpy(given), torch.from_numpy(tokens)[..., None]
        return lambda: torch.log_softmax(x, -1).gather(-1, ids)

    def drawn() -> Run:
        import torch
        from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper

        x, top_k, top_p = torch.from_numpy(last), TopKLogitsWarper(50), TopPLogitsWarper(0.9)
        return lambda: torch.multinomial(torch.softmax(top_p(None, top_k(None, x)), -1), 1)

    yield Case("token_log_probs (4, 32, 32000)", lambda: token_log_probs(given, tokens), {"torch": torchs})
    yield Case(
        "sample_tokens (4, 32000), top_k=50, top_p=0.9",
        lambda: sample_tokens(last, seeds, top_k=50, top_p=0.9),
        {"transformers": drawn},
    )


def replay() -> Iterator[Case]:
    """A replay buffer in memory, rows of ten entries."""
    from lite import TensorDict
    from lite.data import LazyTensorStorage, TensorDictReplayBuffer

    data = {f"k{i}": np.zeros((256, 4), np.float32) for i in range(10)}
    rows = TensorDict(data, [256])
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100_000), batch_size=256)
    buffer.extend(rows)

    def peer(call: Callable[[Any, Any], Any]) -> dict[str, Callable[[], Run]]:
        def make() -> Run:
            import torch
            from tensordict import TensorDict as Theirs

            logging.getLogger("torchrl").setLevel(logging.WARNING)  # or it tells of each storage
            from torchrl.data import LazyTensorStorage as Storage
            from torchrl.data import TensorDictReplayBuffer as Buffer

            theirs = Theirs({key: torch.from_numpy(value) for key, value in data.items()}, [256])
            other = Buffer(storage=Storage(100_000), batch_size=256)
            other.extend(theirs)
            return lambda: call(other, theirs)

        return {"torchrl": make}

    yield Case("extend by 256 rows", lambda: buffer.extend(rows), peer(lambda other, td: other.extend(td)))
    yield Case("sample 256 rows", buffer.sample, peer(lambda other, td: other.sample()))


def generation() -> Iterator[Case]:
    """The embedded model, which no peer opens."""
    from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, generate, score

    decoder = OnnxDecoder(embedded_model_path())
    prompts = [np.arange(10, 40) + i for i in range(8)]
    config = GenerationConfig(max_new_tokens=32)
    yield Case("generate 8 x (30 + 32) tokens", lambda: generate(decoder, prompts, config))
    yield Case("score 8 x 30 tokens", lambda: score(decoder, prompts))


GROUPS = {
    group.__name__: group
    for group in (tensordicts, files, modules, gradients, returns, logits, replay, generation)
}


def measured(
    names: list[str], *, peers: bool, rounds: int, told: Callable[[str], object] = lambda name: None
) -> list[dict[str, Any]]:
    """A row for lite alone, or for each peer, in each case: milliseconds per call, and how many times faster.

    Args:
        names: of groups.
        peers: time peers, too; those that are not installed have a row that says so.
        rounds: of each alternative.
        told: gets the name of each case before it is timed.
    """
    found = []
    for group in names:
        try:
            for case in GROUPS[group]():
                told(f"{group}: {case.name}")
                found += [{"group": group, "case": case.name, **row} for row in _rows(case, peers, rounds)]
        except ImportError as error:
            found.append({"group": group, "case": "any", **_NOTHING, "note": str(error)})
    return found


def _rows(case: Case, peers: bool, rounds: int) -> Iterator[dict[str, Any]]:
    calls, missing = {"lite": case.lite}, []
    for name, make in case.peers.items() if peers else ():
        try:
            calls[name] = make()
        except ImportError:
            missing.append(name)
    case.lite()  # compiles
    start = time.perf_counter()
    case.lite()
    loops = max(1, int(_ROUND / max(time.perf_counter() - start, 1e-9)))

    def looped(call: Run) -> Run:
        def run() -> None:
            for _ in range(loops):
                call()

        return run

    result = measure({name: looped(call) for name, call in calls.items()}, rounds)
    ours = result.pop("lite")["median_ms"] / loops
    alone = _NOTHING | {"lite_ms": ours}
    for name, taken in result.items():
        theirs = taken["median_ms"] / loops
        yield alone | {"peer": name, "peer_ms": theirs, "times_faster": theirs / ours}
    for name in missing:
        yield alone | {"peer": name, "note": "not installed"}
    if not case.peers or not peers:
        yield alone
