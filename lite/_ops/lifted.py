"""Operations with an implementation of their own for lazy stacks, which handles ragged and exclusive entries.

The facade lists them for `LazyStackedTensorDict` instead of the operations of the same names. Operations that
only call the method of every part are `lifted` in the facade (`_tree/walks.py`) and have no code here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lite._arrays.types import Path
from lite._containers.ragged import read
from lite._ops import update as updates
from lite._tree.collection import TensorCollection
from lite._tree.keys import NestedKey, require_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.protocol import MISSING, class_registry, missing_key
from lite._tree.undo import flattened, remember, unflattened
from lite._tree.walks import change_parts, each_part, require_shared
from lite._tree.writes import Writes


def _require_all(td: Any, paths: Iterable[Path]) -> None:
    for path in paths:
        if td._peek_entry(path) is None:
            raise missing_key(td, path)


def flatten_keys(
    td: Any, separator: str = ".", inplace: bool = False, is_leaf: Callable[[type], bool] | None = None
) -> Any:
    """Flatten the keys of every part; RuntimeError if parts have exclusive keys."""
    require_shared(td, "flatten_keys")
    out = each_part(td, lambda part: part.flatten_keys(separator, inplace=inplace, is_leaf=is_leaf), inplace)
    return remember(td, out, unflattened(separator))


def unflatten_keys(td: Any, separator: str = ".", inplace: bool = False) -> Any:
    """Inverse of `flatten_keys`, in every part."""
    require_shared(td, "unflatten_keys")
    out = each_part(td, lambda part: part.unflatten_keys(separator, inplace=inplace), inplace)
    return remember(td, out, flattened(separator))


def split_keys(
    td: Any,
    *key_sets: Iterable[NestedKey] | Mapping[NestedKey, NestedKey],
    inplace: bool = False,
    default: object = MISSING,
    strict: bool = True,
    reproduce_struct: bool = False,
) -> tuple[Any, ...]:
    """Distribute the entries of every part over one lazy stack per key set, plus the rest."""
    sets = [s if isinstance(s, Mapping) else list(s) for s in key_sets]
    if default is MISSING and strict:
        _require_all(td, [require_path(key) for key_set in sets for key in key_set])
    if inplace and td.is_locked:
        raise RuntimeError(LOCK_ERROR)
    with Writes() as writes:
        if inplace:
            writes.keep(td)  # the call may raise for one part after it changed others
        split = {  # a repeated part is changed once
            id(part): part.split_keys(
                *sets, inplace=inplace, default=default, strict=strict, reproduce_struct=reproduce_struct
            )
            for part in {id(part): part for part in td.tensordicts}.values()
        }
    pieces = zip(*(split[id(part)] for part in td.tensordicts), strict=True)
    outs: list[Any] = [td._from_parts(list(parts)) for parts in pieces]
    return (*outs[:-1], td if inplace else outs[-1])


def del_(td: Any, key: NestedKey) -> Any:
    """Remove an entry from every part that has it; KeyError if none has."""
    path = require_path(key)
    if td.is_locked:
        raise RuntimeError(LOCK_ERROR)
    holders = [part for part in td.tensordicts if part._peek_entry(path) is not None]
    if not holders:
        raise missing_key(td, path)
    change_parts(td, holders, lambda part: part.del_(path))
    return td


def empty(
    td: Any,
    recurse: bool = False,
    *,
    batch_size: object = None,
    device: str | None = None,
    names: object = None,
) -> Any:
    """A lazy stack of empty parts; with another batch size, device or names a dense TensorDict."""
    out = each_part(td, lambda part: part.empty(recurse))
    if batch_size is None and device is None and names is None:
        return out
    size = td.batch_size if batch_size is None else batch_size
    return out.contiguous().empty(recurse, batch_size=size, device=device, names=names)


def update_at_(
    td: Any,
    input_dict_or_td: Mapping[Any, Any] | TensorCollection,
    idx: object,
    clone: bool = False,
    *,
    non_blocking: bool = False,
    keys_to_update: Iterable[NestedKey] | None = None,
) -> Any:
    """Write the entries of a source at a batch index of existing entries; returns self."""
    node = td._as_node(input_dict_or_td)
    if not isinstance(node, class_registry.lazy) or keys_to_update is not None:
        return updates.update_at_(td, input_dict_or_td, idx, clone, keys_to_update=keys_to_update)
    _require_all(td, map(require_path, node.keys(True)))
    td._set_index(idx, node)
    return td


def to_tensordict(td: Any, *, retain_none: bool | None = None) -> Any:
    """A dense TensorDict with copies of the entries that all parts share.

    Raises:
        RuntimeError: a leaf is ragged, or the batch size is.
    """
    return td.contiguous().to_tensordict(retain_none=retain_none)


def densify(td: Any, padding_value: object = 0.0, padding_side: str = "right") -> Any:
    """A dense TensorDict in which ragged leaves are padded to the longest along their first dim.

    Entries that some part lacks are left out.

    Raises:
        RuntimeError: the batch size is ragged, or leaves differ in more than the first dim.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)]).densify()["a"]
        array([[1., 0.],
               [1., 1.]])
    """
    if -1 in td.batch_size:
        raise RuntimeError(f"a ragged batch of size {td.batch_size} cannot become dense.")
    entries = {}
    for key in td._keys():
        entry = td._peek_entry(key)
        node = td._as_node(entry)
        if node is not None:
            dense = node.densify(padding_value, padding_side)
            entries[key] = td._rewrap(entry, dense)
        elif isinstance(entry, np.ndarray) and -1 in td.get_item_shape(key):
            entries[key] = read(
                td, key, as_padded_tensor=True, padding_value=padding_value, padding_side=padding_side
            )
        else:
            entries[key] = td._get_entry(key)
    return class_registry.dense._make(entries, td.batch_size, td.device, td._names)
