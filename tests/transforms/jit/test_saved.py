"""Steps as files: they compute what the function did, and hostile ones are refused."""

import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn, optim
from lite._files import commit
from lite.models import OnnxModule

NET = nn.MLP(3, 2, num_cells=[8], activation_class=nn.Tanh)
ADAM = optim.Adam(0.01)
RNG = np.random.default_rng(0)


def update(params: TensorDict, state: TensorDict, batch: TensorDict, rng: Any) -> Any:
    def loss(params: TensorDict) -> Any:
        with params.to_module(NET):
            found = NET(batch["x"] + 0.1 * rng.standard_normal(batch["x"].shape, dtype=np.float32))
            return ((found - batch["y"]) ** 2).mean()

    value, grads = lite.value_and_grad(loss)(params)
    batch["error"] = np.full_like(batch["y"][:, 0], value)
    return value, *ADAM.update(params, grads, state)


def batch(n: int) -> TensorDict:
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(n, 2)).astype(np.float32)
    return TensorDict(x=x, y=y, batch_size=[n])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    params = TensorDict.from_module(NET).data.clone()
    step = lite.jit(update, donate=("params", "state"), threads=1)
    lowered = step.lower(params, ADAM.init(params), batch(4), RNG)
    return lowered.save(tmp_path_factory.mktemp("steps") / "step.onnx")


def test_a_saved_step_learns_as_the_function_does(file: Path) -> None:
    step = pickle.loads(pickle.dumps(lite.load_step(file, threads=1)))
    plain = loaded = TensorDict.from_module(NET).data.clone()
    state = kept = ADAM.init(plain)
    one, two = np.random.default_rng(1), np.random.default_rng(1)
    for n in (4, 7, 4, 5):
        data, same = batch(n), batch(n)
        want, plain, state = update(plain, state, data, one)
        got, loaded, kept = step(loaded, kept, same, two)
        np.testing.assert_allclose(got, want, rtol=1e-5)
        np.testing.assert_allclose(same["error"], data["error"], rtol=1e-5)
    assert_same(loaded, plain, rtol=1e-4, atol=1e-6)
    assert int(kept["step"]) == 4
    found = step.state
    assert int(found["state", "step"]) == 4
    for key, value in loaded.items(True, True):
        np.testing.assert_array_equal(found["params"][key], value)
        found["params"][key][...] = 0
        assert not loaded[key].any()  # the memory that the next call reads


def test_a_loaded_step_has_no_state_before_a_call(file: Path) -> None:
    raises(RuntimeError, "has no state", lambda: lite.load_step(file).state)


