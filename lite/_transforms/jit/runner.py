"""The runner of a step's graph: arguments are bound by pointer, state alternates between two buffers."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.device import is_device_leaf, move
from lite._arrays.types import Array, ArrayHolder, Shape, raw
from lite._transforms.graphs.sizes import Comparison, Size
from lite._transforms.graphs.writer import model_bytes
from lite._transforms.jit.aligning import align
from lite._transforms.jit.arguments import Argument
from lite._transforms.jit.draws import Seeded
from lite._transforms.jit.joining import Joined, join
from lite._transforms.jit.structure import ARRAY, Builder, Structure, leaf_count
from lite._transforms.jit.tiling import Tiles, tile
from lite._transforms.jit.tracing import NAN, Program, measured
from lite._tree.methods import LazyModule
from lite._tree.nontensor import NonTensorData
from lite._tree.protocol import class_registry

_SMALL = 1 << 16  # bytes of an input or output up to which a copy costs less than a new binding
_MEMORY = ("turn", "buffers", "_bindings", "_after", "_homes", "_captured", "_ready", "_staged")
_MEMORIES, _KEPT_BYTES = 16, 1 << 27  # kept beside the present one, and together but for one
_sessions = LazyModule("lite.models.graph.step_session")


class Runner:
    """A traced function that can be called.

    Args:
        program: the traced function.
        pairs: leaves of the arguments that stay in the session, with the outputs that are their next values.
        places: the container and the key of each leaf of the arguments that is an entry.
        options: options of the session: `providers` and `threads`, None for those of the program.
        saved: for a step from a file, the model with its joined inputs and its tiles.
        held: the number of first leaves that belong to a `Stateful`; a run replaces those in `pairs`.
    """

    def __init__(
        self,
        program: Program,
        pairs: dict[int, str],
        places: Sequence[tuple[int, str] | None],
        options: dict[str, Any],
        saved: tuple[bytes, tuple[Joined, ...], tuple[Tiles, ...]] | None = None,
        held: int = 0,
    ) -> None:
        self.program = program
        self._held = held
        self._replaced = [(i, name) for i, name in pairs.items() if i < held]
        self._written = {i: x for i, x in program.written.items() if i >= held or i not in pairs}
        self.pairs = pairs
        self._sets_entries = {n for n, *_ in program.entries}
        self.places = places
        self._options = {**options, "threads": program.threads} if options["threads"] is None else options
        self._lock = threading.Lock()
        names = {
            name: pairs[i] for i, name in enumerate(program.arguments) if i in pairs and name is not None
        }
        self.traced = program.traced
        if saved is None:
            on_cpu = all(one == "CPUExecutionProvider" for one in options["providers"] or ())
            self.traced, self.joined = join(program.traced, names, program.fixed_shapes, on_cpu)
            self.traced, shapes = align(self.traced, program.shapes)
            self.tiles: tuple[Tiles, ...] = ()
            if on_cpu:
                self.traced, self.tiles = tile(self.traced, names, shapes)
            self._content = model_bytes(self.traced)
        else:
            self._content, self.joined, self.tiles = saved
        used = {x.name for x in program.traced.inputs}
        self._inputs = [
            (i, name)
            for i, name in enumerate(program.arguments)
            if name is not None and name in used and i not in pairs
        ]
        self._dtypes = {x.name: x.dtype for x in program.traced.inputs}
        self._taken = {name: one for name, one in program.captured.items() if name in self._dtypes}
        self._holders = [
            (name, one.holder, not isinstance(one.holder, ArrayHolder)) for name, one in self._taken.items()
        ]
        self._staying = frozenset(pairs.values())
        self._outputs = [
            (name, shape, dtype, all(type(n) is int and n for n in shape))
            for name, shape, dtype in program.traced.outputs
            if name not in self._staying
        ]
        self._items = _items_of(program, self._staying)
        self._pid = -1
        self._open()

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether the comparisons of dynamic sizes have the answers of the trace for these arguments."""
        return self.other_answer(leaves) is None

    def other_answer(self, leaves: Sequence[Any]) -> tuple[Comparison, int | None] | None:
        """The first comparison that the arguments answer otherwise than the trace, and its size, or None."""

        def size_of(number: float) -> int | None:
            return measured(int(number), self.program.primes, lambda label: self._size(label, leaves))

        for asked in self.program.comparisons:
            size = size_of(asked.size)
            other = size_of(asked.other) if type(asked.other) is Size else asked.other
            if size is None or other is None or not asked.holds(size, other):
                return asked, size
        return None

    def model(self, frozen: bool) -> bytes:
        """The serialised model; with `frozen`, captured arrays (parameters) are constants of it."""
        captured = self._taken
        if not frozen or not captured:
            return self._content
        arrays = {name: np.array(one.array) for name, one in captured.items()}
        inputs = tuple(x for x in self.traced.inputs if x.name not in captured)
        return model_bytes(replace(self.traced, inputs=inputs, arrays={**self.traced.arrays, **arrays}))

    def _open(self) -> None:
        """Open the session, and allocate the memory of the donated arrays."""
        self._session = _sessions.open_step(self._content, self._options)
        self._pid = os.getpid()
        self._gpu = self._session.gpu is not None
        self._others: list[dict[str, Any]] = []  # memories of other values than the present one's
        self._has_run = False
        self._allocate()

    def _allocate(self) -> None:
        """Allocate new memory for the donated arrays, two buffers each."""
        program, session = self.program, self._session

        def memory(places: Sequence[int], shape: Sequence[int], dtype: Any) -> Any:
            """Memory on the GPU if there is one; NumPy's for arrays that the function writes in place."""
            if program.written.keys() & set(places):
                return np.empty(shape, dtype)
            return session.memory(shape, dtype)

        kept = {name: i for i, name in enumerate(program.arguments) if i in self.pairs and name is not None}
        shapes: dict[str, Any] = {x.name: x.shape for x in program.traced.inputs}
        self.turn = 0
        self.buffers: list[dict[int, Any]] = [{}, {}]
        whole: list[dict[str, Any]] = [{}, {}]
        for turn in range(2):
            for group in self.joined:
                flat = whole[turn][group.input] = memory(
                    [kept[name] for name in group.inputs], [sum(map(math.prod, group.shapes))], group.dtype
                )
                start = 0
                for name, shape in zip(group.inputs, group.shapes, strict=True):
                    end = start + math.prod(shape)
                    self.buffers[turn][kept[name]] = flat[start:end].reshape(shape)
                    start = end
            for name, i in kept.items():
                if i not in self.buffers[turn]:
                    out = whole[turn][name] = memory([i], shapes[name], self._dtypes[name])
                    self.buffers[turn][i] = out
        outputs = {group.input: group.output for group in self.joined}
        tiles = {one.name: one for one in self.tiles}
        self._bindings = []
        for turn in range(2):
            binding = session.binding()
            for name, array in whole[turn].items():
                following = outputs[name] if name in outputs else self.pairs[kept[name]]
                for key, rows in _bound(tiles.get(name), name, array):
                    binding.bind_input(key, rows)
                for key, rows in _bound(tiles.get(following), following, whole[1 - turn][name], False):
                    binding.bind_output(key, rows)
            for name in [name for group in self.joined for name in group.read]:
                binding.bind_input(name, self.buffers[turn][kept[name]])
            self._bindings.append(binding)
        self._after = [
            {name: self.buffers[1 - turn][i] for i, name in self.pairs.items()} for turn in range(2)
        ]
        self._homes = object(), object()
        self._captured: list[dict[str, Any]] = [{}, {}]
        self._ready: list[dict[int, Argument]] = [{}, {}]
        self._staged: list[dict[str, Array]] = [{}, {}]

    def call(self, given: Sequence[Argument]) -> Any:
        """Run the graph, write to the arguments what the function writes, and return its result."""
        leaves = [leaf for argument in given for leaf in argument.leaves]
        return self.run(leaves, [node for argument in given for node in argument.containers], given)

    def run(self, leaves: list[Any], containers: list[Any], given: Sequence[Argument] = ()) -> Any:
        """`call` for the leaves and containers of the arguments, which are `given` if some are donated."""
        if len(leaves) > 1 and (self._written or self._sets_entries):
            self._refuse_shared(containers, leaves)
        inherited = self._pid != os.getpid()
        if inherited:
            self._lock = threading.Lock()  # in a forked process the parent's lock may be held for ever
        with self._lock:
            if inherited:
                self._open()
            if self.pairs:
                self._fill(given)
            found = self._run(leaves)
            return self._finished(given, leaves, containers, found)

    def _refuse_shared(self, nodes: Sequence[Any], leaves: Sequence[Any]) -> None:
        """ValueError if the function writes to memory that two arguments share: it would read its writes."""
        for all_of, numbers in ((leaves, self._written), (nodes, self._sets_entries)):
            if not numbers or len(all_of) == 1:
                continue
            written = {id(all_of[n]) for n in numbers}
            if len(written) < len(numbers) or sum([id(x) in written for x in all_of]) > len(written):
                kind = "array" if all_of is leaves else type(all_of[next(iter(numbers))]).__name__
                raise ValueError(
                    f"the function writes to an argument, or an entry of one, that is there twice: pass the "
                    f"{kind} once, or a copy."
                )
        if self._written and any(type(x) is np.ndarray and x.base is not None for x in leaves):
            for i in self._written:
                if i not in self.pairs and any(
                    _overlap(leaves[i], x) for k, x in enumerate(leaves) if k != i
                ):
                    raise ValueError(
                        "the function writes to an argument, or an entry of one, whose memory is that of "
                        "another one, too: pass a copy."
                    )

    def state(self, names: Sequence[str], given: Sequence[Argument]) -> Any:
        """The donated arguments as they are now, by name, in the memory that the session reads."""
        found: dict[str, Any] = {}
        start = 0
        for name, argument in zip(names, given, strict=True):
            if argument.donated and start >= self._held:
                present = self.buffers[self.turn]
                leaves = [present.get(start + k, leaf) for k, leaf in enumerate(argument.leaves)]
                found[name] = Builder(iter(leaves)).build(argument.structure)
            start += len(argument.leaves)
        return class_registry.dense(found)

    def _fill(self, given: Sequence[Argument]) -> None:
        """Copy donated arguments to their buffers, unless they are the results of the last call."""
        if self._has_run:
            self._switch(given)
        turn = self.turn
        buffers, start = self.buffers[turn], 0
        for argument in given:
            count = len(argument.leaves)
            if argument.donated and argument.home != (self._homes[turn], start):
                at_home = True
                for i, leaf in enumerate(argument.leaves, start):
                    buffer = buffers.get(i)
                    if buffer is not None and leaf is not buffer:
                        at_home = False
                        held = leaf.data if isinstance(leaf, ArrayHolder) else leaf
                        if held is not buffer:
                            _copy(buffer, held)
                if at_home:
                    argument.home = self._homes[turn], start
            start += count

    def _switch(self, given: Sequence[Argument]) -> None:
        """Let the memory of the last call be, which somebody has as results, where none of it is given.

        Raises:
            ValueError: what is given was given up before.
        """
        arrays: list[tuple[int, Any]] = []
        start = 0
        for argument in given:
            if argument.donated and start >= self._held:
                if argument.home == (self._homes[self.turn], start):
                    return
                arrays += [(i, raw(leaf)) for i, leaf in enumerate(argument.leaves, start) if i in self.pairs]
            start += len(argument.leaves)
        if not arrays:
            return
        present = {name: getattr(self, name) for name in _MEMORY}
        for memory in (present, *self._others):
            now, before = memory["buffers"][memory["turn"]], memory["buffers"][1 - memory["turn"]]
            if any(x is before[i] for i, x in arrays):
                raise ValueError(
                    "an argument that was given up to an earlier call (donate) is used again: its memory "
                    "holds other numbers now. Pass what the last call returned, or keep a copy."
                )
            if any(x is now[i] for i, x in arrays):
                if memory is not present:
                    self._others = [present, *[one for one in self._others if one is not memory]]
                    vars(self).update(memory)
                return
        size = 2 * sum(math.prod(x.shape) * x.dtype.itemsize for x in self.buffers[0].values())
        self._others = [present, *self._others][: max(1, min(_MEMORIES, _KEPT_BYTES // max(size, 1)))]
        self._allocate()

    def _run(self, leaves: Sequence[Any]) -> dict[str, Array]:
        """The outputs by name."""
        turn = self.turn
        binding = self._bindings[turn]
        kept, staged = [], self._staged[turn]
        for i, name in self._inputs:
            value, memory = leaves[i], staged.get(name)
            if type(value) is np.ndarray and memory is not None and memory.shape == value.shape:
                np.copyto(memory, value)
            else:
                kept.append(self._bind(turn, name, value))
        bound = self._captured[turn]
        for name, holder, is_array in self._holders:
            value = holder if is_array else holder.data
            if bound.get(name) is not value:
                kept.append(self._capture(turn, name, value))
        seeded: dict[Any, Any] = {}
        for name, draw in self.program.draws.items():
            generator = leaves[draw.source] if isinstance(draw.source, int) else draw.source
            if type(generator) is Seeded:
                if generator not in seeded:
                    seeded[generator] = generator.generator()
                generator = seeded[generator]
            drawn = draw.make(generator, lambda shape: self._shape(shape, leaves))
            if name in self._dtypes:  # else nothing reads it, but the generator goes on
                kept.append(self._bind(turn, name, drawn))
        found = self._after[turn].copy()
        copied, new = [], []
        for name, shape, dtype, fixed in self._outputs:
            sizes: Any = shape
            if not fixed:
                sizes = tuple([self._size(n, leaves) if type(n) is str else n for n in shape])
            out = staged.get(name)
            if out is not None and out.shape == sizes:
                copied.append((name, out))
            elif None in sizes or 0 in sizes:
                binding.bind_new_output(name)
                new.append(name)
            else:
                out = np.empty(sizes, dtype)
                if out.nbytes <= _SMALL:
                    staged[name] = out
                    copied.append((name, out))
                else:
                    found[name] = out
                binding.bind_output(name, out)
        try:
            binding.run()
        except RuntimeError as error:
            _, found_index, where = str(error).partition("indices element out of data bounds, ")
            if found_index:
                raise IndexError(f"an index is out of bounds in the graph: {where}") from error
            raise
        for name, out in copied:
            found[name] = out.copy()
        if new:
            found.update(binding.new_outputs(new))
        if self.program.refuses and found[NAN]:  # donated arrays are unchanged: the turn is not switched
            raise ValueError(f"{' and '.join(self.program.refuses)} is NaN; {self._source_of_nan(leaves)}.")
        self.turn = 1 - turn
        self._has_run = True
        return found

    def _source_of_nan(self, leaves: Sequence[Any]) -> str:
        """The entries of the batch that have NaN, for an error."""
        keys: list[Any] = []
        for i, _ in self._inputs:
            array, place = raw(leaves[i]), self.places[i]
            floats = i >= self._held and isinstance(array, np.ndarray) and array.dtype.kind == "f"
            if floats and np.isnan(array).any():
                keys.append(f"argument {i}" if place is None else place[1])
        return f"there is NaN in the entries {keys}" if keys else "the entries of the batch have no NaN"

    def _bind(self, turn: int, name: str, value: Any) -> Array:
        """Bind an input; small ones are copied to bound memory, which costs less than a new binding."""
        if type(value) is not np.ndarray and is_device_leaf(value):
            if self._gpu and value.dtype == self._dtypes[name] and value.is_c_contiguous():
                self._staged[turn].pop(name, None)
                self._bindings[turn].bind_input(name, value)
                return value
            value = move(value, "cpu")
        if type(value) is not np.ndarray:
            value = np.asarray(raw(value), self._dtypes[name])
        staged = self._staged[turn].get(name)
        if staged is not None and staged.shape == value.shape:
            np.copyto(staged, value)
            return staged
        dtype = self._dtypes[name]  # which is native
        value = (
            np.array(value, dtype, order="C")
            if value.nbytes <= _SMALL
            else np.asarray(value, dtype, order="C")
        )
        if value.nbytes <= _SMALL:
            self._staged[turn][name] = value
        self._bindings[turn].bind_input(name, value)
        return value

    def _finished(
        self, given: Sequence[Argument], leaves: list[Any], containers: list[Any], found: dict[str, Any]
    ) -> Any:
        program = self.program
        if self._replaced:
            for i, name in self._replaced:
                leaves[i] = found[name]
            given[0].leaves[:] = leaves[: len(given[0].leaves)]
            given[0].home = self._homes[self.turn], 0
        for i, name in self._written.items():
            leaf, place = leaves[i], self.places[i]
            if i not in self.pairs or place is None:
                np.copyto(raw(leaf), found[name])
            elif isinstance(leaf, ArrayHolder):
                leaf.data = found[name]
            else:
                containers[place[0]]._data[place[1]] = found[name]
        for number, key, structure, names in program.entries:
            if structure is None:
                containers[number].del_(key)
            else:
                if structure == (ARRAY,):
                    entry = found[names[0]]
                else:
                    entry = Builder(iter([found[name] for name in names]), containers).build(structure)
                if isinstance(entry, NonTensorData):
                    entry = entry._rebatch(containers[number].batch_size)
                containers[number].set(key, entry)
        if self._written or program.entries:
            for argument in given:
                if argument.donated and argument.containers:
                    argument.settle()
                    argument.home = None
                    argument.leaves[:] = argument.present_leaves()
        results, ready = [], self._ready[self.turn]
        for k, item in enumerate(self._items.structures):
            known = ready.get(k)
            if known is not None and known.is_unchanged():
                results.append(known.value)
            elif item == (ARRAY,) and type(one := found[self._items.names[k][0]]) is np.ndarray:
                results.append(one if one.ndim else one[()])  # as of NumPy's functions
            else:
                results.append(self._result(k, item, found, containers))
        return tuple(results) if self._items.several else results[0]

    def _result(self, k: int, structure: Structure, found: dict[str, Any], containers: list[Any]) -> Any:
        """One item of the result. TensorDicts of donated arrays are made once for each of the two buffers."""
        if structure[0] == "given":
            return containers[structure[1]]
        builder = Builder(iter([found[name] for name in self._items.names[k]]), containers)
        value = builder.build(structure)
        if self._gpu and any(is_device_leaf(found[name]) for name in self._items.names[k]):
            for node in builder.containers:  # what was bound to the CPU is on the GPU now
                if node._parts() is None:
                    node._device = None
        if self._items.stay[k]:
            self._ready[self.turn][k] = Argument(value, "", donated=True)
        return value

    def _capture(self, turn: int, name: str, value: Array) -> Array:
        """Bind a captured array: without a copy if it is contiguous."""
        shape = next(x.shape for x in self.program.traced.inputs if x.name == name)
        if value.shape != tuple(shape) or value.dtype != self._dtypes[name]:
            raise ValueError(
                f"an array that the function takes from elsewhere had the shape {tuple(shape)} and dtype "
                f"{self._dtypes[name]} when it was traced, and has {value.shape} and {value.dtype} now."
            )
        given = np.asarray(value, order="C")
        if given is value:
            self._captured[turn][name] = value
        self._bindings[turn].bind_input(name, given)
        return given

    def _size(self, label: str, leaves: Sequence[Any]) -> int:
        i, axis = self.program.labels[label]
        return int(leaves[i].shape[axis])

    def _shape(self, shape: Shape, leaves: Sequence[Any]) -> Shape:
        """The shape of a draw."""
        out = []
        for n in shape:
            size: Any = n
            if type(n) is Size:
                size = measured(int(n), self.program.primes, lambda label: self._size(label, leaves))
            if size is None:
                raise NotImplementedError("a draw whose shape is computed from a dynamic size is unknown.")
            out.append(int(size))
        return tuple(out)


def _overlap(one: Any, other: Any) -> bool:
    """Whether two arrays have memory in common."""
    if type(one) is not np.ndarray or type(other) is not np.ndarray:
        return False
    if (one if one.base is None else one.base) is not (other if other.base is None else other.base):
        return False
    try:
        return np.shares_memory(one, other, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _copy(target: Any, value: Any) -> None:
    """Write an array to one of the same shape; each may be on a GPU."""
    if type(target) is not np.ndarray:
        target.copy_to_device(value if is_device_leaf(value) else np.asarray(value, target.dtype, order="C"))
    else:
        np.copyto(target, move(value, "cpu") if is_device_leaf(value) else value)


def _bound(tiles: Tiles | None, name: str, array: Any, read: bool = True) -> list[tuple[str, Any]]:
    """The bound arrays of an array that stays: itself, its tiles, or both."""
    found = [(name, array)] if tiles is None or (tiles.whole and read) else []
    if tiles is not None:
        ends = list(itertools.accumulate(tiles.rows))
        found += zip(tiles.parts, np.split(array, ends[:-1]), strict=True)
    return found


class _Items(NamedTuple):
    """The items of a result.

    Attributes:
        structures: structures of the items.
        names: names of their outputs.
        stay: whether an item is a container of arrays that stay in the session.
        several: whether the result is a tuple of them.
    """

    structures: tuple[Structure, ...]
    names: list[list[str]]
    stay: list[bool]
    several: bool


def _items_of(program: Program, staying: frozenset[str]) -> _Items:
    several = program.structure[0] == "tuple"
    structures = program.structure[1:] if several else (program.structure,)
    names, start = [], 0
    for structure in structures:
        count = leaf_count(structure)
        names.append(program.results[start : start + count])
        start += count
    stay = [
        structure[0] in ("td", "stack") and staying.issuperset(of)
        for structure, of in zip(structures, names, strict=True)
    ]
    return _Items(structures, names, stay, several)
