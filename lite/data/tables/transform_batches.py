"""`TransformBatches`: transforms of TensorDicts on tables, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase, is_leaf_nontensor, is_non_tensor, lazy_stack
from lite._arrays.public import belong_to
from lite.data.tables.columns import Columns, as_columns, passed_on, ragged, rows_of, without

Transform = Callable[[TensorDictBase], TensorDictBase]


class TransformBatches:
    """Applies a transform of TensorDicts: a callable for `ray.data.Dataset.map_batches` and its like.

    A batch is a dict of columns: NumPy arrays of the rows' values, or lists. They become the entries of a
    TensorDict whose batch size is the number of rows, nested where a name has the separator in it:
    "next.reward" is `("next", "reward")`. Arrays are not copied, and Ray's are read-only: a transform that
    writes into the entries it gets needs `zero_copy_batch=False` of `map_batches`. Where a column holds lists
    of numbers of any lengths, the TensorDict is a lazy stack.

    The result has a column for each entry of what the transform gives, and those of its rows' ids.

    Args:
        transform: a callable that takes a TensorDict and gives one with a batch dimension, such as
            `MultiStep` or any `TensorDictModule`.
        transform_factory: what makes it, in its place: a callable without arguments, called once in each
            process.
        separator: joins the parts of nested keys to names of columns.
        id_key: the column of the rows' ids. If the transform leaves it out and the number of rows as it is,
            it is put back.
        done: ids of rows that an earlier job has done: they are left out.

    Raises:
        TypeError: both or neither of `transform` and `transform_factory` are given, or they cannot be called.
            From a call: the transform gives no TensorDict.
        ValueError: from a call: columns differ in length, or the result has no batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite.data import TokenTransitions, TransformBatches
        >>> steps = TransformBatches(TokenTransitions())
        >>> batch = {"id": np.array([7, 8]), "reward": np.array([1.0, 0.5]), "tokens.prompt": [[5, 6], [5]]}
        >>> batch |= {"tokens.response": [[1, 2], [3]], "log_probs.response": [[-1.0, -0.5], [-2.0]]}
        >>> batch |= {"masks.all_attention_mask": [[True] * 4, [True] * 2]}
        >>> out = steps(batch)
        >>> out["id"], out["action"].tolist(), out["next.reward"].tolist()
        (array([7, 8]), [[1, 2], [3, 0]], [[0.0, 1.0], [0.5, 0.0]])
    """

    def __init__(
        self,
        transform: Transform | None = None,
        *,
        transform_factory: Callable[[], Transform] | None = None,
        separator: str = ".",
        id_key: str = "id",
        done: Collection[int | str] = (),
    ) -> None:
        if (transform is None) == (transform_factory is None):
            raise TypeError("one of transform and transform_factory must be given, and not both")
        made = transform if transform_factory is None else transform_factory()
        if not callable(made):
            raise TypeError(f"the transform must be callable, got {type(made).__name__}")
        self.transform = made
        self.separator = separator
        self.id_key = id_key
        self.done = frozenset(done)

    def __call__(self, batch: Mapping[str, Any]) -> Columns:
        """Transform the rows of a batch; see the class."""
        batch = as_columns(batch)
        rows_of(batch)
        left = without(batch, self.id_key, self.done)
        count = rows_of(left)
        out = self.transform(tensordict_of(left, self.separator))
        if not isinstance(out, TensorDictBase):
            raise TypeError(f"the transform must give a TensorDict, got {type(out).__name__}")
        if not out.batch_size:
            raise ValueError("the transform must give a TensorDict with a batch dimension: its rows")
        columns = columns_of(out, self.separator)
        if self.id_key in left and self.id_key not in columns and len(out) == count:
            columns = {self.id_key: left[self.id_key], **columns}
        return passed_on(columns)


belong_to("lite.data", TransformBatches)


def tensordict_of(batch: Mapping[str, Any], separator: str) -> TensorDictBase:
    """The columns of a batch as entries; a lazy stack of the rows where lists of numbers are among them."""
    count, columns = rows_of(batch), dict(batch)
    lists = {name for name, column in columns.items() if _holds_lists(column)}
    if not lists:
        dense = {name: _entry(column) for name, column in columns.items()}
        return TensorDict(dense, batch_size=[count]).unflatten_keys(separator)
    rows = [
        TensorDict(
            {name: np.asarray(column[i]) if name in lists else column[i] for name, column in columns.items()}
        ).unflatten_keys(separator)
        for i in range(count)
    ]
    return lazy_stack(rows)


def columns_of(td: TensorDictBase, separator: str) -> Columns:
    """The entries as columns by name; ragged ones and objects as arrays of objects."""
    columns: Columns = {}
    for key in td.keys(True, True, is_leaf=is_leaf_nontensor):
        path = (key,) if isinstance(key, str) else key
        name = separator.join(path)
        if name in columns:
            raise ValueError(f"two entries would share the column {name!r}")
        value = td.get(key, as_list=True)
        if isinstance(value, np.ndarray):
            columns[name] = value
        elif is_non_tensor(value):
            columns[name] = np.fromiter(value.tolist(), object, len(value))
        elif all(isinstance(row, np.ndarray) for row in value):
            same = len({row.shape for row in value}) == 1
            columns[name] = np.stack(value) if same else ragged(value)
        else:
            columns[name] = np.fromiter(value, object, len(value))
    return columns


def _holds_lists(column: Any) -> bool:
    """Whether the rows of a column are lists or arrays of numbers."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return False
    return len(column) > 0 and all(
        isinstance(row, (list, tuple, np.ndarray)) and np.asarray(row).dtype.kind in "biuf" for row in column
    )


def _entry(column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufc":
        return column
    values = list(column)
    numbers = bool(values) and all(isinstance(value, (bool, int, float, np.number)) for value in values)
    return np.asarray(values) if numbers else values
