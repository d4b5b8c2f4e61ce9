"""Open an ONNX graph with onnxruntime: device, threads, options, and bindings by pointer.

`Session` is the only thing the decoder knows of onnxruntime, so that a test can pass a small fake instead
(anything with the methods of `SessionLike`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

_NO_FLASH = "ORT_GQA_DISABLE_FLASH_ATTENTION"
_environment_lock = threading.Lock()


class NodeArg(Protocol):
    """One input or output of a graph, as onnxruntime describes it."""

    name: str
    type: str
    shape: Sequence[int | str | None]


class SessionLike(Protocol):
    """The part of `onnxruntime.InferenceSession` that lite uses."""

    def get_inputs(self) -> Sequence[NodeArg]: ...
    def get_outputs(self) -> Sequence[NodeArg]: ...
    def io_binding(self) -> Any: ...
    def run_with_iobinding(self, binding: Any) -> Any: ...


class PointerBinding:
    """An IOBinding whose inputs and outputs are given by address.

    onnxruntime's Python wrappers look up the device and keep books at every bind, which costs twice the
    bind itself; a step of a concatenating graph has four binds per layer. So the wrapped objects are
    called directly where they are found, and the public methods otherwise (other versions, other
    sessions).
    """

    def __init__(self, session: SessionLike) -> None:
        binding = session.io_binding()
        raw, inner = getattr(binding, "_iobinding", None), getattr(session, "_sess", None)
        self._raw = raw is not None and inner is not None
        self._binding: Any = raw if self._raw else binding
        self._session: Any = inner if self._raw else session

    def device(self, kind: str, index: int) -> Any:
        """What `bind_input` and `bind_output` want as device."""
        if not self._raw:
            return kind, index
        return import_onnxruntime().OrtDevice.make(kind, index)._get_c_device()

    def bind_input(self, name: str, device: Any, element_type: Any, shape: list[int], pointer: int) -> None:
        if self._raw:
            self._binding.bind_input(name, device, element_type, shape, pointer)
        else:
            self._binding.bind_input(name, *device, element_type, shape, pointer)

    def bind_output(self, name: str, device: Any, element_type: Any, shape: list[int], pointer: int) -> None:
        if self._raw:
            self._binding.bind_output(name, device, element_type, shape, pointer)
        else:
            self._binding.bind_output(name, *device, element_type, shape, pointer)

    def bind_new_output(self, name: str, device: Any) -> None:
        """Let onnxruntime allocate an output on a device."""
        if self._raw:
            self._binding.bind_output(name, device)
        else:
            self._binding.bind_output(name, *device)

    def outputs(self) -> Any:
        """The outputs as OrtValues, in the order in which they were bound."""
        return self._binding.get_outputs()

    def outputs_on_cpu(self) -> Any:
        """The outputs as new NumPy arrays: by a copy, which costs less than an array around the OrtValue."""
        return self._binding.copy_outputs_to_cpu()

    def run(self) -> None:
        if self._raw:
            self._session.run_with_iobinding(self._binding, None)
        else:
            self._session.run_with_iobinding(self._binding)


def import_onnxruntime() -> Any:
    """Return the onnxruntime module, or raise ImportError with the command that installs it."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            'ONNX models need onnxruntime: pip install "tensordict-lite[llm]" '
            f'(or "tensordict-lite[llm-cpu]" without CUDA); the import said: {error}'
        ) from error
    return onnxruntime


def parse_device(device: str) -> tuple[str, int]:
    """Split `"cpu"`, `"cuda"` or `"cuda:N"` into (type, index). Raises ValueError for anything else."""
    kind, colon, index = str(device).partition(":")
    if kind == "cpu" and not colon:
        return "cpu", 0
    if kind == "cuda" and (not colon or (index.isascii() and index.isdigit())):
        return "cuda", int(index or 0)
    raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}")


