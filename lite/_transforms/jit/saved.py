"""Steps as files: saved where they are traced, run on devices that have only NumPy and onnxruntime.

Beside `step.onnx` lies `step.onnx.json`, which says how arguments become inputs, and outputs the result. A
step in torch's style has `step.onnx.npz`, too: what the modules and optimisers held that it names.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lite._arrays.types import is_symbolic, raw
from lite._files.commit import new_file
from lite._files.flat import load_from, save_as
from lite._transforms.graphs.sizes import Comparison, Size
from lite._transforms.graphs.trace import Input, Traced
from lite._transforms.jit.arguments import Argument, remember
from lite._transforms.jit.draws import METHODS, Draw, Seeded
from lite._transforms.jit.fitting import ABSENT, Place, difference, in_form, narrowed, titles, unread
from lite._transforms.jit.joining import Joined
from lite._transforms.jit.runner import Runner
from lite._transforms.jit.saved_state import Loaded, no_state
from lite._transforms.jit.structure import NUMBER, Structure, containers_of, leaf_count
from lite._transforms.jit.tiling import Tiles
from lite._transforms.jit.tracing import NAN, Program
from lite._transforms.jit.view import GraphView

_VERSION, _WITH_STATE = 1, 2
_MOST, _SIZES = 1 << 24, 1 << 28  # bytes of a contract, elements of an array of the state
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
_DYNAMIC = (
    "A size may change if dynamic_axes of lite.jit names it, or if the example had more than 1, and no other "
    "argument had it"
)


class Lowered:
    """A function traced for some arguments: the result of `JitFunction.lower`.

    Args:
        runner: runner of the graph.
        names: names of the arguments.
        given: the arguments.
        title: the name of the function.
        added: gives the entries that a call adds to its arguments, and that may be there at the next call.
        held: gives the plan and the state of what the function changes beside its arguments.
    """

    def __init__(
        self, runner: Runner, names: Sequence[str], given: Sequence[Argument], title: str,
        added: Callable[[], list[tuple[int, str]]], held: Callable[[], tuple[Any, Any]] | None = None,
    ) -> None:  # fmt: skip
        self._runner = runner
        self._names = list(names)
        self._given = given
        self._title = title
        self._added = added
        self._held = held

    def __repr__(self) -> str:
        return f"Lowered({self.graph!r})"

    @property
    def graph(self) -> GraphView:
        """The graph."""
        return GraphView(self._runner.traced, self._title)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the step: the graph, and beside it how arguments go in and results come out.

        Arrays that the function takes from elsewhere are written as they are now. So is what the modules and
        optimisers hold that a step in torch's style names: `TensorDict.load` reads that file.

        Args:
            path: path of the graph; the contract has ".json" behind that, and a state ".npz".

        Raises:
            TypeError: an argument or result is of a class that the file has no word for.
            NotImplementedError: the next call would be another graph.
        """
        target, runner, state = Path(path), self._runner, {}
        if self._held is not None:
            try:
                state["state"], arrays = self._held()
            except NotImplementedError as error:
                raise NotImplementedError(f"{self._title} {error}") from None
        content, beside = runner.model(frozen=True), Path(f"{target}.json")
        contract = {
            "version": _WITH_STATE if state else _VERSION,
            "digest": hashlib.sha256(content).hexdigest(),
            "name": self._title,
            "arguments": [
                {"name": name, "donated": argument.donated, "structure": _to_json(argument.structure)}
                for name, argument in zip(self._names, self._given, strict=True)
            ],
            "added": self._added(),
            **state,
            **_plan(runner, 3 if state else None),  # without the last of the results, which is for objects
        }
        contracts = [contract]
        with suppress(OSError, RecursionError, *_DAMAGE):  # a kill between two files leaves what is there
            contracts = [{**contract, "former": _contract_of(target.read_bytes(), beside)}, contract]
        if state:
            save_as(arrays, f"{target}.npz", {})
        first, *last = ((beside, json.dumps(one, indent=1).encode()) for one in contracts)
        for file, data in (first, (target, content), *last):
            with new_file(str(file)) as out:
                out.write(data)
        return target


