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
from lite._arrays.foreign import class_name
from lite._arrays.public import belong_to
from lite.nn._import.module import GraphModule
from lite.nn._lora import files, graph
from lite.nn._lora.graph import AdaptedSource
from lite.nn._lora.linear import Adapter, LoraLinear, matrices
from lite.nn._lora.projections import chosen, projections
from lite.nn._modules.initial import Rng, is_uninitialized
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.linear import Linear


class LoraModule(Module):
    """A module with adapters, made by `lite.nn.lora`. Its class is a subclass of this and the module's own.

    It is called like the module without adapters; a layer with one computes W x + b + (alpha / rank) B A x.
    Parameters keep their names, and those of adapters are PEFT's:
    ``model.layers.0.self_attn.q_proj.lora_A.weight`` (rank, in) and ``....lora_B.weight`` (out, rank). Only
    adapters have `requires_grad`.

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
        """The parameters of the adapters, which optimisers update and `to_module` puts into the module."""
        own = {id(parameter) for adapter in self._adapters() for parameter in adapter.parameters}
        params = TensorDict.from_module(self)
        keys = [key for key, leaf in params.items(True, True) if id(leaf) in own]
        return params.select(*keys)

    def adapter_inputs(self) -> dict[str, NDArray[Any]]:
        """The matrices as a decoder takes them: Aᵀ (in, rank) and (alpha / rank) Bᵀ (rank, out), by input.

        Names are those of onnxruntime-genai and Olive, such as ``model.layers.0.attn.q_proj.lora_A.weight``;
        `add_adapter_inputs` adds inputs with these names to a graph. `OnnxDecoder.set_adapter` takes the
        dict; an `.onnx_adapter` file holds it. Their dtype is that of the graph's inputs, such as float16.
        """
        inputs = {}
        for adapter in self._adapters():
            a, b = (parameter.data for parameter in adapter.parameters)
            name_a, name_b = matrices(adapter.graph_name)
            inputs[name_a] = np.array(a.T, adapter.dtype, order="C")
            inputs[name_b] = (b.T * b.dtype.type(adapter.scale)).astype(adapter.dtype or b.dtype, copy=False)
        return inputs

    def merge(self) -> Module:
        """A new module of the original class with the weights W + (alpha / rank) B A.

        Layers without an adapter share their arrays with this module. No weight has `requires_grad`.

        Raises:
            ValueError: a weight of a graph is quantised, or another node reads it, too.
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
        adapters = self._adapters()
        without = {*self._candidates()} - {adapter.name for adapter in adapters}
        files.write_peft(target, adapters, without, qkv)
        return target

    def load_adapter(self, path: str | os.PathLike[str]) -> None:
        """Load the matrices of an ``.onnx_adapter`` file, PEFT's folder, or its ``.safetensors``.

        Adapters get the ranks of the file; its alpha / rank is multiplied into B. Adapters of ``q_proj``,
        ``k_proj`` and ``v_proj`` are joined for a layer that computes all three. Nothing changes on an error.

        Args:
            path: the file, or the folder.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: PEFT's files need the package safetensors.
            ValueError: the file is not an adapter, has more than two matrices a layer (DoRA), or is for other
                layers: the message says which.
        """
        self._load(files.read(Path(path), "path"), "path")

    def _load(self, matrices_of: Mapping[str, files.LowRank], argument: str) -> None:
        for adapter, pair in files.fitting(matrices_of, self._adapters(), argument):
            adapter.take(pair.a, pair.b, pair.scale)

    def _candidates(self) -> list[str]:
        """The paths of all layers that could have an adapter."""
        paths: list[str] = []
        for path, module in _layers(self):
            if isinstance(module, GraphModule):
                source = module._source
                base = source.base if isinstance(source, AdaptedSource) else source
                paths += [projection.name for projection in projections(base.bytes, base.graph)]
            else:
                paths.append(path)
        return paths

    def _adapters(self) -> list[Adapter]:
        adapters: list[Adapter] = []
        for path, module in _layers(self):
            if isinstance(module, LoraLinear):
                adapters.append(module._adapter(path))
            elif isinstance(module, GraphModule):
                adapters += graph.adapters_of(module)
        return adapters

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        return _blank, (self._unadapted,), *reduced[2:]


