"""What who is new gets wrong: the error names the argument, what came, what was wanted, and the way out.

Each is a row of a table with the words that the error has to have. A call that fails leaves its arguments as
they were, which one test below looks at for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.counting_env import CountingEnv

import lite
from lite import TensorDict, nn
from lite.data import GAE, Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.envs import Compose, SerialEnv, StepCounter, Transform, TransformedEnv, check_env_specs
from lite.nn.losses import DDPGLoss


class Estimator:
    """What scikit-learn's are like: objects with methods, and not callable."""

    def predict(self, rows: Any) -> Any:
        return rows.sum(1)

    def transform(self, rows: Any) -> Any:
        return rows * 2


def filled(transform: Any) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(3), transform=transform)
    buffer.extend(small())
    return buffer


class WithoutInit(Transform):
    def __init__(self) -> None:
        pass


class Unmade(CountingEnv):
    def __init__(self) -> None:
        pass


class Forgetful(Transform):
    def _call(self, tensordict: Any) -> Any:
        tensordict["twice"] = 2 * tensordict["observation"]


class Grows(CountingEnv):
    """What its steps give is longer than its specs say."""

    def _step(self, tensordict: Any) -> Any:
        return super()._step(tensordict).set("observation", np.zeros(2, np.float32))


class Mistake(NamedTuple):
    name: str
    call: Callable[[TensorDict], object]
    error: type[Exception]
    words: str  # parts of the message, separated by |


def small() -> TensorDict:
    return TensorDict({"x": np.zeros((3, 4)), "info": {"step": np.arange(3)}}, batch_size=[3])


def assign(td: TensorDict, key: Any, value: Any) -> None:
    td[key] = value


def call(module: Any, **options: Any) -> Callable[[TensorDict], object]:
    return lambda td: nn.TensorDictModule(module, **options)(td)


def of_library(library: str, name: str, **members: object) -> object:
    return type(name, (), {"__module__": library, **members})()