@pytest.mark.processes
def test_a_device_needs_neither_the_function_nor_its_modules(file: Path) -> None:
    program = f"""
import sys, numpy as np, lite
step = lite.load_step({str(file)!r}, threads=1)
shapes = {{x.name: x.shape for x in step._runner.program.traced.inputs}}
assert not {{"onnx", "torch", "lite.nn", "lite.optim"}} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_arguments_must_be_those_that_were_traced(file: Path) -> None:
    step = lite.load_step(file)
    params = TensorDict.from_module(NET).data.clone()
    state = ADAM.init(params)
    with pytest.raises(ValueError, match=r"batch must be as when update was traced: TensorDict\(x, y\)"):
        step(params, state, TensorDict(x=np.ones((4, 3), np.float32), batch_size=[4]), RNG)
    with pytest.raises(ValueError, match=r"batch\['x'\] must be float32 of shape .*, got float64"):
        step(params, state, batch(4).apply(lambda x: x.astype(np.float64)), RNG)
    with pytest.raises(
        ValueError, match=r"asks whether a size is (< 1|== 0), and its graph .* is False: got the size 0"
    ):
        step(params, state, batch(0), RNG)
    raises(TypeError, r"update takes .*, got 1 arguments", lambda: step(params))
    found = r"Its device is 'cpu', in place of None"
    raises(ValueError, found, lambda: step(params.clone().to("cpu"), state, batch(4), RNG))
    nested = params.clone()
    nested["0"].lock_()
    raises(ValueError, r"Its is_locked at '0' is True, in place of False", step, nested, state, batch(4), RNG)
    turned = TensorDict(dict(reversed(list(params.clone().items()))))
    raises(ValueError, r"Its order of keys is \('2', '0'\)", step, turned, state, batch(4), RNG)


def test_a_file_of_version_0_2_0_lacks_what_came_later(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "step.onnx"
    target.write_bytes(file.read_bytes())
    contract = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))
    later = ("added", "seeds", "shapes", "threads", "refuses")
    Path(f"{target}.json").write_text(
        json.dumps({key: contract[key] for key in contract.keys() - later}), encoding="utf-8"
    )
    params = TensorDict.from_module(NET).data
    got, want = (
        lite.load_step(path)(params.clone(), ADAM.init(params), batch(4), np.random.default_rng(1))[0]
        for path in (target, file)
    )
    assert got == want


def test_which_sizes_a_file_serves_is_told(tmp_path: Path) -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y.T

    step = lite.load_step(lite.jit(product).lower(np.ones((3, 2)), np.ones((3, 2))).save(tmp_path / "s.onnx"))
    with pytest.raises(ValueError, match=r"got float64 of \(4, 2\)\. A size may change if"):
        step(np.ones((3, 2)), np.ones((4, 2)))
    axes = {"x": {0: "n"}, "y": {0: "m"}}
    lowered = lite.jit(product, dynamic_axes=axes).lower(np.ones((3, 2)), np.ones((3, 2)))
    assert repr(lowered) == "Lowered(GraphView(product: 2 operators: Transpose 1, MatMul 1))"
    file = lowered.save(tmp_path / "t.onnx")
    assert lite.load_step(file)(np.ones((3, 2)), np.ones((4, 2))).shape == (3, 4)

    def chosen(x: Any, y: Any) -> Any:
        return x * 2 if x.shape[0] >= 4.5 and x.shape != y.shape else x

    file = (
        lite.jit(chosen, dynamic_axes=axes).lower(np.ones((5, 2)), np.ones((7, 2))).save(tmp_path / "u.onnx")
    )
    step = lite.load_step(file)
    assert step(np.ones((6, 2)), np.ones((3, 2))).sum() == 24
    for n, m, said in ((4, 6, ">= 4.5"), (6, 6, "== another")):
        raises(ValueError, f"a size is {said}, .* got the size {n}", step, np.ones((n, 2)), np.ones((m, 2)))


def test_sizes_of_what_no_operator_reads_are_those_of_the_trace(tmp_path: Path) -> None:
    """The graph holds the number of rows that the function read off an argument."""

    def filled(td: Any, x: Any) -> Any:
        return td["a"] + x.shape[1] * td["b"].shape[-1]

    td, x = TensorDict(a=np.ones(3), b=np.ones((3, 2)), batch_size=[3]), np.ones((2, 3))
    step = lite.load_step(lite.jit(filled).lower(td, x).save(tmp_path / "step.onnx"))
    for same in (td, td.exclude("b")):
        assert list(step(same, x)) == [7.0] * 3
    with pytest.raises(ValueError, match=r"x must be .* of shape \('n2', 3\), got float64 of \(2, 5\)"):
        step(td, np.ones((2, 5)))
    with pytest.raises(ValueError, match=r"td\['b'\] must be .* of shape \('n1', 2\), got .* \(3, 4\)"):
        step(TensorDict(a=np.ones(3), b=np.ones((3, 4)), batch_size=[3]), x)


def test_tensordicts_from_files_and_in_another_order(tmp_path: Path) -> None:
    """Entries go by their keys; a lock and a device say nothing about numbers."""

    def learn(td: Any, more: Any) -> Any:
        return td["x"] - td["of", "y"] * more[0]["z"]

    def add(td: Any) -> None:
        td["sum"] = td["x"] + td["of", "y"]

    def given(n: int) -> Any:
        of = TensorDict(y=np.full(n, 2.0), w=np.zeros(n), batch_size=n)
        return TensorDict(x=np.arange(float(n)), of=of, batch_size=n)

    more = [TensorDict(z=np.ones(3), a=np.ones(3))]
    step = lite.load_step(lite.jit(learn).lower(given(3), more).save(tmp_path / "step.onnx"))
    adds = lite.load_step(lite.jit(add).lower(given(3)).save(tmp_path / "add.onnx"))
    other = given(3).memmap(tmp_path / "td")
    turned = TensorDict(
        of=TensorDict(w=np.zeros(3), y=np.full(3, 2.0), batch_size=3), x=np.arange(3.0), batch_size=3
    )
    for td in (other, TensorDict.load_memmap(tmp_path / "td"), turned, given(3).lock_(), given(3).to("cpu")):
        np.testing.assert_array_equal(step(td, [TensorDict(a=np.ones(3), z=np.ones(3))]), [-2, -1, 0])
    adds(turned)
    np.testing.assert_array_equal(turned["sum"], [2, 3, 4])
    raises(ValueError, r"It is locked, and a call sets \['sum'\]: give each call a copy", lambda: adds(other))
    with pytest.raises(ValueError, match=r"td must be as when learn was traced.*lacks \[\('of', 'y'\)\]"):
        step(given(3).exclude(("of", "y")), more)


def test_entries_that_a_call_sets_may_be_there_at_the_next(tmp_path: Path) -> None:
    def add(other: Any, td: Any, x: Any, rng: Any) -> Any:
        noise = rng.exponential(2.5, size=td["seen"].shape)
        td["noisy"] = td["seen"] + noise[rng.permutation(td["seen"].shape[0])]
        td["of", "both"] = td["noisy"] * x
        return td["of", "both"].sum() + other["seen"].sum()

    def given(n: int) -> Any:
        return TensorDict(seen=np.ones((n, 2)), batch_size=n)

    lite.jit(add).lower(given(3), given(3), 2.0, np.random.default_rng(0)).save(tmp_path / "add.onnx")
    step, td, plain = lite.load_step(tmp_path / "add.onnx"), given(5), given(5)
    rngs = np.random.default_rng(1), np.random.default_rng(1)
    for x in (2.0, 3.0):
        np.testing.assert_allclose(step(given(5), td, x, rngs[0]), add(given(5), plain, x, rngs[1]))
        np.testing.assert_allclose(td["of", "both"], plain["of", "both"])
    for key, value in (("noisy", "a text"), (("of", "one"), np.ones(5)), ("more", np.ones(5))):
        with pytest.raises(ValueError, match="td must be as when add was traced"):
            step(given(5), td.copy().set(key, value), 2.0, rngs[0])
    with pytest.raises(ValueError, match=r"other must be .* got TensorDict\(seen, noisy, of\)"):
        step(td, given(5), 2.0, rngs[0])


@pytest.mark.parametrize("looks", [lambda td: "sum" in td, lambda td: len(list(td.keys())) > 1])
def test_a_function_that_looks_for_what_it_set_takes_arguments_without_it(looks: Any, tmp_path: Path) -> None:
    def add(td: Any) -> None:
        td["sum"] = td["seen"] * 2.0 if looks(td) else td["seen"] + 1.0

    td = TensorDict(seen=np.ones(2), batch_size=2)
    lite.jit(add).lower(td).save(tmp_path / "add.onnx")
    step = lite.load_step(tmp_path / "add.onnx")
    step(td)
    raises(ValueError, r"A call sets \['sum'\]: give each call a TensorDict without them", lambda: step(td))


def test_what_is_taken_from_elsewhere_is_written_along(tmp_path: Path) -> None:
    net = nn.Linear(3, 2, dtype=np.float64)
    x, none = np.arange(6.0).reshape(2, 3), np.ones((2, 0))
    want = net(x)
    file = lite.jit(lambda x, none: (net(x), none)).lower(x, none).save(tmp_path / "net.onnx")
    net.weight[...] = 0.0
    got, empty = lite.load_step(file)(x, none)
    np.testing.assert_allclose(got, want)
    assert empty.shape == (2, 0)


def test_dicts_of_arrays(tmp_path: Path) -> None:
    step = lite.jit(lambda given: {"y": given["x"] * 2, "z": (given["n"]["k"] + 1, 3, given["x"])}, threads=1)
    given = {"x": np.arange(2.0), "n": {"k": np.zeros(3)}}
    step.lower(given).save(tmp_path / "step.onnx")
    again = lite.load_step(tmp_path / "step.onnx", threads=1)
    np.testing.assert_equal(again(given), {"y": [0, 2], "z": (np.ones(3), 3, [0, 1])})
    raises((TypeError, ValueError), r"dict\('x', 'n'\)", lambda: again(3))
    with pytest.raises(TypeError, match=r"dicts whose keys are texts, got \[1\]"):
        lite.jit(lambda given: given[1], threads=1).lower({1: given["x"]}).save(tmp_path / "other.onnx")


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="without objects such as"):
        lite.jit(lambda x, kind: x).lower(np.ones(2), float).save(tmp_path / "step.onnx")
    assert list(tmp_path.iterdir()) == []


def test_hostile_contracts_are_refused(file: Path, tmp_path: Path) -> None:
    contract = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))
    target = tmp_path / "step.onnx"
    target.write_bytes(file.read_bytes())
    changes = [
        {"results": []}, {"results": ["no such output"]},
        *("", "[]", '{"version": 1}', "[" * 100_000, '{"version": 2}'),
        {"digest": "0"}, {"version": 2}, {"arguments": None}, {"inputs": [["x", [1 << 40], "float32"]]},
        {"inputs": [["x", [-1], "float32"]]}, {"inputs": [["x", [1], "no dtype"]]}, {"result": ["td", 0]},
        {"draws": {"x": [None, "__reduce__", {}, None, "float32"]}}, {"result": ["static", "eval", "x"]},
        {"result": ["object"]}, {"places": [[0]]}, {"pairs": {"a": "b"}}, {"joined": [[]]},
        {"tiles": [[]]}, {"tiles": [["x", [], [math.inf], True]]}, {"digest": None}, {"labels": {"x": [0, 0]},
        "primes": {"1": "x"}}, {"primes": {"7": "x"}}, {"comparisons": [[0, "<", 1, True]]},
    ]  # fmt: skip
    for change in changes:
        text = change if isinstance(change, str) else json.dumps({**contract, **change})
        Path(f"{target}.json").write_text(text, encoding="utf-8")
        raises(ValueError, r"not a contract of a step|of another graph", lambda: lite.load_step(target))


def test_a_save_that_is_cut_short_leaves_the_old_step_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "step.onnx"
    files = []
    for factor in (2.0, 3.0):
        lite.jit(lambda x, factor=factor: x * factor).lower(np.ones(2)).save(target)
        files.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert "former" not in json.loads(files[1]["step.onnx.json"])  # the same bytes, whatever was there
    replace = commit.replace
    for stop, kept in enumerate((True, True, False)):
        done: list[str] = []

        def until(source: str, path: str, done: list[str] = done, stop: int = stop) -> None:
            if len(done) == stop:
                raise KeyboardInterrupt
            done.append(path)
            replace(source, path)

        with monkeypatch.context() as patch:
            patch.setattr(commit, "replace", until)
            with pytest.raises(KeyboardInterrupt):
                lite.jit(lambda x, stop=stop: x * (10.0 + stop)).lower(np.ones(2)).save(target)
        np.testing.assert_array_equal(lite.load_step(target)(np.ones(2)), 3.0 if kept else 10.0 + stop)


def test_a_graph_without_its_contract(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "step.onnx"
    target.write_bytes(file.read_bytes())
    raises(FileNotFoundError, "", lambda: lite.load_step(target))


def test_who_opens_a_step_as_a_policy_or_a_policy_as_a_step_is_told(file: Path, tmp_path: Path) -> None:
    NET.to_onnx(tmp_path / "net.onnx", np.zeros((1, 3), np.float32))
    raises(ValueError, "OnnxModule opens", lambda: lite.load_step(tmp_path / "net.onnx"))
    raises(ValueError, r"a step's, which lite\.load_step opens", lambda: OnnxModule(file))


def test_a_float_is_asked_for_by_that_name(tmp_path: Path) -> None:
    lite.jit(lambda x, scale: x * scale, threads=1).lower(np.ones(2), 0.5).save(tmp_path / "step.onnx")
    step = lite.load_step(tmp_path / "step.onnx", threads=1)
    np.testing.assert_array_equal(step(scale=2.0, x=np.ones(2)), [2, 2])
    raises(ValueError, "scale must be as when <lambda> was traced: a float; got 3", step, np.ones(2), 3)
    lite.jit(lambda s: s["a"][1] * s["n"]).lower({"a": [1, np.ones(2)], "n": 0.5}).save(
        tmp_path / "step.onnx"
    )
    step = lite.load_step(tmp_path / "step.onnx")
    for given, message in (
        ({"a": [1, np.ones(2)], "n": np.float64(1)}, r"s\['n'\] must be as .* traced: a float; got array"),
        ({"a": [2, np.ones(2)], "n": 1.0}, r"s\['a'\]\[0\] must be as .* traced: 1; got 2"),
        ({"a": [1], "n": 1.0}, r"s\['a'\] must be as .* traced: list of 2; got list of 1"),
    ):
        raises(ValueError, message, step, given)