class Step:
    """A saved step as a function: the result of `lite.load_step`.

    Its arguments must have the structure, dtypes and, but for dynamic sizes, shapes of those it was traced
    for. Those that were donated stay in the session, as of `lite.jit`. Entries that the graph does not read
    may be missing. Those that a call sets may be there at the next, unless the function looks for them, as
    with `"value" in td`.
    """

    def __init__(
        self,
        runner: Runner,
        arguments: Sequence[tuple[str, bool, Structure]],
        name: str,
        added: dict[tuple[int, str], Structure],
        held: Loaded | None = None,
    ) -> None:
        self._runner = runner
        self._held = held
        self._lock = threading.RLock()
        self.__name__ = name
        self._arguments = []
        self._titles = [title for title, _, structure in arguments for title in titles(structure, title)]
        passed = unread(runner.program, [one[2] for one in arguments], 0 if held is None else len(held.names))
        count = 0  # of the containers in the arguments before
        for (title, donated, structure), without in zip(arguments, passed, strict=True):
            own = {(i - count, key): form for (i, key), form in added.items()}
            first, count = count, count + len(list(containers_of(structure)))
            sets = [key for i, key, *_ in runner.program.entries if first <= i < count]
            self._arguments.append(
                (title, donated, structure, own, frozenset() if donated else without, sets)
            )
        # Of what no operator reads: the function may have read sizes off it, which are numbers of the graph.
        self._shapes = dict(enumerate(runner.program.argument_shapes))
        self._seen: OrderedDict[int, Argument] = OrderedDict()
        self._last: list[Argument] | None = None
        self._opened: Callable[[], Step]

    def __reduce__(self) -> Any:
        """Pickles have the path of the file, and the state of a step in torch's style."""
        with self._lock:
            state = None if self._held is None else self._held.state.clone()
        return self._opened, (), state

    def __setstate__(self, state: Any) -> None:
        self.state.update_(state)

    @property
    def state(self) -> Any:
        """The donated arguments by name, as of `lite.jit`: what is written into them counts.

        Of a step in torch's style, what its modules and optimisers hold now, by their names in the function
        and the names of state dicts: `state["net"]` is for `net.load_state_dict`, `state["optimizer"]` for
        the optimiser's, `state["optimizer", "param_groups.0.lr"]` a learning rate. It is the same TensorDict,
        which is locked, after each call; its arrays are others. Between calls `state.save("kept.npz")` is a
        checkpoint, and `state.update_(TensorDict.load("kept.npz"))` goes on from there; a pickle waits.

        Raises:
            RuntimeError: there was no call, or nothing is donated.
        """
        if self._held is not None:
            return self._held.state
        if self._last is None:
            raise no_state(self.__name__)
        return self._runner.state([name for name, *_ in self._arguments], self._last)

    @property
    def inputs(self) -> dict[str, tuple[np.dtype[Any], tuple[int | str, ...]]]:
        """Dtype and shape of each array of a call that the graph reads; names stand for dynamic sizes."""
        forms = {x.name: x for x in self._runner.program.traced.inputs}
        first = 0 if self._held is None else len(self._held.names)
        read = zip(self._titles, self._runner.program.arguments[first:], strict=True)
        return {title: (forms[name].dtype, forms[name].shape) for title, name in read if name in forms}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = [name for name, *_ in self._arguments]
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or set(values) != set(names):
            raise TypeError(f"{self.__name__} takes {names}, got {len(args)} arguments and {sorted(kwargs)}.")
        given = []
        for name, donated, structure, added, passed, sets in self._arguments:
            known = self._seen.get(id(values[name])) if donated else None
            if known is not None and known.value is values[name] and known.is_unchanged():
                given.append(known)
                continue
            argument = Argument(values[name], name, donated, without=added)
            if argument.structure != structure:
                nodes: list[Any] = []
                fitted = in_form(values[name], structure, added, passed, nodes)
                other = Argument(fitted, name, donated, without=added)
                is_locked = sets and any(node._locked for node in nodes)
                if donated or is_locked or other.structure != structure:
                    part, found, wanted = narrowed(name, argument.structure, structure)
                    passed = passed if part == name else frozenset()
                    hint = f" It is locked, and a call sets {sets}: give each call a copy (clone())."
                    if not is_locked:
                        hint = difference(found, wanted, passed, sets)
                    raise ValueError(
                        f"{part} must be as when {self.__name__} was traced: {_outline(wanted, passed)}; got "
                        f"{_outline(found)}.{hint}"
                    )
                argument, argument.containers = other, nodes
            if donated:
                remember(self._seen, argument)
            given.append(argument)
        if self._held is None:
            found = self._called(given)
            if any(argument.donated for argument in given):
                self._last = given
            return found
        with self._lock:
            found, numbers = self._called([*self._held.arguments_now(self._check), *given])
            self._held.take(numbers)
            return found

    def __repr__(self) -> str:
        takes = [f"{name}: {_outline(form, passed)}" for name, _, form, _, passed, _ in self._arguments]
        return f"{type(self).__name__}({self.__name__}({', '.join(takes)}))"

    def _called(self, given: list[Argument]) -> Any:
        leaves = [leaf for argument in given for leaf in argument.leaves]
        self._check(leaves, self._titles, 0 if self._held is None else len(self._held.names))
        found = self._runner.other_answer(leaves)
        if found is not None:
            asked, size = found
            other = "another" if type(asked.other) is Size else asked.other
            raise ValueError(
                f"{self.__name__} asks whether a size is {asked.operator} {other}, and its graph is "
                f"for sizes of which that is {asked.answer}: got the size {size}."
            )
        return self._runner.call(given)

    def _check(self, leaves: list[Any], names: list[str], first: int = 0) -> None:
        forms = {x.name: x for x in self._runner.program.traced.inputs}
        sizes: dict[str, int] = {}
        for i, leaf in enumerate(leaves[first:], first):
            wanted, array = forms.get(self._runner.program.arguments[i] or ""), raw(leaf)
            shape = self._shapes.get(i) if wanted is None else wanted.shape
            if shape is None or not hasattr(array, "shape") or array is ABSENT:
                continue
            same = len(array.shape) == len(shape) and all(
                n == (sizes.setdefault(label, n) if isinstance(label, str) else label)
                for n, label in zip(array.shape, shape, strict=True)
            )
            dtype = array.dtype if wanted is None else wanted.dtype
            if is_symbolic(array) or not same or array.dtype != dtype:
                hint = "" if same else f". {_DYNAMIC}"
                raise ValueError(
                    f"{names[i - first]} must be {dtype} of shape {shape}, got {array.dtype} "
                    f"of {tuple(array.shape)}{hint}."
                )