def lora(
    module: Module,
    rank: int = 8,
    alpha: float | None = None,
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
        module: not changed; the result shares the arrays of its weights.
        rank: rank of the adapters; a given `adapter` has its own.
        alpha: the output of an adapter is multiplied by alpha / rank. None for that of PEFT's files in
            `adapter`, and without these for 16.
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
        TypeError: `module` is not a Module.
        ValueError: a target matches no layer (the message lists the layers); `rank` or `alpha` is not
            positive; the module has adapters, or uninitialized parameters; `adapter` is not an adapter, or is
            for other layers.
        FileNotFoundError: `adapter` does not exist.

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
        raise TypeError(f"module must be a Module, got {class_name(module)}.")
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise ValueError(f"rank must be a positive integer, got {rank!r}.")
    if alpha is not None and not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be positive, got {alpha!r}.")
    for path, inner in module.named_modules():
        if isinstance(inner, LoraModule | LoraLinear):
            raise ValueError(
                f"module has adapters already{f' in {path!r}' * bool(path)}: merge() them first."
            )
    loaded = None if adapter is None else files.read(Path(adapter), "adapter")
    generator = np.random.default_rng(rng)
    out = _copied(module)
    layers = {path: inner for path, inner in _layers(out) if isinstance(inner, Linear)}
    graphs = {
        path: projections(inner._source.bytes, inner._source.graph)
        for path, inner in _layers(out)
        if isinstance(inner, GraphModule)
    }
    candidates = [*layers, *(projection.name for found in graphs.values() for projection in found)]
    if loaded is not None:
        rank = max((pair.a.shape[0] for pair in loaded.values()), default=rank)
        targets = files.layers_of(loaded, candidates) if targets is None else targets
        if alpha is None and Path(adapter or "").suffix != files.ONNX_SUFFIX:  # which has no scale of its own
            scales = [pair.scale for pair in loaded.values()]
            alpha = rank * max(scales, key=scales.count)
    alpha = 16 if alpha is None else alpha
    names = chosen(candidates, targets)
    for path, layer in layers.items():
        if path in names:
            LoraLinear._of(layer, int(rank), alpha, generator)
    for path, found in graphs.items():
        adapted = [projection for projection in found if projection.name in names]
        if adapted:
            graph.adapt(out.get_submodule(path), adapted, int(rank), alpha, generator)
    cls: Any = type(out)
    out.__class__ = _adapted(cls)
    assert isinstance(out, LoraModule)
    if loaded is not None:
        out._load(loaded, "adapter")
    return out


def _layers(module: Module, path: str = "", seen: set[Module] | None = None) -> Iterator[tuple[str, Module]]:
    """Graphs and linear layers of a module with their paths, each once; their children are not visited."""
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
    """A copy with new, frozen parameters over the same arrays."""
    memo: dict[int, Any] = {}
    for name, parameter in module.named_parameters():
        if is_uninitialized(parameter):
            raise ValueError(f"module has an uninitialized {name!r}: call it once first.")
        memo[id(parameter)] = Parameter(parameter.data, requires_grad=False)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer
    return copy.deepcopy(module, memo)


@functools.cache
def _adapted(cls: Any) -> Any:
    """The subclass of a module's class and LoraModule."""
    name = cls.__name__ if issubclass(cls, LoraLinear) else f"Lora{cls.__name__}"
    return type(cls)(name, (LoraModule, cls), {"_unadapted": cls, "__module__": cls.__module__})


def _blank(cls: Any) -> Any:
    return object.__new__(_adapted(cls))


belong_to("lite.nn", LoraModule)
