"""From a container to the files it becomes, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lite._arrays.dtypes import dtype_name
from lite._arrays.types import Array, is_array, raw
from lite._files import meta, payload
from lite._files.keys import file_name
from lite._tree.nontensor import NonTensorBase, NonTensorStack

PICKLES = ("other.pickle", "pickle.pkl")


@dataclass(slots=True)
class Plan:
    """What to write, by path below the root; `/` separates folders, the root is "".

    Attributes:
        nodes: the folders, parents first, in the order in which containers are visited.
        leaves: path and array of each leaf, in the order in which they are visited.
        texts: path and content of the other files; a folder's `meta.json` comes last.
        stacks: path of the `meta.json` of each lazy stack, with its content and the number of parts.
    """

    robust: bool = True
    allow_pickle: bool = False
    nodes: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    leaves: list[tuple[str, Array]] = field(default_factory=list)
    texts: list[tuple[str, bytes]] = field(default_factory=list)
    stacks: dict[str, tuple[meta.Json, int]] = field(default_factory=dict)

    def add(self, entry: Any, at: str, key: str) -> None:
        """Plan an entry as the folder `at`.

        Raises:
            ValueError: an entry that the format cannot hold.
            TypeError: an object that needs a pickle, and pickles are not allowed.
        """
        self.folders.append(at)
        if isinstance(entry, NonTensorBase):
            self._non_tensor(entry, at, key)
        elif hasattr(entry, "_fields"):
            self._tensorclass(entry, at)
        elif entry._parts() is not None:
            self._lazy(entry, at)
        else:
            self._tensordict(entry, at)

    def _tensordict(self, td: Any, at: str) -> None:
        self.nodes.append(at)
        members: dict[str, str] = {}
        taken = {meta.NAME: meta.NAME}
        for key, entry in td._items():
            leaf = is_array(entry)
            name = file_name(key, ".memmap" if leaf else "", self.robust)
            if name in taken:
                raise ValueError(f"the keys {taken[name]!r} and {key!r} would share the file name {name!r}.")
            taken[name] = key
            path = f"{at}/{name}" if at else name
            if leaf:
                array = host_array(entry, key)
                members[key] = meta.leaf(dtype_name(array.dtype), array.shape)
                self.leaves.append((path, array))
            else:
                members[key] = meta.text_of({"type": type(entry).__name__})
                self.add(entry, path, key)
        self._text(at, meta.NAME, meta.join(members, td.batch_size, td._names))

    def _lazy(self, td: Any, at: str) -> None:
        parts, dim = td._parts()
        if not parts:
            raise ValueError(f"an empty lazy stack cannot be saved (at {at!r}).")
        self.nodes.append(at)
        for i, part in enumerate(parts):
            self.add(part, f"{at}/{i}" if at else str(i), str(i))
        node: meta.Json = {"_type": meta.LAZY_STACK, "stack_dim": dim}
        if td._dim_name is not None:
            node["_lite"] = [{"name": td._dim_name}]
        self._text(at, meta.NAME, meta.dumps(node))
        self.stacks[self.texts[-1][0]] = node, len(parts)

    def _tensorclass(self, entry: Any, at: str) -> None:
        inner = entry._tensordict
        self.add(inner, f"{at}/_tensordict" if at else "_tensordict", "_tensordict")
        present = set(inner._keys())
        absent = {name: None for name in entry._fields if name not in present and name != "_type"}
        self._text(at, meta.NAME, meta.dumps({"_type": str(type(entry)), **absent}))

    def _non_tensor(self, entry: NonTensorBase, at: str, key: str) -> None:
        stacked = isinstance(entry, NonTensorStack)
        value = entry._objects().tolist() if stacked else entry.data  # type: ignore[attr-defined]
        node = _stack_node(entry) if isinstance(entry, NonTensorStack) else _data_node(value)
        try:
            if node is None:
                raise TypeError("JSON has no form")
            text = meta.dumps(node)
        except (TypeError, ValueError, RecursionError):
            content = value if stacked else {"data": value}
            self._text(at, PICKLES[stacked], payload.as_pickle(content, self.allow_pickle, key))
            text = meta.dumps(_stack_pickled(entry) if stacked else _data_pickled())
        self._text(at, meta.NAME, text)

    def _text(self, at: str, name: str, content: bytes) -> None:
        self.texts.append((f"{at}/{name}" if at else name, content))

    def in_archive_order(self) -> Iterator[tuple[str, Array | bytes]]:
        """All files: those of a folder before its folders, `meta.json` first, the others sorted."""
        files: list[tuple[str, Array | bytes]] = [*self.texts, *((p, a) for p, a in self.leaves if a.size)]
        return iter(sorted(files, key=lambda item: archive_key(item[0])))


def archive_key(path: str) -> list[tuple[int, str]]:
    """Sorts the paths of a tree as archives list them."""
    *folders, name = path.split("/")
    return [*((2, folder) for folder in folders), (0 if name == meta.NAME else 1, name)]


def host_array(entry: Any, key: str) -> Array:
    array = raw(entry)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"the array at key {key!r} is on a device; move it first: td.to('cpu').")
    return array


def _data_node(value: Any) -> meta.Json | None:
    try:
        plain, tagged = payload.to_json(value)
    except (TypeError, RecursionError):
        return None
    extra = None if tagged is None else {"lite": tagged}
    return {"_type": meta.NON_TENSOR_DATA, "data": plain, "_is_non_tensor": True, "_metadata": extra}


def _data_pickled() -> meta.Json:
    return {"_type": meta.NON_TENSOR_DATA, "_is_non_tensor": True, "_metadata": None}


def _stack_node(entry: NonTensorStack) -> meta.Json | None:
    items = entry._objects()
    try:
        plain, tagged = payload.to_json(items.tolist())
        flat = None if tagged is None else payload.to_json(list(items.flat))[1]
    except (TypeError, RecursionError):
        return None
    node: meta.Json = {"_type": meta.NON_TENSOR_STACK, "stack_dim": 0, "device": None, "data": plain}
    if flat is not None or not items.size or NonTensorStack.from_list(plain)._batch_size != items.shape:
        # The nesting of the lists alone does not tell where the batch ends and the objects begin.
        node["_lite"] = [{"shape": list(items.shape), "items": flat}]
    return node


def _stack_pickled(entry: NonTensorBase) -> meta.Json:
    return {
        "_type": meta.NON_TENSOR_STACK,
        "stack_dim": 0,
        "device": None,
        "data": PICKLES[1],
        "_lite": [{"shape": list(entry.batch_size), "items": None}],
    }
