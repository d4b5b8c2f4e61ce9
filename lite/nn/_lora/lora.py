"""`lora`: a module with a frozen base and low-rank adapters that learn."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict
from lite._arrays.public import belong_to
from lite.nn._import.module import GraphModule
from lite.nn._lora import files, graph
from lite.nn._lora.graph import AdaptedSource
from lite.nn._lora.linear import LoraLinear
from lite.nn._lora.low_rank import Adapter, matrices
from lite.nn._lora.projections import chosen, projections
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.uninitialized import is_uninitialized
from lite.nn.layers.linear import Linear


class LoraModule(Module):
    """A module with adapters, made by `lite.nn.lora`: of the class that it was made of, and of this one.

    It is called as the module without them, y = W x + b of a layer with an adapter being
    W x + b + (alpha / rank) B A x. Parameters have the names that they have without adapters, and PEFT's:
    ``model.layers.0.self_attn.q_proj.lora_A.weight`` (rank, in) and ``....lora_B.weight`` (out, rank). Only
    these have `requires_grad`.

    Example:
        >>> import numpy as np
        >>> from lite import nn, value_and_grad
        >>> net = nn.lora(nn.MLP(4, 2, num_cells=[8]), rank=2, targets="*", rng=0)
        >>> params = net.adapter_params().data.clone()
        >>> sorted(params.keys(True, True))[0], params["0", "lora_A", "weight"].shape
        (('0', 'lora_A', 'weight'), (2, 4))
        >>> def loss(params):
        ...     with params.to_module(net):
        ...         return (net(np.ones((3, 4), np.float32)) ** 2).mean()
        >>> value, grads = value_and_grad(loss)(params)
        >>> type(net.merge()).__name__
        'MLP'
    """

    _unadapted: type[Module]

    def adapter_params(self) -> TensorDict:
        """The adapters' parameters: what optimisers update, and `to_module` puts into the module."""
        own = {id(parameter) for one in self._adapters() for parameter in one.parameters}
        params = TensorDict.from_module(self)
        keys = [key for key, leaf in params.items(True, True) if id(leaf) in own]
        return params.select(*keys)

    def adapter_inputs(self) -> dict[str, NDArray[Any]]:
        """The matrices as a decoder takes them: Aᵀ (in, rank) and (alpha / rank) Bᵀ (rank, out), by input.

        Names are those of onnxruntime-genai and Olive, ``model.layers.0.attn.q_proj.lora_A.weight`` of the
        former's graphs, which `add_adapter_inputs` gives a graph's inputs. `OnnxDecoder.set_adapter` takes
        them; an `.onnx_adapter` file holds them.
        """
        found = {}
        for one in self._adapters():
            a, b = (parameter.data for parameter in one.parameters)
            first, second = matrices(one.graph_name)
            found[first] = a.T.copy()
            found[second] = b.T * b.dtype.type(one.scale)
        return found

    def merge(self) -> Module:
        """The module without adapters, whose weights are W + (alpha / rank) B A; this one stays as it is.

        What has no adapter shares its arrays with this module. No weight has `requires_grad`.

        Raises:
            ValueError: a weight of a graph is quantised, or something else reads it, too.
        """
        out = _copied(self)
        for module in list(out.modules()):
            if isinstance(module, GraphModule) and isinstance(module._source, AdaptedSource):
                graph.merge(module)
        out.__class__ = self._unadapted
        for module in list(out.modules()):
            if isinstance(module, LoraLinear):
                module._merge()
        return out

    def save_adapter(self, path: str | os.PathLike[str], *, qkv: Sequence[int] | None = None) -> Path:
        """Write the adapters to a file of onnxruntime, or to a folder of PEFT.

        Args:
            path: a file that ends with ``.onnx_adapter``, or a folder, which gets
                ``adapter_model.safetensors`` and ``adapter_config.json``.
            qkv: for PEFT, sizes of queries, keys and values, to write an adapter of a layer that gives all
                three (``qkv_proj``, as onnxruntime-genai joins them) as those of ``q_proj``, ``k_proj`` and
                ``v_proj``.

        Returns:
            The path.

        Raises:
            ImportError: PEFT's files need the package safetensors.
            ValueError: the sizes do not add up.
        """
        target = Path(path)
        if target.suffix == files.ONNX_SUFFIX:
            files.write_onnx(target, self.adapter_inputs())
            return target
        own = self._adapters()
        files.write_peft(target, own, {*self._candidates()} - {one.name for one in own}, qkv)
        return target

    def load_adapter(self, path: str | os.PathLike[str]) -> None:
        """Take the matrices of a file: of onnxruntime, PEFT's folder, or its ``.safetensors``.

        The ranks of the file hold from then on; its alpha / rank is multiplied into B. Adapters of
        ``q_proj``, ``k_proj`` and ``v_proj`` become one of a layer that gives all three. Nothing changes on
        an error.

        Args:
            path: the file, or the folder.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: PEFT's files need the package safetensors.
            ValueError: it is no adapter (or one with more than two matrices a layer, as DoRA's), or one of
                other layers: the message says which.
        """
        self._take(files.read(Path(path), "path"), "path")

    def _take(self, found: Mapping[str, files.LowRank], argument: str) -> None:
        for one, mine in files.fitting(found, self._adapters(), argument):
            one.take(mine.a, mine.b, mine.scale)

    def _candidates(self) -> list[str]:
        """The paths of all that could have an adapter."""
        found: list[str] = []
        for path, module in _layers(self):
            if isinstance(module, GraphModule):
                source = module._source
                own = source.base if isinstance(source, AdaptedSource) else source
                found += [one.name for one in projections(own.bytes, own.graph)]
            else:
                found.append(path)
        return found

    def _adapters(self) -> list[Adapter]:
        found: list[Adapter] = []
        for path, module in _layers(self):
            if isinstance(module, LoraLinear):
                found.append(module._adapter(path))
            elif isinstance(module, GraphModule):
                found += graph.adapters_of(module)
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        made: Any = super().__reduce_ex__(protocol)
        return _blank, (self._unadapted,), *made[2:]


