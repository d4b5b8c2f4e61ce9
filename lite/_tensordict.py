"""The public containers: the list of all methods of a TensorDict, and of the functions that implement them.

Operations are functions whose first argument is the container. A function in a class body costs as much as a
method, and type checkers bind its first argument to the subclass. `TensorDictBase` lists the common methods;
`TensorDict` and `LazyStackedTensorDict` add those that depend on how entries are held. Past 600 lines, so
that one file lists all methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lite._arrays.device import parse_device
from lite._arrays.public import belong_to
from lite._containers.dense import Dense
from lite._containers.lazy import Lazy
from lite._ops import (
    access,
    cast,
    combine,
    compare,
    create,
    not_in_lite,
    pointwise,
    rearrange,
    reduce,
    scans,
    structure,
)
from lite._ops import update as updates
from lite._tree import numpy_protocol, object_methods
from lite._tree.collection import TensorCollection
from lite._tree.keys import NestedKey
from lite._tree.methods import LazyModule, make_lazy
from lite._tree.names import check_names
from lite._tree.protocol import class_registry
from lite._tree.shape import parse_batch_size
from lite._tree.walks import deep_copy, lifted

if TYPE_CHECKING:
    from lite import _lazy_hooks
    from lite._convert import from_python, pytree, tables, to_python, torch
    from lite._convert import state_dict as state_dicts
    from lite._files import functions, methods, parquet
    from lite._files import text as texts
    from lite._ops import apply as applying
    from lite._ops import choose, entries, gradients, padding
    from lite._ops import lifted as stacks
    from lite._ops import pack as packing
    from lite._processes import map as maps
    from lite._processes import pickling, shared
    from lite._show import html, text
    from lite._show import summary as summaries
else:  # what many programs never call
    _lazy_hooks = LazyModule("lite._lazy_hooks")
    from_python = LazyModule("lite._convert.from_python")
    pytree = LazyModule("lite._convert.pytree")
    state_dicts = LazyModule("lite._convert.state_dict")
    tables = LazyModule("lite._convert.tables")
    to_python = LazyModule("lite._convert.to_python")
    torch = LazyModule("lite._convert.torch")
    functions = LazyModule("lite._files.functions")
    methods = LazyModule("lite._files.methods")
    parquet = LazyModule("lite._files.parquet")
    texts = LazyModule("lite._files.text")
    applying = LazyModule("lite._ops.apply")
    choose = LazyModule("lite._ops.choose")
    entries = LazyModule("lite._ops.entries")
    gradients = LazyModule("lite._ops.gradients")
    packing = LazyModule("lite._ops.pack")
    padding = LazyModule("lite._ops.padding")
    stacks = LazyModule("lite._ops.lifted")
    maps = LazyModule("lite._processes.map")
    pickling = LazyModule("lite._processes.pickling")
    shared = LazyModule("lite._processes.shared")
    html = LazyModule("lite._show.html")
    summaries = LazyModule("lite._show.summary")
    text = LazyModule("lite._show.text")


class TensorDictBase(cast.DtypeCasts):
    """Base of `TensorDict` and `LazyStackedTensorDict`; see `TensorDict` for the idea and examples."""

    __slots__ = ()

    # -- reading and writing entries (_ops/access.py) -------------------------------

    get = access.get
    get_at = access.get_at
    get_item_shape = access.get_item_shape
    __getitem__ = access.getitem
    __getitems__ = access.getitems
    get_non_tensor = access.get_non_tensor
    __contains__ = access.contains
    keys = access.keys
    items = access.items
    values = access.values

    @property
    def sorted_keys(self) -> list[str]:
        """Direct keys, sorted."""
        return sorted(self._keys())

    set = access.set
    __setitem__ = access.setitem
    set_ = access.set_
    set_at_ = access.set_at_
    set_non_tensor = access.set_non_tensor
    del_ = access.del_
    __delitem__ = access.delitem
    pop = access.pop
    popitem = access.popitem
    clear = access.clear
    setdefault = access.setdefault
    create_nested = access.create_nested

    # -- many entries at once (_ops/update.py) ----------------------------------------------------

    update = updates.update
    update_ = updates.update_
    copy_ = updates.copy_
    update_at_ = updates.update_at_
    replace = updates.replace

    # -- the set of keys (_ops/structure.py, _ops/entries.py) -------------------------------------

    select = structure.select
    _selected = structure._selected
    exclude = structure.exclude
    _excluded = structure._excluded
    rename_key_ = structure.rename_key_
    rename_keys = structure.rename_keys
    flatten_keys = structure.flatten_keys
    unflatten_keys = structure.unflatten_keys
    split_keys = structure.split_keys
    filter_empty_ = structure.filter_empty_
    pack = packing.pack
    cat_tensors = entries.cat_tensors
    stack_tensors = entries.stack_tensors
    cat_from_tensordict = entries.cat_from_tensordict
    stack_from_tensordict = entries.stack_from_tensordict
    separates = entries.separates
    filter_non_tensor_data = entries.filter_non_tensor_data
    non_tensor_items = entries.non_tensor_items
    is_non_tensor = entries.is_non_tensor
    entry_class = entries.entry_class
    data_ptr = entries.data_ptr
    auto_device_ = entries.auto_device_
    rename_ = entries.rename_
    rename = entries.rename

    @property
    def depth(self) -> int:
        """The depth of the deepest leaf; 0 if all leaves are direct entries.

        Example:
            >>> from lite import TensorDict
            >>> TensorDict({"a": {"b": {"c": 1}}}).depth
            2
        """
        return entries.depth(self)

    # -- copies (_containers) ---------------------------------------------------------------------

    def clone(self, recurse: bool = True) -> Self:
        """Copy; `recurse=False` copies the containers and shares the arrays."""
        return self._clone(recurse)

    def copy(self) -> Self:
        """Same as `clone(recurse=False)`."""
        return self._clone(False)

    def __copy__(self) -> Self:
        return self._clone(False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return deep_copy(self, memo)

    # -- the batch: more than _tree/shape.py (_ops/rearrange.py, _ops/padding.py) -----------------

    _take = rearrange._take
    gather = rearrange.gather
    repeat = rearrange.repeat
    repeat_interleave = rearrange.repeat_interleave
    roll = rearrange.roll
    flip = rearrange.flip
    narrow = rearrange.narrow
    tile = rearrange.tile
    rot90 = rearrange.rot90
    fliplr = rearrange.fliplr
    flipud = rearrange.flipud
    atleast_1d = rearrange.atleast_1d
    atleast_2d = rearrange.atleast_2d
    atleast_3d = rearrange.atleast_3d
    tensor_split = rearrange.tensor_split
    broadcast_to = rearrange.broadcast_to
    expand_as = rearrange.expand_as
    pad = padding.pad
    to_lazystack = padding.to_lazystack
    densify = padding.densify
    to_padded_tensor = padding.to_padded_tensor

    # -- stacks of TensorDicts (_ops/combine.py) --------------------------------------------------

    @classmethod
    def stack(cls, input: Iterable[Any], dim: int = 0, *, out: object = None) -> Any:
        """Stack TensorDicts densely; see `lite.stack`."""
        return combine.stack(input, dim, out=out)

    @classmethod
    def cat(cls, input: Iterable[Any], dim: int = 0, *, out: object = None) -> Any:
        """Concatenate TensorDicts; see `lite.cat`."""
        return combine.cat(input, dim, out=out)

    @classmethod
    def lazy_stack(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None, **options: Any) -> Any:
        """Stack TensorDicts without copying; see `lite.lazy_stack`."""
        return combine.lazy_stack(input, dim, out=out, **options)

    @classmethod
    def maybe_dense_stack(cls, input: Iterable[Any], dim: int = 0, *, out: object = None) -> Any:
        """Stack densely where possible, lazily elsewhere; see `lite.maybe_dense_stack`."""
        return combine.maybe_dense_stack(input, dim, out=out)

    # -- elements chosen by a mask, comparisons (_ops/choose.py, _ops/compare.py) -----------------

    where = choose.where
    masked_select = choose.masked_select
    masked_fill_ = choose.masked_fill_
    masked_fill = choose.masked_fill
    isclose = compare.isclose
    allclose = compare.allclose

    # -- functions of the user on every leaf (_ops/apply.py) --------------------------------------

    apply = applying.apply
    apply_ = applying.apply_
    named_apply = applying.named_apply

    # -- new containers (_ops/create.py) ----------------------------------------------------------

    new_zeros = create.new_zeros
    new_ones = create.new_ones
    new_empty = create.new_empty
    new_full = create.new_full
    zero_ = create.zero_
    fill_ = create.fill_
    from_schema = classmethod(create.from_schema)
    new_tensor = create.new_tensor
    copy_at_ = create.copy_at_

    # -- dtypes, devices, memory (_ops/cast.py) ---------------------------------------------------

    to = cast.to
    _on = cast._on
    type = cast.type
    cpu = cast.cpu
    cuda = cast.cuda
    clear_device_ = cast.clear_device_
    as_tensor = cast.as_tensor
    is_floating_point = cast.is_floating_point
    is_contiguous = cast.is_contiguous
    contiguous = cast.contiguous
    detach = cast.detach
    detach_ = cast.detach_
    _view_dtype = cast._view_dtype
    bytes = cast.bytes
    param_count = cast.param_count

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype that all arrays share, or None."""
        return cast.dtype(self)

    @property
    def data(self) -> Self:
        """Same as `detach()`."""
        return cast.data(self)

    # -- gradients (_ops/gradients.py) --------------------------------------------------------------

    backward = gradients.backward
    requires_grad_ = gradients.requires_grad_
    zero_grad = gradients.zero_grad

    @property
    def grad(self) -> Any:
        """The gradients of all Parameters, under the same keys; None if there are none."""
        return gradients.grad(self)

    @grad.setter
    def grad(self, value: object) -> None:
        gradients.set_grad(self, value)

    @property
    def requires_grad(self) -> bool:
        """Whether an entry requires gradients or was computed from one that does."""
        return gradients.requires_grad(self)

    @property
    def is_cpu(self) -> bool:
        """Whether `device` is the CPU."""
        return self.device == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether `device` is a GPU."""
        return self.device is not None and self.device.startswith("cuda")

    @property
    def is_meta(self) -> bool:
        """False, as there are no arrays without memory."""
        return False

    # -- numbers, element by element: a row of the table for each (_ops/pointwise.py) -------------

    abs, abs_ = pointwise.unary("abs")
    neg, neg_ = pointwise.unary("neg")
    exp, exp_ = pointwise.unary("exp")
    expm1, expm1_ = pointwise.unary("expm1")
    log, log_ = pointwise.unary("log")
    log10, log10_ = pointwise.unary("log10")
    log1p, log1p_ = pointwise.unary("log1p")
    log2, log2_ = pointwise.unary("log2")
    sqrt, sqrt_ = pointwise.unary("sqrt")
    square, square_ = pointwise.unary("square")
    rsqrt, rsqrt_ = pointwise.unary("rsqrt")
    reciprocal, reciprocal_ = pointwise.unary("reciprocal")
    sigmoid, sigmoid_ = pointwise.unary("sigmoid")
    relu, relu_ = pointwise.unary("relu")
    sign, sign_ = pointwise.unary("sign")
    sin, sin_ = pointwise.unary("sin")
    cos, cos_ = pointwise.unary("cos")
    tan, tan_ = pointwise.unary("tan")
    sinh, sinh_ = pointwise.unary("sinh")
    cosh, cosh_ = pointwise.unary("cosh")
    tanh, tanh_ = pointwise.unary("tanh")
    asin, asin_ = pointwise.unary("asin")
    acos, acos_ = pointwise.unary("acos")
    atan, atan_ = pointwise.unary("atan")
    asinh, asinh_ = pointwise.unary("asinh")
    acosh, acosh_ = pointwise.unary("acosh")
    atanh, atanh_ = pointwise.unary("atanh")
    ceil, ceil_ = pointwise.unary("ceil")
    floor, floor_ = pointwise.unary("floor")
    round, round_ = pointwise.unary("round")
    trunc, trunc_ = pointwise.unary("trunc")
    frac, frac_ = pointwise.unary("frac")
    erf, erf_ = pointwise.unary("erf")
    erfc, erfc_ = pointwise.unary("erfc")
    lgamma, lgamma_ = pointwise.unary("lgamma")
    logical_not, logical_not_ = pointwise.unary("logical_not")
    bitwise_not, bitwise_not_ = pointwise.unary("bitwise_not")
    isfinite = pointwise.predicate("isfinite")
    isinf = pointwise.predicate("isinf")
    isnan = pointwise.predicate("isnan")
    isneginf = pointwise.predicate("isneginf")
    isposinf = pointwise.predicate("isposinf")
    isreal = pointwise.predicate("isreal")
    add, add_ = pointwise.scaled("add")
    sub, sub_ = pointwise.scaled("sub")
    mul, mul_ = pointwise.binary("mul")
    div, div_ = pointwise.binary("div")
    floor_divide, floor_divide_ = pointwise.binary("floor_divide")
    remainder, remainder_ = pointwise.binary("remainder")
    mod, mod_ = pointwise.binary("mod")
    pow, pow_ = pointwise.binary("pow")
    maximum, maximum_ = pointwise.binary("maximum")
    minimum, minimum_ = pointwise.binary("minimum")
    clamp_min, clamp_min_ = pointwise.binary("clamp_min")
    clamp_max, clamp_max_ = pointwise.binary("clamp_max")
    atan2, atan2_ = pointwise.binary("atan2")
    bitwise_and, bitwise_and_ = pointwise.binary("bitwise_and")
    bitwise_or, bitwise_or_ = pointwise.binary("bitwise_or")
    bitwise_xor, bitwise_xor_ = pointwise.binary("bitwise_xor")
    logical_and, logical_and_ = pointwise.binary("logical_and")
    logical_or, logical_or_ = pointwise.binary("logical_or")
    logical_xor, logical_xor_ = pointwise.binary("logical_xor")
    __add__, __radd__, __iadd__ = pointwise.operators("add")
    __sub__, __rsub__, __isub__ = pointwise.operators("sub")
    __mul__, __rmul__, __imul__ = pointwise.operators("mul")
    __truediv__, __rtruediv__, __itruediv__ = pointwise.operators("div")
    __floordiv__, __rfloordiv__, __ifloordiv__ = pointwise.operators("floor_divide")
    __mod__, __rmod__, __imod__ = pointwise.operators("remainder")
    __pow__, __rpow__, __ipow__ = pointwise.operators("pow")
    __and__, __rand__, __iand__ = pointwise.operators("bitwise_and")
    __or__, __ror__, __ior__ = pointwise.operators("bitwise_or")
    __xor__, __rxor__, __ixor__ = pointwise.operators("bitwise_xor")
    __lt__ = pointwise.operator("lt")
    __le__ = pointwise.operator("le")
    __gt__ = pointwise.operator("gt")
    __ge__ = pointwise.operator("ge")
    __neg__ = pointwise.operator("neg")
    __pos__ = pointwise.operator("positive")
    __abs__ = pointwise.operator("abs")
    __invert__ = pointwise.operator("bitwise_not")

    if TYPE_CHECKING:  # pyright takes what is assigned for the bool of `object`

        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...
    else:
        __eq__ = pointwise.eq
        __ne__ = pointwise.ne
    __hash__ = None  # type: ignore[assignment]

    rsub = pointwise.rsub
    lerp = pointwise.lerp
    lerp_ = pointwise.lerp_
    addcmul = pointwise.addcmul
    addcmul_ = pointwise.addcmul_
    addcdiv = pointwise.addcdiv
    addcdiv_ = pointwise.addcdiv_
    clamp = pointwise.clamp
    clamp_ = pointwise.clamp_
    clip = pointwise.clip
    __divmod__ = pointwise.divmod
    __rdivmod__ = pointwise.rdivmod
    __matmul__ = pointwise.matmul
    __rmatmul__ = pointwise.rmatmul
    __array_ufunc__ = pointwise.array_ufunc
    __array_function__ = numpy_protocol.array_function
    __array__ = numpy_protocol.no_array
    __pandas_priority__ = 5000  # higher than pandas', so that `series + td` calls this class

    # -- numbers, along dimensions: a row for each (_ops/reduce.py, _ops/scans.py) ----------------

    sum = reduce.reduction("sum")
    prod = reduce.reduction("prod")
    mean = reduce.reduction("mean")
    nansum = reduce.reduction("nansum")
    nanmean = reduce.reduction("nanmean")
    std = reduce.reduction("std")
    var = reduce.reduction("var")
    amax = reduce.reduction("amax")
    amin = reduce.reduction("amin")
    argmax = reduce.reduction("argmax")
    argmin = reduce.reduction("argmin")
    max = reduce.reduction("max")
    min = reduce.reduction("min")
    all = reduce.reduction("all")
    any = reduce.reduction("any")
    norm = reduce.norm
    quantile = reduce.quantile
    logsumexp = reduce.logsumexp
    cumsum = scans.scan("cumsum")
    cumprod = scans.scan("cumprod")
    cummax = scans.scan("cummax")
    cummin = scans.scan("cummin")
    sort = scans.sort
    argsort = scans.argsort
    softmax = scans.softmax
    nan_to_num = scans.nan_to_num

    # -- other forms of data (_convert) -----------------------------------------------------------

    from_any = classmethod(from_python.from_any)
    from_tuple = classmethod(from_python.from_tuple)
    from_namedtuple = classmethod(from_python.from_namedtuple)
    from_dataclass = classmethod(from_python.from_dataclass)
    from_struct_array = classmethod(from_python.from_struct_array)
    from_list = classmethod(from_python.from_list)
    from_dict_instance = from_python.from_dict_instance
    to_dict = to_python.to_dict
    _export = to_python._export
    numpy = to_python.numpy
    tolist = to_python.tolist
    to_tensordict = to_python.to_tensordict
    to_struct_array = to_python.to_struct_array
    to_namedtuple = to_python.to_namedtuple
    from_pytree = classmethod(pytree.from_pytree)
    to_pytree = pytree.to_pytree
    from_torch = classmethod(torch.from_torch)
    to_torch = torch.to_torch
    to_pandas = tables.to_pandas
    from_pandas = classmethod(tables.from_pandas)
    to_parquet = parquet.to_parquet
    from_parquet = classmethod(parquet.from_parquet)
    state_dict = state_dicts.state_dict
    load_state_dict = state_dicts.load_state_dict

    # -- files (_files/methods.py, _files/functions.py) ----------------------------------------------

    memmap = methods.memmap
    memmap_ = methods.memmap_
    memmap_like = methods.memmap_like
    save = methods.save
    make_memmap = methods.make_memmap
    make_memmap_from_tensor = methods.make_memmap_from_tensor
    to_h5 = methods.to_h5
    to_csv = texts.to_csv
    to_json = texts.to_json
    consolidate = methods.consolidate
    is_consolidated = methods.is_consolidated
    dumps = methods.save
    load_memmap = classmethod(methods.load_memmap)
    load = classmethod(methods.load)
    load_memmap_ = methods.load_memmap_
    load_ = methods.load_
    memmap_refresh_ = methods.memmap_refresh_
    is_memmap = methods.is_memmap
    from_h5 = classmethod(methods.from_h5)
    from_csv = classmethod(texts.from_csv)
    from_json = classmethod(texts.from_json)
    from_consolidated = staticmethod(functions.from_consolidated)

    @property
    def saved_path(self) -> str:
        """The folder that the arrays are mapped to.

        Raises:
            AttributeError: they are not.
        """
        return methods.saved_path(self)

    # -- processes (_processes) -------------------------------------------------------------------

    map = maps.map
    map_iter = maps.map_iter
    share_memory_ = shared.share_memory_
    is_shared = shared.is_shared
    __getstate__ = pickling.getstate
    __setstate__ = pickling.setstate

    # -- for people (_show) -----------------------------------------------------------------------

    __repr__ = text.repr
    _repr_html_ = html._repr_html_
    _ipython_key_completions_ = access.key_completions
    summary = summaries.summary

    # -- modules (lite.nn._parameters, imported when one is called) --------------------------------

    from_module = classmethod(_lazy_hooks.from_module)
    from_modules = classmethod(_lazy_hooks.from_modules)
    to_module = _lazy_hooks.to_module


for _name, _refusal in not_in_lite.refusals().items():  # for names that are not defined elsewhere
    if not hasattr(TensorDictBase, _name):
        setattr(TensorDictBase, _name, _refusal)


class TensorDict(Dense, TensorDictBase):
    """A mapping from keys to arrays whose shapes start with one common batch size.

    Entries are NumPy arrays, nested TensorDicts, or any other object as non-tensor data. Batch
    operations (indexing, reshaping, stacking) act on every entry at once and leave the feature
    dimensions alone. Arrays are stored as they are, without a copy.

    Args:
        source: a mapping (nested mappings and tuple keys allowed) or a TensorDict.
        batch_size: leading shape of every entry: None for `()`, an int, or a sequence of ints.
        device: None (no constraint), "cpu" or "cuda"; entries are moved there.
        names: one name or None per batch dimension.
        non_blocking: accepted for compatibility.
        lock: lock the new TensorDict.
        kwargs: entries, instead of `source`.

    Raises:
        RuntimeError: an entry does not start with the batch size.
        ValueError: both `source` and entries as keywords, or a source of another type.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"obs": np.zeros((3, 4)), "info": {"step": np.arange(3)}}, batch_size=[3])
        >>> td["info", "step"]
        array([0, 1, 2])
        >>> td[1:].batch_size
        (2,)
        >>> td[0]["obs"].shape
        (4,)
    """

    __slots__ = ()

    def __init__(
        self,
        source: Mapping[Any, Any] | TensorCollection | None = None,
        batch_size: Sequence[int] | int | None = None,
        device: str | None = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **kwargs: object,
    ) -> None:
        if kwargs:
            if source is not None:
                raise ValueError(
                    "Either a dictionary or a sequence of kwargs must be provided, not both: "
                    f"got a source and {list(kwargs)}."
                )
            source = kwargs
        self._data = {}
        self._batch_size = parse_batch_size(batch_size)
        self._device = None if device is None else parse_device(device)
        self._names = None if names is None else check_names(names, len(self._batch_size))
        self._locked = False
        self._lock_parents = ()
        if type(source) is dict:
            if source:
                self._fill(source)
        elif source is not None:
            self._take_over(source)
        if lock:
            self.lock_()

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: object = 0) -> Self:
        """A TensorDict without batch dimensions that holds `value` under every key."""
        return cls(dict.fromkeys(keys, value))

    from_dict = classmethod(from_python.from_dict)


class LazyStackedTensorDict(Lazy, TensorDictBase):
    """A lazy stack: it holds TensorDicts and stacks their entries on access.

    The parts may have different keys and leaves of different shapes (ragged). Keys are those that
    all parts share. Batch dimensions in which the parts differ have size -1. Reading a ragged leaf
    raises RuntimeError unless `get` is told how to return it; writing goes to the parts, which are
    aliased: `stack[0]` is the first part itself. Nested lists that are
    set are in the order of the batch, as `tolist` gives them, whichever dimension is the stack dimension:
    after `stack["a"] = items`, `stack[i, j]["a"]` is `items[i][j]`.

    Args:
        tensordicts: the parts, of equal number of batch dimensions and equal device.
        stack_dim: where the stack dimension is in the batch size.
        batch_size: batch size of the stack, checked; without parts, what a part would have.
        device: device of a stack without parts; parts have their own.
        stack_dim_name: name of the stack dimension.
        strict_shape: also require equal batch sizes.

    Raises:
        RuntimeError: batch dimensions or devices differ, or `batch_size` is another.
        IndexError: `stack_dim` is out of range.
        TypeError: a part is not a TensorDict.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> rows = lazy_stack([TensorDict(tokens=np.arange(n)) for n in (2, 3)])
        >>> rows.batch_size
        (2,)
        >>> rows.get("tokens", as_padded_tensor=True, padding_value=-1)
        array([[ 0,  1, -1],
               [ 0,  1,  2]])
    """

    __slots__ = ()

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[str, Any] | Sequence[Any],
        *,
        auto_batch_size: bool | None = None,
        batch_size: Sequence[int] | int | None = None,
        device: str | None = None,
        batch_dims: int | None = None,
        stack_dim_name: str | None = None,
        stack_dim: int = 0,
        names: Sequence[str | None] | None = None,
    ) -> Any:
        """A lazy stack of TensorDicts, one per dict.

        Args:
            input_dict: dicts, or a mapping with the keys "0", "1", ..., as `to_dict` of a lazy stack of
                lazy stacks gives them.
            auto_batch_size: see `TensorDict.from_dict`, as for `batch_size`, `device` and `batch_dims`,
                which are those of every part.
            stack_dim_name: name of the stack dimension.
            stack_dim: where it goes.
            names: names of all dimensions of the stack, instead of `stack_dim_name`.

        Raises:
            ValueError: both `names` and `stack_dim_name`.

        Example:
            >>> import numpy as np
            >>> from lite import LazyStackedTensorDict
            >>> rows = LazyStackedTensorDict.from_dict([{"a": np.ones(n)} for n in (1, 2)])
            >>> rows.get("a", as_list=True)
            [array([1.]), array([1., 1.])]
        """
        if names is not None and stack_dim_name is not None:
            raise ValueError("names and stack_dim_name exclude each other.")
        dicts = (
            [input_dict[str(i)] for i in range(len(input_dict))]
            if isinstance(input_dict, Mapping)
            else list(input_dict)
        )
        parts = [
            TensorDict.from_dict(
                item,
                auto_batch_size=auto_batch_size,
                batch_size=batch_size,
                device=device,
                batch_dims=batch_dims,
            )
            for item in dicts
        ]
        if not parts:
            raise RuntimeError("input_dict must hold at least one dict, got none.")
        out = cls(*parts, stack_dim=stack_dim, stack_dim_name=stack_dim_name)
        if names is not None:
            out.names = list(names)
        return out

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: object = 0) -> Any:
        """A TensorDict, not a lazy stack, with `value` under every key."""
        return TensorDict.fromkeys(keys, value)

    # -- operations on every part (_tree/walks.py), and what is done otherwise (_ops/lifted.py) ----

    select = lifted(structure.select)
    _selected = lifted(structure._selected)
    exclude = lifted(structure.exclude)
    _excluded = lifted(structure._excluded)
    rename_key_ = lifted(structure.rename_key_)
    rename_keys = lifted(structure.rename_keys)
    filter_empty_ = lifted(structure.filter_empty_)
    clear = lifted(access.clear, inplace=True)
    flatten_keys = stacks.flatten_keys
    unflatten_keys = stacks.unflatten_keys
    split_keys = stacks.split_keys
    del_ = stacks.del_
    empty = stacks.empty
    update_at_ = stacks.update_at_
    to_tensordict = stacks.to_tensordict
    densify = stacks.densify


class_registry.dense = TensorDict
class_registry.lazy = LazyStackedTensorDict
object_methods.add_methods()
for _cls in (TensorDictBase, TensorDict):
    make_lazy(_cls)


belong_to("lite", LazyStackedTensorDict, TensorDict, TensorDictBase)
