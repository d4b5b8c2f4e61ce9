"""The operations that tensordict's own benchmark of common operations times, on the same structures.

A case is a name and a function that prepares what it needs, and gives the call to time. Left out are what
needs a GPU and what calls private functions. Where that benchmark says "stacked" the stacks here are lazy:
dense ones would be the nested rows once more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = Callable[[], Any]
DEEP = tuple(map(str, range(19)))


class Library:
    """One of the two libraries, and how its leaves are made of NumPy arrays."""

    def __init__(self, module: Any, leaf: Callable[[Any], Any], stack: Any, cat: Any) -> None:
        self.module, self.leaf, self.stack, self.cat = module, leaf, stack, cat
        self.TensorDict = module.TensorDict

    def full(self, *shape: int, value: float = 0.0) -> Any:
        return self.leaf(np.full(shape, value, np.float32))

    def small(self) -> Any:
        return self.TensorDict({"a": self.full(3, 4, 5), "b": {"b1": self.full(3, 4, 5)}}, [3, 4])

    def wide(self) -> Any:
        return self.TensorDict({str(i): self.full(3, 4, value=i) for i in range(100)}, [3, 4])

    def deep(self, *size: int) -> Any:
        """Nineteen nodes, one in the other, with a leaf each."""
        size = size or (3, 4)
        flat = {".".join((*DEEP[:i], "t")): self.full(*size, value=i) for i in range(1, 20)}
        return self.TensorDict(flat, size).unflatten_keys(".")

    def lazy(self) -> Any:
        return self.module.lazy_stack(list(self.deep(3, 10).unbind(1)), 1)


def cases() -> dict[str, Callable[[Library], Call]]:
    return dict(
        itertools.chain(
            _creation(),
            _building(),
            _walks(),
            _members(),
            _paths(),
            _locks(),
            _entries(),
            _leaves(),
            _shapes(),
        )
    )


Cases = Iterator[tuple[str, Callable[[Library], Call]]]


def _creation() -> Cases:
    yield "create, empty", lambda w: lambda: w.TensorDict({}, [3, 4])
    for name, key in (("a, b", "b"), ("a, (b, b1)", ("b", "b1"))):
        yield f"create, {name}", lambda w, key=key: _made(w, {"a": w.full(3, 4, 5), key: w.full(3, 4, 5)})
    yield (
        "create, a, {b: {b1}}",
        lambda w: _made(w, {"a": w.full(3, 4, 5), "b": {"b1": w.full(3, 4, 5)}}),
    )
    for n in (10, 50, 100):
        yield f"create, {n} keys", lambda w, n=n: _made(w, _numbered(w, n))
    for n in (10, 50):
        yield (
            f"create, {n} keys and {n} below",
            lambda w, n=n: _made(w, {**_numbered(w, n), "nested": _numbered(w, n)}),
        )
    for n, size, device in itertools.product((4, 16, 64, 256), ((), (32,)), (None, "cpu")):
        yield (
            f"create, {n} fields, batch {size}, device {device}",
            lambda w, n=n, size=size, device=device: _created(w, n, size, device),
        )


def _numbered(w: Library, n: int) -> dict[str, Any]:
    return {str(i): w.full(3, 4, 5) for i in range(n)}


def _made(w: Library, source: dict[Any, Any]) -> Call:
    return lambda: w.TensorDict(source, [3, 4])


def _fields(w: Library, n: int) -> dict[Any, Any]:
    return {f"f{i}": w.full(32, 8) for i in range(n)}


def _created(w: Library, n: int, size: tuple[int, ...], device: str | None) -> Call:
    source = _fields(w, n)
    return lambda: w.TensorDict(source, batch_size=size, device=device)


def _building() -> Cases:
    """Trees of nodes with four leaves each."""
    for n, form, how in itertools.product(
        (16, 256), ("dicts", "tuples", "nodes"), ("constructor", "set", "update")
    ):
        yield f"{how}, {n} leaves of {form}", lambda w, n=n, form=form, how=how: _built(w, n, form, how)


def _groups(w: Library, n: int) -> dict[str, Any]:
    leaves = list(_fields(w, n).items())
    return {f"g{i // 4}": dict(leaves[i : i + 4]) for i in range(0, n, 4)}


def _built(w: Library, n: int, form: str, how: str) -> Call:
    source: dict[Any, Any] = _groups(w, n)
    if form == "tuples":
        source = {(group, key): value for group, leaves in source.items() for key, value in leaves.items()}
    elif form == "nodes":
        source = {group: w.TensorDict(leaves, [32], device="cpu") for group, leaves in source.items()}

    def by_set() -> Any:
        out = w.TensorDict({}, [32], device="cpu")
        for key, value in source.items():
            out.set(key, value)

    calls: dict[str, Call] = {
        "constructor": lambda: w.TensorDict(source, batch_size=[32], device="cpu"),
        "set": by_set,
        "update": lambda: w.TensorDict({}, [32], device="cpu").update(source),
    }
    return calls[how]


def _walks() -> Cases:
    for what in ("items", "keys", "values"):
        yield f"{what} of 100", lambda w, what=what: _walk(w.wide(), what)
        for kind, leaves in itertools.product(("deep", "deep locked", "lazy", "lazy locked"), (False, True)):
            if kind.endswith("locked") and leaves:
                continue
            arguments = (True, leaves) if leaves else (True,)
            yield (
                f"{what}{arguments}, {kind}",
                lambda w, what=what, kind=kind, arguments=arguments: _walk(_tree(w, kind), what, *arguments),
            )


def _tree(w: Library, kind: str) -> Any:
    tree = w.lazy() if kind.startswith("lazy") else w.deep()
    return tree.lock_() if kind.endswith("locked") else tree


def _walk(td: Any, what: str, *arguments: bool) -> Call:
    method = getattr(td, what)
    return lambda: list(method(*arguments))


def _members() -> Cases:
    yield "'a' in keys()", lambda w: _member(w.wide(), "a")
    for kind, leaves in itertools.product(("deep", "lazy"), (False, True)):
        arguments = (True, leaves) if leaves else (True,)
        for name, key in (("missing", ("a",)), ("last", (*DEEP, "t"))):
            yield (
                f"{name} in keys{arguments}, {kind}",
                lambda w, kind=kind, key=key, arguments=arguments: _member(_tree(w, kind), key, *arguments),
            )


def _member(td: Any, key: Any, *arguments: bool) -> Call:
    return lambda: key in td.keys(*arguments)


def _paths() -> Cases:
    for kind, (name, key) in itertools.product(("deep", "lazy"), (("leaf", (*DEEP, "t")), ("node", DEEP))):
        yield f"get {name}, {kind}", lambda w, kind=kind, key=key: _got(_tree(w, kind), key)
        yield f"[{name}], {kind}", lambda w, kind=kind, key=key: _item(_tree(w, kind), key)
    for kind, inplace in itertools.product(("deep", "lazy"), (False, True)):
        yield (
            f"set new leaf, {kind}{', in place' if inplace else ''}",
            lambda w, kind=kind, inplace=inplace: _put(w, _tree(w, kind), inplace),
        )
    for key in ("x", ("a", "b", "c"), ("next", ("agents", "reward"))):
        yield f"get {key}", lambda w, key=key: _got_by(w, key)
        yield f"unravel_key {key}", lambda w, key=key: lambda: w.module.unravel_key(key)
    for keys in (["a", "b", "c"], ["x", ("a", "b", "c"), ("next", ("agents", "reward"))]):
        yield f"unravel_key_list {keys}", lambda w, keys=keys: lambda: w.module.unravel_key_list(keys)


def _got(td: Any, key: Any) -> Call:
    return lambda: td.get(key)


def _item(td: Any, key: Any) -> Call:
    return lambda: td[key]


def _put(w: Library, td: Any, inplace: bool) -> Call:
    key = tuple(str(i) for i in range(20, 0, -1))
    value = w.full(*td.batch_size)
    td.set(key, value)
    return (lambda: td.set(key, value, inplace=True)) if inplace else (lambda: td.set(key, value))


def _got_by(w: Library, key: Any) -> Call:
    leaf = w.full(3)
    source = {"x": leaf, ("a", "b", "c"): leaf, ("next", "agents", "reward"): leaf}
    return _got(w.TensorDict(source, batch_size=[3]), key)


def _locks() -> Cases:
    for kind in ("deep", "lazy"):
        yield f"lock_().unlock_(), {kind}", lambda w, kind=kind: _locked(_tree(w, kind))


def _locked(td: Any) -> Call:
    return lambda: td.lock_().unlock_()


def _entries() -> Cases:
    yield "clone, a, {b: {b1}}", lambda w: w.small().clone
    yield "clone, set", lambda w: _after_clone(w, lambda td, leaf: td.set("c", leaf))
    yield "clone, [new] =", lambda w: _after_clone(w, lambda td, leaf: td.__setitem__("c", leaf))
    yield "clone, [nested] =", lambda w: _after_clone(w, lambda td, leaf: td.__setitem__(("b", "b1"), leaf))
    yield (
        "clone, [nested new] =",
        lambda w: _after_clone(w, lambda td, leaf: td.__setitem__(("c", "c", "c"), leaf)),
    )
    yield "clone, share_memory_", lambda w: _after_clone(w, lambda td, leaf: td.share_memory_())
    yield "clone, set, select", lambda w: _after_clone(w, _set_and_select)
    yield "clone, update", lambda w: _updated(w.small(), "update")
    yield "clone, update_", lambda w: _updated(w.small(), "update_")
    yield "select the last, deep", lambda w: _chosen(w.deep(), "select")
    yield "exclude the last, deep", lambda w: _chosen(w.deep(), "exclude")
    yield "empty, deep", lambda w: w.deep().empty
    yield "empty(recurse=True), deep", lambda w: _emptied(w.deep())
    yield "flatten_keys, deep", lambda w: w.deep().flatten_keys
    yield "unflatten_keys, deep", lambda w: w.deep().flatten_keys().unflatten_keys


def _after_clone(w: Library, then: Callable[[Any, Any], Any]) -> Call:
    td, leaf = w.small(), w.full(3, 4, 5)
    return lambda: then(td.clone(), leaf)


def _set_and_select(td: Any, leaf: Any) -> Any:
    td["c", "c", "c"] = leaf
    return td.select("a", "z", ("c", "c", "c"), strict=False)


def _updated(td: Any, how: str) -> Call:
    other = td.clone()
    return lambda: getattr(td.clone(), how)(other)


def _chosen(td: Any, how: str) -> Call:
    key = list(td.keys(True, True))[-1]
    return lambda: getattr(td, how)(key)


def _emptied(td: Any) -> Call:
    return lambda: td.empty(recurse=True)


def _leaves() -> Cases:
    for n, mapping, nested in itertools.product((16, 256, 1024), (False, True), (False, True)):
        yield (
            f"update_ of {n}{' below' if nested else ''} from {'a dict' if mapping else 'another'}",
            lambda w, n=n, mapping=mapping, nested=nested: _written(w, n, mapping, nested),
        )
    for n, source, nested in itertools.product((16, 256), ("dict", "td", "keywords"), (False, True)):
        yield (
            f"update of {n}{' in groups' if nested else ''} from {source}",
            lambda w, n=n, source=source, nested=nested: _replaced(w, n, source, nested),
        )
    for size, device, key in itertools.product(((), (32,)), (None, "cpu"), ("x", ("child", "x"))):
        for how in ("set", "set_"):
            yield (
                f"{how} {key}, batch {size}, device {device}",
                lambda w, size=size, device=device, key=key, how=how: _stored(w, size, device, key, how),
            )


def _written(w: Library, n: int, mapping: bool, nested: bool) -> Call:
    source = w.TensorDict({str(i): w.full(32, 8, value=1) for i in range(n)}, [32])
    if nested:
        source = w.TensorDict({"nested": source}, [32])
    target = source.clone()
    given = source.to_dict() if mapping else source
    return lambda: target.update_(given)


def _replaced(w: Library, n: int, source: str, nested: bool) -> Call:
    given = _groups(w, n) if nested else _fields(w, n)
    td = w.TensorDict(given, [32], device="cpu").clone()
    if source == "keywords":
        return lambda: td.update(**given)
    other = w.TensorDict(given, [32], device="cpu") if source == "td" else given
    return lambda: td.update(other)


def _stored(w: Library, size: tuple[int, ...], device: str | None, key: Any, how: str) -> Call:
    td = w.TensorDict({key: w.full(32, 8)}, batch_size=size, device=device)
    value = w.full(32, 8, value=1)
    method = getattr(td, how)
    return lambda: method(key, value)


def _shapes() -> Cases:
    rows: dict[str, Any] = {
        "1": 1,
        ":, 1": (slice(None), 1),
        "range(2)": range(2),
        "2, 1": (2, 1),
        "[0, 1]": [0, 1],
        "int array": np.array([0, 2]),
        "bool array": np.array([True, False, True]),
        "..., 1": (..., 1),
        "None, :, 1": (None, slice(None), 1),
        "int array, None, int array": (np.array([0, 2]), None, np.array([1, 0])),
    }
    for name, index in rows.items():
        yield f"td[{name}]", lambda w, index=index: _item(w.small(), _own(w, index))
    for name in ("1", ":, 1", "range(2)", "2, 1"):
        yield f"td[{name}] = td", lambda w, index=rows[name]: _assigned(w.small(), index)
    yield "unbind(0), deep", lambda w: _called(w.deep().unbind, 0)
    yield "unbind(0), lazy", lambda w: _called(w.lazy().unbind, 0)
    yield "unbind(1), lazy", lambda w: _called(w.lazy().unbind, 1)
    yield "stack of 4, deep", lambda w: _called(w.stack, [w.deep()] * 4, 0)
    yield "cat of 4, deep", lambda w: _called(w.cat, [w.deep()] * 4, 0)
    yield "apply(x -> x), deep", lambda w: _called(w.deep().apply, lambda x: x)
    yield "split(2, dim=1), deep", lambda w: _called(w.deep(3, 20).split, 2, 1)
    yield "chunk(10, dim=1), deep", lambda w: _called(w.deep(3, 20).chunk, 10, 1)


def _own(w: Library, index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_own(w, item) for item in index)
    return w.leaf(index) if isinstance(index, np.ndarray) else index


def _assigned(td: Any, index: Any) -> Call:
    value = td[index].clone().zero_()
    return lambda: td.__setitem__(index, value)


def _called(function: Callable[..., Any], *arguments: Any) -> Call:
    return lambda: function(*arguments)