VALUE = nn.TensorDictModule(nn.Linear(4, 1), ["x"], ["state_value"])
OTHER = nn.TensorDictModule(nn.Linear(1, 1), ["observation"], ["worth"])
ROLLOUT = CountingEnv().rollout(2)
MISTAKES = [
    Mistake("an entry has other rows than the batch size says",
        lambda td: TensorDict({"x": np.zeros(3), "y": np.zeros(4)}, [3]), RuntimeError,
        "'y' | (4,) | (3,)"),
    Mistake("and so far below", lambda td: assign(td, ("info", "y"), np.zeros((2, 5))), RuntimeError,
        "('info', 'y') | (2, 5) | (3,)"),
    Mistake("a number for each row", lambda td: assign(td, "y", 1.0), RuntimeError,
        "'y' | () | np.full((3,), value)"),
    Mistake("a dotted key", lambda td: td["info.step"], KeyError, '"info.step" | ("info", "step")'),
    Mistake("a path as a key", lambda td: td["info/step"], KeyError, '"info/step" | ("info", "step")'),
    Mistake("a dotted key to remove", lambda td: td.del_("info.step"), KeyError,
        '"info.step" | ("info", "step")'),
    Mistake("a nested key without its parent", lambda td: td["step"], KeyError, '("info", "step")'),
    Mistake("a key that is not there", lambda td: td["y"], KeyError, "\"y\" | ['info', 'x']"),
    Mistake("half a row", lambda td: TensorDict({}, 1.5), TypeError, "batch_size | integers | 1.5"),
    Mistake("rows of one entry written to all of them", lambda td: assign(td, 0, np.zeros(4)),
        RuntimeError, "('info', 'step') | (4,) | every entry | td[index] = {\"key\": value}"),
    Mistake("too long a row", lambda td: assign(td, 0, np.zeros(7)), RuntimeError,
        "'x' | (7,) | (4,) | every entry"),
    Mistake("torch's word for another device", lambda td: td.to("gpu"), TypeError,
        "dest | 'gpu' | 'cpu' | 'cuda'"),
    Mistake("and when it is made", lambda td: TensorDict({}, [3], device="gpu"), ValueError,
        "device | 'gpu' | 'cpu' | 'cuda'"),
    Mistake("an index where there is no batch size", lambda td: TensorDict({"x": np.zeros(3)})[0],
        RuntimeError, "batch_dims==0 | batch_size=[n] | auto_batch_size_()"),
    Mistake("a truth value", lambda td: bool(td == td), RuntimeError, "boolean | .all() | is_empty()"),
    Mistake("a list of rows", lambda td: TensorDict([{"x": 1}]), ValueError, "list | from_list"),
    Mistake("an array of a TensorDict", lambda td: np.array(td), TypeError, "'x' | 'info' | to_dict()"),
    Mistake("an input key that is not there", call(nn.Linear(4, 2), in_keys=["obs"], out_keys=["y"]),
        KeyError, "['obs'] | Linear | TensorDictModule | 'x' | ('info', 'step')"),
    Mistake("an input of another size", call(nn.Linear(5, 2), in_keys=["x"], out_keys=["y"]), RuntimeError,
        "in_features=5 | (3, 4)"),
    Mistake("a key and an index in one", lambda td: td["x", 0], TypeError, "td[key][index]"),
    Mistake("a list of keys", lambda td: td[["x", "info"]], IndexError, "select(*keys)"),
    Mistake("a layer where a module of keys is wanted",
        lambda td: nn.TensorDictSequential(nn.Linear(4, 2))(td), RuntimeError,
        "in_features=4 | TensorDict | TensorDictModule(layer, in_keys, out_keys)"),
    Mistake("a rollout without what follows each step",
        lambda td: GAE(gamma=0.9, lmbda=0.9, value_network=VALUE)(td), KeyError, "'next'"),
    Mistake("a dict in a replay buffer",
        lambda td: TensorDictReplayBuffer(storage=LazyTensorStorage(3)).extend({"x": np.zeros(3)}),
        ValueError, "dict | batch_size=[rows]"),
    Mistake("the name of an environment", lambda td: Collector("CartPole-v1", None, frames_per_batch=10),
        TypeError, "create_env_fn | str | gymnasium.make_vec"),
    Mistake("a dict in place of a TensorDict",
        lambda td: nn.TensorDictModule(nn.Linear(4, 2), ["x"], ["y"])({"x": np.zeros((3, 4))}),
        RuntimeError, "in_features=4 | entries of a TensorDict | a dict"),
    Mistake("a stack of dicts", lambda td: lite.stack([{"x": 1}, {"x": 2}]), TypeError,
        "stack | ['dict'] | TensorDict.from_list"),
    Mistake("a list as an input", lambda td: nn.Linear(2, 1)([1.0, 2.0]), TypeError,
        "input | list | np.asarray"),
    Mistake("a list as an input of any layer", lambda td: nn.GELU()([1.0]), TypeError,
        "input | list | np.asarray"),
    Mistake("an entry of objects as an input",
        lambda td: call(nn.Linear(2, 1), in_keys=["x"], out_keys=["y"])(TensorDict(x=[[1.0, None]])),
        TypeError, "input | list | np.asarray"),
    Mistake("None among the numbers", lambda td: nn.Linear(2, 1)(np.array([1.0, None])), TypeError,
        "numbers | object"),
    Mistake("texts in place of numbers", lambda td: nn.Softmax(-1)(np.array(["1", "2"])), TypeError,
        "numbers | <U1"),
    Mistake("a data frame as an input",
        lambda td: nn.Linear(4, 1)(of_library("pandas", "DataFrame", shape=(3, 4))), TypeError,
        "input | pandas.DataFrame | np.asarray"),
    Mistake("a TensorDict of another library",
        lambda td: lite.stack([of_library("tensordict", "TensorDict")]), TypeError, "tensordict.TensorDict"),
    Mistake("what is stacked, without a list", lambda td: lite.stack(td, td), TypeError,
        "dim | integer | TensorDict | stack takes a list"),
    Mistake("a module in place of its parameters",
        lambda td: lite.optim.clip_grad_norm_(nn.Linear(1, 1), 1.0), TypeError, "Parameters | Linear"),
    Mistake("pairs in place of a dict", lambda td: td.update([("y", np.zeros(3))]), AttributeError,
        "source | TensorDict or a dict | list"),
    Mistake("and to a lazy stack", lambda td: lite.lazy_stack([td, td]).update([1]), AttributeError,
        "source | list"),
    Mistake("a text in place of a dict", lambda td: td.update_("x"), AttributeError, "source | str"),
    Mistake("half a sample", lambda td: filled(None).sample(1.5), TypeError, "batch_size | integer | 1.5"),
    Mistake("fewer rows than none", lambda td: filled(None).sample(-1), ValueError, "batch_size | -1"),
    Mistake("a negative size", lambda td: nn.Linear(-4, 2), ValueError, "sizes of a layer | (2, -4)"),
    Mistake("cells as a text", lambda td: nn.MLP(4, 2, num_cells="32"), TypeError, "num_cells | '32'"),
    Mistake("half a layer", lambda td: nn.MLP(4, 2, depth=2.5), TypeError, "depth | integer | 2.5"),
    Mistake("a misspelt argument", lambda td: TensorDict({"x": np.zeros(3)}, batchsize=[3]), ValueError,
        "source | ['batchsize']"),
    Mistake("a transform as a class", lambda td: Compose(StepCounter), ValueError, "class StepCounter"),
    Mistake("one number for two", lambda td: lite.optim.Adam(1e-3, betas=0.9), ValueError,
        "betas | two | 0.9"),
    Mistake("half a batch",
        lambda td: TensorDictReplayBuffer(storage=LazyTensorStorage(3), batch_size=2.5), TypeError,
        "batch_size | integer | 2.5"),
    Mistake("half a cell", lambda td: nn.MLP(4, 2, num_cells=2.5), TypeError, "num_cells | integer | 2.5"),
    Mistake("a loss as a class", lambda td: nn.MSELoss(), AttributeError,
        "'MSELoss' | lite.nn.functional | lite.nn.losses"),
    Mistake("a class in place of a module", call(nn.Linear, in_keys=["x"], out_keys=["y"]), ValueError,
        "lite.nn.Linear | instance"),
    Mistake("an estimator in place of a module", call(Estimator(), in_keys=["x"], out_keys=["y"]),
        ValueError, "Estimator | not callable | 'predict', 'transform' | method='predict'"),
    Mistake("results for too many keys", call(nn.Linear(4, 2), in_keys=["x"], out_keys=["y", "z"]),
        RuntimeError, "fewer results (1) | ['y', 'z']"),
    Mistake("a folder that is not there", lambda td: TensorDict.load("no/such/folder"), FileNotFoundError,
        "file or folder | no/such/folder"),
    Mistake("a folder of something else", lambda td: TensorDict.load(Path(__file__).parent),
        FileNotFoundError, "meta.json | save or memmap"),
    Mistake("a locked one is given another array", lambda td: assign(td.lock_(), "x", np.ones((3, 4))),
        RuntimeError, "locked | set_()"),
    Mistake("a network that a loss cannot read", lambda td: DDPGLoss(VALUE, nn.Linear(4, 1)), TypeError,
        "DDPGLoss | Linear | TensorDictModule(network, in_keys, out_keys) | ValueOperator"),
    Mistake("and an estimator", lambda td: GAE(gamma=0.9, lmbda=0.9, value_network=nn.Linear(4, 1)),
        TypeError, "GAE | Linear | TensorDictModule(network, in_keys, out_keys)"),
    Mistake("values under another key",
        lambda td: GAE(gamma=0.9, lmbda=0.9, value_network=OTHER)(ROLLOUT.copy()), KeyError,
        "['worth'] | 'state_value' | set_keys(value=...)"),
    Mistake("no super().__init__()", lambda td: CountingEnv().append_transform(WithoutInit()), AttributeError,
        "WithoutInit.__init__ must call super().__init__() first"),
    Mistake("a transform that gives nothing",
        lambda td: CountingEnv().append_transform(Forgetful()).rollout(2), RuntimeError,
        "_step and transforms | NoneType"),
    Mistake("only what a transform reads", lambda td: Transform(["x"])(td), ValueError,
        "out_keys as in_keys | [] | ['x']"),
    Mistake("a longer observation than its spec", lambda td: check_env_specs(Grows()), AssertionError,
        "('next', 'observation') | the spec says (1,) | (2,)"),
    Mistake("an environment where a function makes them", lambda td: SerialEnv(2, CountingEnv()), TypeError,
        "create_env_fn | a function that makes one | CountingEnv("),
    Mistake("the name of an environment there", lambda td: SerialEnv(2, "CartPole-v1"), TypeError,
        "create_env_fn | a function that makes one | 'CartPole-v1'"),
    Mistake("an environment of gymnasium there",
        lambda td: SerialEnv(1, lambda: of_library("gym", "CartPole")), TypeError,
        "create_env_fn must make an EnvBase | CartPole | GymWrapper(env)"),
    Mistake("an environment as a class", lambda td: check_env_specs(CountingEnv), TypeError,
        "env must be an EnvBase | class | CountingEnv"),
    Mistake("transforms without Compose",
        lambda td: TransformedEnv(CountingEnv(), StepCounter(), StepCounter()), TypeError,
        "cache_specs | StepCounter( | Compose"),
    Mistake("a transform of a buffer as a class", lambda td: filled(StepCounter), TypeError,
        "transform | class StepCounter"),
    Mistake("no super().__init__() of an environment", lambda td: Unmade().rollout(2), AttributeError,
        "Unmade.__init__ must call super().__init__() first"),
    Mistake("a dict where an environment wants specs",
        lambda td: setattr(CountingEnv(), "observation_spec", {"x": 1}), TypeError,
        "observation_spec | Composite | dict"),
    Mistake("a seed for everything", lambda td: lite.manual_seed(0), AttributeError,
        "'manual_seed' | rng=0 | generator=0 | env.set_seed(0)"),
    Mistake("a collector that leaves out next observations",
        lambda td: Collector(CountingEnv(), None, frames_per_batch=10, compact_obs=True), TypeError,
        "'compact_obs' | LazyTensorStorage(size, compress_next=True)"),
    Mistake("a way in which weights are sent",
        lambda td: Collector(CountingEnv(), None, frames_per_batch=10, weight_sync_schemes={}), TypeError,
        "'weight_sync_schemes' | update_policy_weights_()"),
    Mistake("a transform of a buffer that gives nothing", lambda td: filled(lambda batch: None).sample(2),
        TypeError, "return the batch | lambda"),
    Mistake("dicts with other keys", lambda td: lite.stack([td, td.exclude("info")]), RuntimeError,
        "['info'] | maybe_dense_stack"),
]  # fmt: skip