def default_threads() -> int:
    """Threads worth using: physical cores among those allowed, and no more than the container's CPU quota.

    onnxruntime's own default counts the machine's cores even where a container may use two of them.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text().strip())
        except OSError:
            cores.add(str(cpu))
    return max(1, min(len(cores), _cgroup_quota() or len(cores)))


def _cgroup_quota() -> int | None:
    """CPUs granted by the control group (version 2, then 1), rounded up; None if there is no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or not int(period):  # "max" or -1: no limit
        return None
    return -(-int(quota) // int(period)) or None


def open_session(
    graph: str | Path,
    *,
    device: str = "cpu",
    num_threads: int | None = None,
    flash_attention: bool = True,
    content: bytes | None = None,
    providers: Sequence[Any] | None = None,
) -> SessionLike:
    """Create the onnxruntime session of `graph`.

    Args:
        graph: path of the ONNX file; external data is read from beside it.
        device: `"cpu"`, `"cuda"` or `"cuda:N"`.
        num_threads: threads inside one operator; default `default_threads()`.
        flash_attention: let GroupQueryAttention on the CPU work in tiles. Without it one token and many give
            almost the same sums, which matters where activations are rounded: a bit becomes a whole step.
        content: the model to load instead of the file's; external data is still read from beside the file.
        providers: onnxruntime's execution providers to use instead of those of `device`: names, or pairs of
            a name and its options.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        ImportError: without onnxruntime; the message has the pip command.
        RuntimeError: for a CUDA device that this installation or machine cannot use.
        ValueError: if onnxruntime refuses the graph, `num_threads` is not positive, or this build of
            onnxruntime lacks one of `providers`.
    """
    kind, index = parse_device(device)
    if num_threads is not None and num_threads < 1:
        raise ValueError(f"num_threads must be at least 1, got {num_threads}")
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads or default_threads()
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_mem_pattern = False  # the shapes change at every step
    options.log_severity_level = 3
    if content is not None:
        folder = str(Path(graph).resolve().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    if providers is not None:
        _check_providers(ort, providers)
    else:
        providers = ["CPUExecutionProvider"]
        if kind == "cuda":
            _check_cuda(ort)
            cuda = {"device_id": index, "arena_extend_strategy": "kSameAsRequested"}
            providers = [("CUDAExecutionProvider", cuda), *providers]
    try:
        with _flash_attention(flash_attention):
            session = ort.InferenceSession(content or str(graph), options, providers=list(providers))
    except Exception as error:  # onnxruntime's exceptions have no common base but Exception
        raise ValueError(f"onnxruntime {ort.__version__} cannot load {str(graph)!r}: {error}") from error
    if kind == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError(
            f"device={device!r}: onnxruntime fell back to the CPU: it found no usable GPU, or not "
            "the CUDA and cuDNN libraries it was built for. Check `nvidia-smi`; the libraries come with "
            'pip install "tensordict-lite[cuda]"'
        )
    return cast(SessionLike, session)


@contextmanager
def _flash_attention(on: bool) -> Iterator[None]:
    """onnxruntime has no session option for this: it reads the environment when it creates the operator."""
    if on:
        yield
        return
    with _environment_lock:
        before = os.environ.get(_NO_FLASH)
        os.environ[_NO_FLASH] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_NO_FLASH]
            else:
                os.environ[_NO_FLASH] = before


def _check_providers(ort: Any, providers: Sequence[Any]) -> None:
    available = ort.get_available_providers()
    names = [entry if isinstance(entry, str) else entry[0] for entry in providers]
    missing = [name for name in names if name not in available]
    if missing or not names:
        raise ValueError(
            f"providers={names}: this build of onnxruntime has {', '.join(available)}; "
            'for CUDA: pip install "tensordict-lite[llm,cuda]"'
        )


def _check_cuda(ort: Any) -> None:
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise RuntimeError(
            "device='cuda' needs a GPU build of onnxruntime, this one has only "
            f"{', '.join(ort.get_available_providers())}. Run: pip uninstall onnxruntime; "
            'pip install "tensordict-lite[llm,cuda]"'
        )
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()  # finds the CUDA libraries that came as wheels