def load_step(
    path: str | os.PathLike[str],
    *,
    providers: Sequence[Any] | None = None,
    threads: int | None = None,
    generator: Any = None,
) -> Step:
    """A function that `lite.jit(fn).lower(...).save(path)` wrote, to be called as `fn` was.

    A step in torch's style changes its `state`, a TensorDict, in place of the modules and optimisers. Copies
    and pickles open the file again, and go on from that state.

    Args:
        path: path of the graph.
        providers: onnxruntime's execution providers; the CPU's by default.
        threads: threads inside one operator; by default as many as `lite.jit` gave it.
        generator: a seed or numpy.random.Generator for draws from a generator that was not an argument.

    Raises:
        FileNotFoundError: there is no such file, or no contract beside it, or no state.
        ValueError: the contract is damaged or of another graph, or the state is of another step.
        ImportError: without onnxruntime; the message has the pip command.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import lite
        >>> def step(w, x):
        ...     return w - 0.5 * lite.grad(lambda w: ((w * x) ** 2).sum())(w)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = lite.jit(step).lower(np.ones(2), np.ones(2)).save(f"{folder}/step.onnx")
        ...     loaded = lite.load_step(file)
        >>> loaded(np.array([2.0, 4.0]), np.array([1.0, 0.5]))
        array([0., 3.])
    """
    file = Path(path)
    content = file.read_bytes()
    beside = file.with_name(file.name + ".json")
    if beside.stat().st_size > _MOST:
        raise ValueError(f"{beside} is not a contract of a step: it has more than {_MOST} bytes.")
    try:
        contract = _contract_of(content, beside)
        if "format" in contract:
            raise ValueError("it is a module's, which lite.models.OnnxModule opens")
        if contract["version"] not in (_VERSION, _WITH_STATE):
            raise ValueError(f"version {contract['version']!r}")
        program, pairs, places, *layout = _program(contract, generator)
        arguments = [
            (str(one["name"]), bool(one["donated"]), _from_json(one["structure"]))
            for one in contract["arguments"]
        ]
        forms = {(i, key): form for i, key, form, _ in program.entries if form is not None}
        later = contract.get("added", ())  # which files of version 0.2.0 do not have
        added = {(int(i), str(key)): forms[int(i), str(key)] for i, key in later}
        name, options = str(contract["name"]), {"providers": providers, "threads": threads}
        plan = contract["state"] if contract["version"] == _WITH_STATE else None
        digest = contract["digest"]
    except (*_DAMAGE, RecursionError) as error:
        raise ValueError(f"{beside} is not a contract of a step: {error!r}.") from None
    if digest != hashlib.sha256(content).hexdigest():
        raise ValueError(f"{beside} is the contract of another graph than {file}.")
    held, count = None, sum(leaf_count(structure) for *_, structure in arguments)
    if plan is not None:
        os.stat(f"{file}.npz")
        state = load_from(f"{file}.npz")
        try:
            held = Loaded(plan, state)
        except _DAMAGE as error:
            raise ValueError(f"{beside} is not a contract of a step with this state: {error!r}.") from None
        count += len(held.names)
    if len(program.arguments) != count or (held is not None and program.structure[2:] != (held.given,)):
        raise ValueError(f"{beside} is not a contract of a step: it has other numbers of arguments.")
    first = 0 if held is None else held.donated
    try:
        runner = Runner(program, pairs, places, options, (content, *layout), first)
    except (LookupError, OverflowError) as error:  # a name or a place that the graph does not have
        raise ValueError(f"{beside} is not a contract of the step {file}: {error!r}.") from None
    step = Step(runner, arguments, name, added, held)
    again = {"providers": providers, "threads": threads, "generator": generator}
    step._opened = functools.partial(load_step, file.absolute(), **again)
    if held is not None:
        held.arguments_now(step._check)  # raises for a state of another step
    return step