def lora(
    module: Module,
    rank: int = 8,
    alpha: float = 16,
    targets: str | Iterable[str] | None = None,
    *,
    adapter: str | os.PathLike[str] | None = None,
    rng: Rng = None,
) -> LoraModule:
    """A module with low-rank adapters beside products with weights; only the adapters learn.

    Of a graph (`from_onnx`) these are beside MatMul, Gemm, FusedMatMul and MatMulNBits nodes with constant
    matrices, quantised ones included; elsewhere beside `Linear` layers. The base is frozen, so no gradient
    of its weights is computed; read it with ``from_onnx(path, trainable=False)``, which copies none of them.

    Args:
        module: it is not changed; the result shares the arrays of its weights.
        rank: of the adapters; that of `adapter` where one is given.
        alpha: what they compute is multiplied with alpha / rank.
        targets: paths of the layers, such as ``model.layers.0.self_attn.q_proj``, their last parts
            (``q_proj``), or patterns of either (``*``, ``layers.[01].*.v_proj``). Paths of a graph are those
            of the modules that it was exported from. None for the projections of attention: queries, keys,
            values (or the layer that gives all three) and the output; with `adapter`, for what that has.
        adapter: a file or folder whose matrices they begin with, as `LoraModule.load_adapter` takes it.
        rng: a generator or seed for the matrices A, drawn from U(-1/√in, 1/√in) as PEFT does; B is zeros, so
            at first the module computes what it does without adapters.

    Returns:
        A module of the same class, called in the same way, that is also a `LoraModule`.

    Raises:
        TypeError: no module.
        ValueError: a target is for nothing (the message says what there is); `rank` or `alpha` is not
            positive; the module has adapters, or parameters without values; `adapter` is none, or not one
            of these layers.
        FileNotFoundError: there is no such adapter.

    Source:
        Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"; names and first values of peft,
        which changes the module itself, renames its weights (`base_layer`) and has targets by architecture.

    Example:
        >>> import numpy as np, tempfile
        >>> from lite import nn
        >>> from lite.models import embedded_model_path
        >>> net = nn.lora(nn.from_onnx(embedded_model_path() / "model.onnx", trainable=False), rank=4, rng=0)
        >>> [name for name, p in net.named_parameters() if p.requires_grad][0]
        'model.layers.0.self_attn.qkv_proj.lora_A.weight'
    """
    if not isinstance(module, Module):
        raise TypeError(f"module must be a Module, got {type(module).__name__}.")
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise ValueError(f"rank must be a positive integer, got {rank!r}.")
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be positive, got {alpha!r}.")
    for path, inner in module.named_modules():
        if isinstance(inner, LoraModule | LoraLinear):
            raise ValueError(
                f"module has adapters already{f' in {path!r}' * bool(path)}: merge() them first."
            )
    learnt = None if adapter is None else files.read(Path(adapter), "adapter")
    generator = np.random.default_rng(rng)
    out = _copied(module)
    layers = {path: inner for path, inner in _layers(out) if isinstance(inner, Linear)}
    graphs = {
        path: projections(inner._source.bytes, inner._source.graph)
        for path, inner in _layers(out)
        if isinstance(inner, GraphModule)
    }
    candidates = [*layers, *(one.name for found in graphs.values() for one in found)]
    if learnt is not None:
        rank = max((pair.a.shape[0] for pair in learnt.values()), default=rank)
        targets = files.layers_of(learnt, candidates) if targets is None else targets
    names = chosen(candidates, targets)
    for path, layer in layers.items():
        if path in names:
            LoraLinear._of(layer, int(rank), alpha, generator)
    for path, found in graphs.items():
        own = [one for one in found if one.name in names]
        if own:
            graph.adapt(out.get_submodule(path), own, int(rank), alpha, generator)
    kind: Any = type(out)
    out.__class__ = _adapted(kind)
    assert isinstance(out, LoraModule)
    if learnt is not None:
        out._take(learnt, "adapter")
    return out


def _layers(module: Module, path: str = "", seen: set[Module] | None = None) -> Iterator[tuple[str, Module]]:
    """Graphs and linear layers of a module, each once, by path; the walk does not enter them."""
    seen = set() if seen is None else seen
    if module in seen:
        return
    seen.add(module)
    if isinstance(module, GraphModule | Linear):
        yield path, module
        return
    for name, child in module._modules.items():
        if child is not None:
            yield from _layers(child, f"{path}.{name}" if path else name, seen)


def _copied(module: Module) -> Module:
    """A copy with frozen parameters of its own, over the same arrays."""
    memo: dict[int, Any] = {}
    for name, parameter in module.named_parameters():
        if is_uninitialized(parameter):
            raise ValueError(f"module has an uninitialized {name!r}: call it once first.")
        memo[id(parameter)] = Parameter(parameter.data, requires_grad=False)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer
    return copy.deepcopy(module, memo)


@functools.cache
def _adapted(kind: Any) -> Any:
    """The class of modules of a class with adapters."""
    name = kind.__name__ if issubclass(kind, LoraLinear) else f"Lora{kind.__name__}"
    return type(kind)(name, (LoraModule, kind), {"_unadapted": kind, "__module__": kind.__module__})


def _blank(kind: Any) -> Any:
    return object.__new__(_adapted(kind))


belong_to("lite.nn", LoraModule)
