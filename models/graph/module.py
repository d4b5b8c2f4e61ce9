"""`OnnxModule`: any ONNX graph, such as a policy, as a module on arrays and TensorDicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lite.models.graph.call import GraphCall
from lite.models.graph.contract import contract_of
from lite.models.graph.runtime import choose_runtime, parse_device
from lite.models.graph.session import GivenSession, SessionLike, SessionOptions, SharedSession, runtime_of
from lite.models.graph.tensors import read_tensors
from lite.nn import TensorDictModule
from lite.nn._export.contract import Contract, Keys, keys_for
from lite.nn._modules.casting import parse_to


class OnnxModule(TensorDictModule):
    """An ONNX graph as a module: with a TensorDict, in a TensorDictSequential, or with plain arrays.

    Keys are the names of the graph's inputs and outputs unless given here, or by the contract that
    `lite.nn.Module.to_onnx` writes beside a graph (``policy.onnx.json``). With arrays it returns the output,
    or a tuple of the outputs.

    The inputs may have any number of batch dimensions in front. The graph sees them as one dimension, at its
    batch axis: the axis at which most inputs share a dynamic size. So an LSTM's state (layers, batch,
    features) is an entry (batch, layers, features). A graph without dynamic sizes takes exactly its shapes.
    If it is for a single row, the row's dimension may be missing in all inputs and outputs. An input of one
    number per row may have a last dimension of 1, as flags of environments. Values are cast to the graph's
    dtypes (float64 to float32, integers to floats, integers to narrower ones if they fit). Copies share a
    session; pickling keeps the path. Threads may share a module.

    States that the contract pairs (an LSTM's, the frames of `CatFrames`) go from ("next", key) to key, as
    `lite.envs.step_mdp` does. They may be missing where all of "is_init" is True: an episode starts.

    Args:
        model: path of the ONNX file, or a session with the methods of `onnxruntime.InferenceSession`.
        in_keys: entries for the inputs, a list in the graph's order, or a dict from the graph's names.
        out_keys: entries for the outputs, likewise; "_" drops one.
        device: "cpu", "cuda" or "cuda:N". On a GPU, inputs in its memory give outputs there.
        providers: onnxruntime's execution providers, instead of those of `device`.
        num_threads: threads inside one operator; by default one per core that may be used.
        batch_axes: the batch axis of some inputs and outputs by the graph's names, None for no batch.
        runtime: "onnxruntime"; "numpy", slower, without a GPU; None for LITE_RUNTIME of the environment, or
            onnxruntime where it is installed, and NumPy, with a warning, where it is not.
        inplace: as for `TensorDictModule`.
        strict: raise KeyError for a missing input, as `TensorDictModule` does.

    Raises:
        FileNotFoundError: there is no such file, or data of the graph beside it are missing.
        ValueError: not an ONNX graph, or data outside its folder; keys or axes that do not fit; inputs that
            are not numeric tensors; an invalid contract, or another graph's; NumPy lacks an operator or
            option.
        TypeError: `model` is neither a path nor a session.
        ImportError: with `runtime="onnxruntime"`, without it; the message has the pip command.
        RuntimeError: `device="cuda"` without a usable GPU.

    Example:
        A network with outputs "action" and "new_state" keeps its state in a rollout as
        ``OnnxModule("policy.onnx", out_keys={"new_state": ("next", "state")})``.

        >>> from lite.models import OnnxModule, embedded_model_path
        >>> OnnxModule(embedded_model_path() / "model.onnx").in_keys[:2]
        ['input_ids', 'attention_mask']
    """

    def __init__(
        self,
        model: str | Path | SessionLike,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        *,
        device: str | None = None,
        providers: Sequence[Any] | None = None,
        num_threads: int | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
        runtime: str | None = None,
        inplace: bool | str | None = True,
        strict: bool = True,
    ) -> None:
        if isinstance(model, str | Path):
            chosen = choose_runtime(runtime)
            options = SessionOptions.from_arguments(device, providers, num_threads, chosen)
            session = SharedSession.of(model, options)
        elif hasattr(model, "get_inputs"):
            if runtime is not None:
                raise ValueError(f"runtime={runtime!r} is for a model given as a path, got a session.")
            options = SessionOptions.from_arguments(device, providers, num_threads, runtime_of(model))
            session = GivenSession(model, options)
        else:
            raise TypeError(f"model must be a path or a session of onnxruntime, got {type(model).__name__}.")
        found = None if isinstance(session, GivenSession) else contract_of(session)
        contract = found or Contract((), ())
        inputs, outputs = read_tensors(session.get(), {**contract.axes(), **(batch_axes or {})})
        names = frozenset(contract.states)
        start = [i for i, tensor in enumerate(inputs) if names and tensor.name.split(".")[-1] == "is_init"]
        super().__init__(
            GraphCall(session, inputs, outputs, names, start[0] if start else None),
            keys_for("in_keys", in_keys, [x.name for x in inputs], contract.inputs),
            keys_for("out_keys", out_keys, [x.name for x in outputs], contract.outputs),
            inplace=inplace,
            strict=strict,
        )

    @property
    def device(self) -> str:
        """The device of the graph: "cpu", "cuda" or "cuda:N"."""
        return self.module.session.options.device

    @property
    def runtime(self) -> str:
        """The runtime of the graph: "onnxruntime" or "numpy"."""
        return self.module.session.options.runtime

    def _require(self, tensordict: Any, values: list[Any]) -> None:
        if not any(value is None for value in values) or self.module.starts_with(values):
            return
        names = [tensor.name for tensor, x in zip(self.module.inputs, values, strict=True) if x is None]
        if self.module.states.issuperset(names):
            keys = [key for key, x in zip(self.in_keys, values, strict=True) if x is None]
            raise KeyError(
                f"the states {keys} are missing: each step gives them below 'next', from where "
                "lite.envs.step_mdp takes them to the next one; where 'is_init' is True they are zeros."
            )
        super()._require(tensordict, values)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Run on another device, with its own session; copies made before stay where they are.

        Takes the arguments of `Module.to`. A dtype has no effect, as that of a graph is fixed.
        """
        device, _ = parse_to(args, kwargs, SessionOptions.checked_device)
        if device is None or parse_device(device) == parse_device(self.device):
            return self
        session = self.module.session
        if isinstance(session, GivenSession):
            raise RuntimeError(
                "a module of a given session stays where it is: give the path of the graph instead."
            )
        options = SessionOptions.from_arguments(device, None, session.options.num_threads, self.runtime)
        moved = SharedSession.of(session.path, options)
        moved.get()  # an error leaves the module as it was
        before = self.module
        self.module = GraphCall(moved, before.inputs, before.outputs, before.states, before.start)
        return self

    def cuda(self, device: int | str | None = None) -> Self:
        """Run on a GPU; the same as `to("cuda")` or `to("cuda:N")`."""
        return self.to("cuda" if device is None else f"cuda:{str(device).removeprefix('cuda:')}")