# -- the contract ----------------------------------------------------------------------------------------


def _contract_of(content: bytes, beside: Path) -> dict[str, Any]:
    """The contract in a file: of those of a save that was cut short, the one of the graph that is there."""
    contract = json.loads(beside.read_text(encoding="utf-8"))
    former = contract.pop("former", None) or contract
    return contract if contract.get("digest") == hashlib.sha256(content).hexdigest() else former


def _plan(runner: Runner, count: int | None) -> dict[str, Any]:
    program = runner.program
    seeds = list(dict.fromkeys(x.source for x in program.draws.values() if type(x.source) is Seeded))
    gone = set(program.captured)
    return {
        "inputs": [(x.name, x.shape, x.dtype.name) for x in program.traced.inputs if x.name not in gone],
        "outputs": [(name, shape, dtype.name) for name, shape, dtype in program.traced.outputs],
        "leaves": program.arguments,
        "shapes": program.argument_shapes,
        "draws": {name: _draw(draw, seeds) for name, draw in program.draws.items()},
        "seeds": [_as_lists(one.start.bit_generator.state) for one in seeds],
        "result": _to_json(program.structure[:count]),
        "results": program.results,
        "written": program.written,
        "entries": [
            (i, key, None if structure is None else _to_json(structure), names)
            for i, key, structure, names in program.entries
        ],
        "labels": program.labels,
        "comparisons": [
            (n, name, {"size": int(x)} if type(x) is Size else x, answer)
            for n, name, x, answer in sorted(program.comparisons)
        ],
        "primes": program.primes,
        "threads": program.threads,
        "refuses": program.refuses,
        "pairs": runner.pairs,
        "places": runner.places,
        "joined": [(x.input, x.output, x.inputs, x.shapes, x.dtype.name, x.read) for x in runner.joined],
        "tiles": [(x.name, x.parts, x.rows, x.whole) for x in runner.tiles],
    }