@each_case("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_error_says_what_to_do(mistake: Mistake) -> None:
    td = small()
    with pytest.raises(mistake.error) as caught:
        mistake.call(td)
    assert type(caught.value) is mistake.error
    text = str(caught.value.args[0])  # KeyError shows its text as a literal
    assert [word for word in mistake.words.split(" | ") if word not in text] == [], text
    np.testing.assert_array_equal(td["x"], np.zeros((3, 4)))
    np.testing.assert_array_equal(td["info", "step"], np.arange(3))
    assert set(td.keys(True)) == {"x", "info", ("info", "step")}


def test_there_are_twenty_of_them() -> None:
    assert len(MISTAKES) >= 20


def test_an_estimator_by_its_method() -> None:
    td = TensorDict({"x": np.arange(6.0).reshape(3, 2)}, [3])
    nn.TensorDictModule(Estimator(), ["x"], ["y"], method="predict")(td)
    np.testing.assert_array_equal(td["y"], [1, 5, 9])


def test_a_file_name_that_becomes_a_folder(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"folder.*x\.pkl.*\.npz.*pickle\.dump"):
        small().save(tmp_path / "x.pkl")
    assert TensorDict.load(tmp_path / "x.pkl")["x"].shape == (3, 4)


# -- a language model -----------------------------------------------------------------------------------

CHAT = [{"role": "user", "content": "Hi"}]
PROMPTS: list[tuple[str, Any, type[Exception], list[str]]] = [
    ("history", ["hello"], TypeError, ["list", "('history', 'prompt')", "History.from_chats"]),
    ("history", {"history": CHAT}, TypeError, ["dict", "History.from_chats"]),
    ("history", TensorDict({"history": [CHAT]}, [1]), ValueError,
        ["('history', 'prompt')", "History.from_chats"]),
    ("tokens", TensorDict({"tokens": {"prompt": np.ones((1, 4))}}, [1]), ValueError,
        ["integers", "float64", "Tokens("]),
    ("text", TensorDict({"text": ["Hi"]}, [1]), ValueError,
        ["('text', 'prompt')", "['text']", "Text(prompt="]),
]  # fmt: skip


def test_what_a_language_model_is_given() -> None:
    from lite.models import OnnxWrapper, embedded_model_path

    policies = {
        mode: OnnxWrapper(embedded_model_path(), input_mode=mode) for mode in ("history", "tokens", "text")
    }
    for mode, given, error, words in PROMPTS:
        with pytest.raises(error) as caught:
            policies[mode](given)
        assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def test_a_conversation_where_a_history_is_wanted() -> None:
    from lite.models import ChatHistory

    with pytest.raises(TypeError, match=r"prompt must be a History.*History\.from_chats"):
        ChatHistory(prompt=[CHAT], batch_size=[1])


def test_a_model_by_its_name_on_a_hub() -> None:
    from lite.models import OnnxWrapper

    with pytest.raises(FileNotFoundError, match=r"'Owner/Name'.*\.onnx.*hub"):
        OnnxWrapper("Owner/Name")