def _program(contract: dict[str, Any], generator: Any) -> Any:
    inputs = tuple(Input(str(n), tuple(_dims(s)), np.dtype(d)) for n, s, d in contract["inputs"])
    outputs = tuple((str(n), tuple(_dims(s)), np.dtype(d)) for n, s, d in contract["outputs"])
    drawn = np.random.default_rng(generator) if contract["draws"] else None
    seeds = [_seeded(one) for one in contract.get("seeds", ())]  # which files of version 0.2.0 do not have
    program = Program(
        traced=Traced(inputs, outputs, (), {}),
        arguments=[None if name is None else str(name) for name in contract["leaves"]],
        argument_shapes=[tuple(_dims(s)) for s in contract.get("shapes", ())],  # the same
        captured={},
        draws={str(name): _drawn(draw, drawn, seeds) for name, draw in contract["draws"].items()},
        structure=_from_json(contract["result"]),
        results=[str(name) for name in contract["results"]],
        written={int(i): str(name) for i, name in contract["written"].items()},
        entries=[
            (int(i), str(key), None if structure is None else _from_json(structure), list(map(str, names)))
            for i, key, structure, names in contract["entries"]
        ],
        labels={str(label): (int(i), int(axis)) for label, (i, axis) in contract["labels"].items()},
        primes={int(prime): str(label) for prime, label in contract["primes"].items()},
        comparisons=frozenset(
            Comparison(
                int(n),
                _operator(name),
                Size(x["size"]) if isinstance(x, dict) else x if isinstance(x, float) else int(x),
                bool(answer),
            )
            for n, name, x, answer in contract["comparisons"]
        ),
        shapes={},
        threads=1 if contract.get("threads") == 1 else None,  # which files of version 0.2.0 do not have
        refuses=tuple(map(str, contract.get("refuses", ()))),  # the same
    )
    if program.refuses and (NAN, (), np.dtype(bool)) not in outputs:
        raise ValueError("refuses without an output")
    sizes, primes = {one.size for one in program.comparisons}, program.primes
    if min(primes, default=2) < 2 or 0 in sizes or not program.labels.keys() >= set(primes.values()):
        raise ValueError(f"the sizes {primes}")  # which `measured` would divide by without end
    built = [(program.structure, program.results)]
    built += [(structure, names) for *_, structure, names in program.entries if structure is not None]
    if any(leaf_count(structure) != len(names) for structure, names in built):
        raise ValueError("results that are not as many as their structure has")
    pairs = {int(i): str(name) for i, name in contract["pairs"].items()}
    places = [None if place is None else (int(place[0]), str(place[1])) for place in contract["places"]]
    joined = tuple(
        Joined(
            *(str(a), str(b), tuple(map(str, names)), tuple(tuple(_dims(s)) for s in shapes)),
            np.dtype(dtype),
            *[tuple(map(str, one)) for one in read],
        )
        for a, b, names, shapes, dtype, *read in contract["joined"]  # files before `read` do not have it
    )
    tiles = tuple(
        Tiles(str(name), tuple(map(str, parts)), tuple(map(int, rows)), bool(whole))
        for name, parts, rows, whole in contract["tiles"]
    )
    return program, pairs, places, joined, tiles


def _dims(shape: Any) -> list[Any]:
    out = [n if isinstance(n, str) or n is None else int(n) for n in shape]
    total = 1
    for n in out:
        total *= n if isinstance(n, int) else 1
        if (isinstance(n, int) and n < 0) or total > _SIZES:
            raise ValueError(f"the shape {shape}")
    return out


def _draw(draw: Draw, seeds: list[Seeded]) -> list[Any]:
    source: Any = draw.source if isinstance(draw.source, int) else None
    if type(draw.source) is Seeded:
        source = {"seed": seeds.index(draw.source)}
    shape = None if draw.shape is None else [[int(n), type(n) is Size] for n in draw.shape]
    arguments = {
        key: {"size": int(value)} if type(value) is Size else np.asarray(value).tolist()
        for key, value in draw.arguments.items()
        if key != "dtype"
    }
    if "dtype" in draw.arguments:
        arguments["dtype"] = np.dtype(draw.arguments["dtype"]).name
    return [source, draw.method, arguments, shape, draw.dtype.name]


def _drawn(given: Any, generator: Any, seeds: list[Seeded]) -> Draw:
    source, method, arguments, shape, dtype = given
    if method not in METHODS:
        raise ValueError(f"the draw {method!r}")
    if isinstance(source, dict):
        source = seeds[int(source["seed"])]
    elif source is not None:
        source = int(source)
    sizes = None if shape is None else tuple(Size(n) if dynamic else int(n) for n, dynamic in shape)
    found = {key: Size(x["size"]) if isinstance(x, dict) else x for key, x in arguments.items()}
    return Draw(generator if source is None else source, method, found, sizes, np.dtype(dtype))


def _as_lists(state: Any) -> Any:
    """The state of a generator's bits, for a file."""
    if isinstance(state, dict):
        return {key: _as_lists(x) for key, x in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _seeded(state: Any) -> Seeded:
    if state["bit_generator"] not in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"):
        raise ValueError(f"the generator {state['bit_generator']!r}")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return Seeded(np.random.Generator(bits))


def _operator(name: Any) -> str:
    if name not in ("<", "<=", ">", ">=", "=="):
        raise ValueError(f"the operator {name!r}")
    return str(name)


_PLAIN = {"NoneType": type(None), "bool": bool, "int": int, "str": str}
_TAGS = frozenset(("array", "number", "size", "generator", "given", "static", "list", "tuple", "dict", "td"))


def _to_json(structure: Structure) -> Any:
    tag = structure[0]
    if tag == "static":
        if structure[1].__name__ not in _PLAIN or _PLAIN[structure[1].__name__] is not structure[1]:
            raise TypeError(f"a step is saved without objects such as {structure[2]!r}.")
        return ["static", structure[1].__name__, structure[2]]
    if tag == "dict":
        if not all(isinstance(key, str) for key in structure[1]):
            raise TypeError(f"a step is saved with dicts whose keys are texts, got {list(structure[1])}.")
        return ["dict", list(structure[1]), *map(_to_json, structure[2:])]
    if tag in ("list", "tuple"):
        return [tag, *map(_to_json, structure[1:])]
    if tag == "td":
        wrapper = structure[1]
        if wrapper is not None:
            raise TypeError(
                f"a step is saved with TensorDicts, got a {wrapper.__name__}: pass its TensorDict."
            )
        _, _, dims, sizes, names, device, locked, keys, *items = structure
        return ["td", dims, sizes, names, device, locked, list(keys), *map(_to_json, items)]
    if tag not in _TAGS:
        raise TypeError(
            f"a step is saved without objects in TensorDicts, lazy stacks and named tuples ({tag})."
        )
    return list(structure)


def _from_json(given: Any) -> Structure:
    tag = given[0]
    if tag not in _TAGS:
        raise ValueError(f"the structure {tag!r}")
    if tag == "static":
        value = given[2]
        if type(value) is not _PLAIN[given[1]]:
            raise ValueError(f"the value {value!r}")
        return ("static", _PLAIN[given[1]], value)
    if tag == "dict":
        return ("dict", tuple(map(str, given[1])), *map(_from_json, given[2:]))
    if tag in ("list", "tuple"):
        return (tag, *map(_from_json, given[1:]))
    if tag == "td":
        _, dims, sizes, names, device, locked, keys, *items = given
        if len(items) != len(keys):
            raise ValueError(f"the keys {keys}")
        return (
            "td",
            None,
            int(dims),
            None if sizes is None else tuple(_dims(sizes)),
            None if names is None else tuple(names),
            device,
            bool(locked),
            tuple(map(str, keys)),
            *map(_from_json, items),
        )
    if tag == "given":
        return ("given", int(given[1]))
    return (tag,)


def _outline(structure: Structure, passed: frozenset[Place] = frozenset()) -> str:
    tag = structure[0]
    if tag == "td":
        return f"TensorDict({', '.join(key for key in structure[7] if (0, key) not in passed)})"
    if tag == "dict":
        return f"dict({', '.join(map(repr, structure[1]))})"
    if tag == NUMBER:
        return "a float"  # of Python; ints are part of a graph
    return str(
        structure[2] if tag == "static" else f"{tag} of {len(structure) - 1}" if structure[1:] else tag
    )
