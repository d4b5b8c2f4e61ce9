"""Sessions of onnxruntime, or of NumPy: opened with a device and options, bound by pointer, shared by copies.

What runs a graph needs the methods of `SessionLike` only, so that a test can give it a small fake.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from numpy.typing import NDArray

from lite._files.onnx.arrays import check_external_files
from lite._files.onnx.rewriting import with_external_files, with_named_weights_outside
from lite.kernels._install import install
from lite.kernels._integer import integer
from lite.kernels._threads import cpu_quota, threads_asked
from lite.models.graph.cuda_stream import CudaStream
from lite.models.graph.runtime import check_cuda, import_onnxruntime, parse_device, refuse_on_numpy
from lite.models.graph.summary import scan, scan_bytes

Out = TypeVar("Out")
Device = tuple[Any, ...]
"""The arguments by which a binding is told the device."""

_NO_FLASH = "ORT_GQA_DISABLE_FLASH_ATTENTION"
_environment_lock = threading.Lock()
# A graph from elsewhere may never end. These are longer than any that is meant to: loading optimises large
# models, and the first run on a GPU tunes its kernels. A decoder has a second more for each token.
LOAD_SECONDS = 600.0
FIRST_RUN_SECONDS = 120.0
LAST_RUN_SECONDS = 5.0  # the program's end waits for runs of daemon threads at most so long


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
    def run_with_iobinding(self, binding: Any) -> Any: ...  # on a GPU with run options behind it


class PointerBinding:
    """An IOBinding whose inputs and outputs are given by address.

    onnxruntime's Python wrappers look up the device and keep books at every bind, which costs twice the
    bind itself; a step of a concatenating graph has four binds per layer. So the wrapped objects are called
    directly where they are found, and the public methods otherwise (other versions, other sessions).
    """

    def __init__(self, session: SessionLike) -> None:
        binding = session.io_binding()
        raw, inner = getattr(binding, "_iobinding", None), getattr(session, "_sess", None)
        self._raw = raw is not None and inner is not None
        self._binding: Any = raw if self._raw else binding
        self._session: Any = inner if self._raw else session
        self._on_numpy = runtime_of(session) == "numpy"

    def device(self, kind: str, index: int) -> Device:
        """The device as an argument of `bind_input` and `bind_output`."""
        return _device(kind, index) if self._raw else (kind, index)

    def bind_input(
        self, name: str, device: Device, element_type: Any, shape: list[int], pointer: int
    ) -> None:
        self._binding.bind_input(name, *device, element_type, shape, pointer)

    def bind_output(
        self, name: str, device: Device, element_type: Any, shape: list[int], pointer: int
    ) -> None:
        self._binding.bind_output(name, *device, element_type, shape, pointer)

    def bind_pairs(
        self, names: Sequence[tuple[str, str]], device: Device, element_type: Any, sources: Sequence[int],
        source_shape: list[int], targets: Sequence[int], target_shape: list[int],
    ) -> None:  # fmt: skip
        """Bind inputs of one shape and outputs of another: what some graphs need for every single token."""
        bind_input, bind_output = self._binding.bind_input, self._binding.bind_output
        for (name, output), source, target in zip(names, sources, targets, strict=True):
            bind_input(name, *device, element_type, source_shape, source)
            bind_output(output, *device, element_type, target_shape, target)

    def bind_new_output(self, name: str, device: Device) -> None:
        """Let onnxruntime allocate an output on a device."""
        self._binding.bind_output(name, *device)

    def outputs(self) -> Any:
        """The outputs as OrtValues, in the order in which they were bound."""
        return self._binding.get_outputs()

    def outputs_on_cpu(self) -> Any:
        """The outputs as new NumPy arrays: by a copy, which costs less than an array around the OrtValue."""
        return self._binding.copy_outputs_to_cpu()

    def runner(self) -> Callable[[], Any]:
        """What runs the graph, with little in between: for who runs it thousands of times a second."""
        run = self._session.run_with_iobinding
        return ended_in_time(run, self._binding, *([None] if self._raw else []))

    def run(self, seconds: float | None = None, options: Any = None) -> None:
        """Run the graph.

        Args:
            seconds: when to stop it; None waits for ever.
            options: onnxruntime's `RunOptions`, if not the default ones.

        Raises:
            TimeoutError: it has not ended by then.
            Exception: onnxruntime's, whose exceptions have no other common base.
        """
        if self._on_numpy:
            self._session.run_with_iobinding(self._binding, seconds)
        elif options is None and (not self._raw or seconds is None):
            self.runner()()
        elif not self._raw or seconds is None:
            ended_in_time(self._session.run_with_iobinding, self._binding, options)()
        else:
            options = options or import_onnxruntime().RunOptions()
            options.log_severity_level = 4  # the error that is raised says it
            with _stopped_after(seconds, lambda: setattr(options, "terminate", True), "its run"):
                ended_in_time(self._session.run_with_iobinding, self._binding, options)()


@functools.cache  # a fifth of a call of a small graph
def _device(kind: str, index: int) -> Device:
    return (import_onnxruntime().OrtDevice.make(kind, index)._get_c_device(),)


def run_once(session: Any, outputs: Sequence[str], feeds: Mapping[str, Any]) -> list[NDArray[Any]]:
    """Run a session on arrays, for as long as a first run may take.

    Raises:
        TimeoutError: it has not ended by then.
        Exception: onnxruntime's, whose exceptions have no other common base.
    """
    if runtime_of(session) == "numpy":
        return session.run(outputs, feeds, FIRST_RUN_SECONDS)
    options = import_onnxruntime().RunOptions()
    options.log_severity_level = 4  # the error that is raised says it
    with _stopped_after(FIRST_RUN_SECONDS, lambda: setattr(options, "terminate", True), "its run"):
        results: list[NDArray[Any]] = ended_in_time(session.run, list(outputs), dict(feeds), options)()
    return results


_running: set[int] = set()  # threads
_ending: list[bool] = []  # not empty when the program ends


def ended_in_time(run: Callable[..., Out], *args: Any) -> Callable[[], Out]:
    """A run of onnxruntime that no end of the program cuts off.

    Python ends a daemon thread that comes back from a run when the interpreter is gone, and onnxruntime
    aborts the process then (before Python 3.14). So the end waits for runs, and no new ones begin.
    """

    def counted() -> Out:
        thread = threading.get_ident()
        try:
            _running.add(thread)
            if _ending and thread != threading.main_thread().ident:
                raise SystemExit  # ends the thread, without a word
            return run(*args)
        finally:
            _running.discard(thread)

    return counted


def _end_runs() -> None:
    _ending.append(True)
    last = time.monotonic() + LAST_RUN_SECONDS
    while _running and time.monotonic() < last:
        time.sleep(0.001)


atexit.register(_end_runs)


def is_the_programs(error: Exception) -> bool:
    """Whether an error is of a class of the program that runs the graph, as what a signal handler raises.

    onnxruntime's exceptions have no common base but Exception; it raises Python's, too.
    """
    return type(error).__module__.split(".")[0] not in ("builtins", "onnxruntime", "numpy", "lite")


def run_options(settings: Mapping[str, str]) -> Any:
    """onnxruntime's `RunOptions` with these entries of its configuration."""
    options = import_onnxruntime().RunOptions()
    for name, value in settings.items():
        options.add_run_config_entry(name, value)
    return options


@contextmanager
def _stopped_after(seconds: float, stop: Callable[[], None], what: str) -> Iterator[None]:
    """Stop the run in the body after a time limit, and raise TimeoutError."""
    stopped = threading.Event()

    def too_late() -> None:
        stopped.set()
        stop()

    timer = threading.Timer(seconds, too_late)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if stopped.is_set():
            raise TimeoutError(f"the graph may never end: {what} took over {seconds:g} seconds") from error
        raise
    finally:
        timer.cancel()


def runtime_of(session: SessionLike) -> str:
    """The runtime of a session: "onnxruntime" (or a stand-in for it) or "numpy"."""
    return getattr(session, "runtime", "onnxruntime")


def default_threads() -> int:
    """Threads worth using: physical cores among those allowed, and no more than the container's CPU quota.

    The environment variable LITE_NUM_THREADS comes first, as for kernels. onnxruntime's own default counts
    the machine's cores even where a container may use two of them.

    Raises:
        ValueError: LITE_NUM_THREADS is not a number of threads.
    """
    if (asked := threads_asked()) is not None:
        return asked
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text(encoding="utf-8").strip())
        except OSError:
            cores.add(str(cpu))
    return max(1, min(len(cores), cpu_quota() or len(cores)))


def open_session(
    graph: str | Path,
    *,
    device: str = "cpu",
    num_threads: int | None = None,
    flash_attention: bool = True,
    content: bytes | None = None,
    providers: Sequence[Any] | None = None,
    stream: CudaStream | None = None,
    cuda_graphs: bool = False,
    memory_pattern: bool = False,
    memory_reuse: bool = True,
    spinning: bool = True,
    disabled_optimizers: Sequence[str] = (),
    weights: Mapping[str, NDArray[Any]] | None = None,
    runtime: str = "onnxruntime",
) -> SessionLike:
    """Create the session of `graph`.

    Args:
        graph: path of the ONNX file; external data is read from beside it.
        device: `"cpu"`, `"cuda"` or `"cuda:N"`.
        num_threads: threads inside one operator; default `default_threads()`.
        flash_attention: let GroupQueryAttention on the CPU work in tiles. Without it one token and many give
            almost the same sums, which matters where activations are rounded: a bit becomes a whole step.
        content: the model to load instead of the file's; external data is still read from beside the file.
        providers: onnxruntime's execution providers to use instead of those of `device`: names, or pairs of
            a name and its options.
        stream: the GPU's stream, for all that the session does; it must live as long.
        cuda_graphs: let runs on a GPU be captured, those whose options have another `gpu_graph_id` than -1.
        memory_pattern: plan the memory of a run once for each set of shapes, which small graphs of few
            shapes take 11% less time with.
        memory_reuse: let loading find values of one size that can share memory, in time quadratic in the
            number of operators. Without it runs take as much memory, and as long.
        spinning: let threads that wait for work take processor time, for a millisecond, and begin sooner;
            without it other processes and what runs between two calls have that time.
        disabled_optimizers: onnxruntime's names of changes to the graph that are not to be made.
        weights: values in place of those that the model has, by name, of their shapes and types; with
            `content`.
        runtime: "onnxruntime", or "numpy", which has none of the options but `content`.

    Returns:
        An `onnxruntime.InferenceSession`, or a `NumpySession`.

    Raises:
        ImportError: without onnxruntime; the message has the pip command.
        RuntimeError: for a CUDA device that this installation or machine cannot use.
        ValueError: if the runtime refuses the graph or does not load it in ten minutes, `num_threads` is not
            positive, this build of onnxruntime lacks one of `providers`, or NumPy has no such option.
    """
    kind, index = parse_device(device)
    if num_threads is not None and integer("num_threads", num_threads) < 1:
        raise ValueError(f"num_threads must be at least 1, got {num_threads}")
    if runtime == "numpy":
        refuse_on_numpy(device=device, num_threads=num_threads, providers=providers, cuda_graphs=cuda_graphs)
        # A step that was saved runs without lite.nn, whose rules this loads.
        from lite.models.graph.numpy_session import NumpySession

        try:
            return NumpySession(Path(graph), content, LOAD_SECONDS, weights)
        except (ValueError, NotImplementedError, TimeoutError, MemoryError) as error:
            raise ValueError(f"NumPy cannot load {str(graph)!r}: {error}") from error
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads or default_threads()
    options.enable_mem_pattern = memory_pattern  # the shapes of a decoder change at every step
    options.enable_mem_reuse = memory_reuse
    options.log_severity_level = 3
    # By default for tens of milliseconds: a tenth of opening an int4 model, a seventh of its first tokens.
    spin = ("spin_duration_us", "1000") if spinning else ("allow_spinning", "0")
    options.add_session_config_entry(f"session.intra_op.{spin[0]}", spin[1])
    if content is not None:
        content, folder = _with_links_followed(content, Path(graph).parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    if weights and content is not None:
        content = with_named_weights_outside(content, weights.keys(), "given")
        given = [_ort_value(ort, array) for array in weights.values()]
        options.add_external_initializers(list(weights), given)
    if providers is not None:
        _check_providers(ort, providers)
    else:
        providers = ["CPUExecutionProvider"]
        if kind == "cuda":
            check_cuda(ort)
            cuda: dict[str, Any] = {"device_id": index, "arena_extend_strategy": "kSameAsRequested"}
            if stream is not None:
                cuda["user_compute_stream"] = str(stream.handle)
            if cuda_graphs:
                cuda["enable_cuda_graph"] = "1"
            providers = [("CUDAExecutionProvider", cuda), *providers]
    cancel = getattr(options, "set_load_cancellation_flag", lambda stop: None)  # not in 1.21 yet
    try:
        with _flash_attention(flash_attention), _stopped_after(LOAD_SECONDS, lambda: cancel(True), "loading"):
            # a graph that cannot be captured must not end up on the CPU without a word
            strict: dict[str, Any] = {"enable_fallback": 0} if cuda_graphs else {}
            if disabled_optimizers:
                strict["disabled_optimizers"] = list(disabled_optimizers)
            session = ort.InferenceSession(
                content or str(graph), options, providers=list(providers), **strict
            )
        _alive.add(getattr(session, "_sess", session))  # which bindings keep, the wrapper around it not
        if stream is not None:
            weakref.finalize(session, _finish, stream)
    except Exception as error:  # onnxruntime's exceptions have no common base but Exception
        raise ValueError(f"onnxruntime {ort.__version__} cannot load {str(graph)!r}: {error}") from error
    if kind == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError(
            f"device={device!r}: onnxruntime fell back to the CPU: it found no usable GPU, or not the CUDA "
            "and cuDNN libraries it was built for; what it wrote to standard error says which. Check "
            f"`nvidia-smi`; the libraries come with {install('cuda')}"
        )
    return cast(SessionLike, session)


def _finish(stream: CudaStream) -> None:
    """Wait for a stream whose session ends.

    After a run onnxruntime has the GPU give back what it held on the host. Were that the last to know of the
    session's memory, it would be freed where CUDA permits no calls, which ends the process (seen on an H200).
    """
    with suppress(RuntimeError):  # it cannot be caught here; the next use of the GPU raises it, too
        stream.finish()


def _ort_value(ort: Any, array: NDArray[Any]) -> Any:
    """An OrtValue on the array's memory; NumPy has no bfloat16 of its own."""
    if array.dtype.name == "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view("uint16"), 16)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _with_links_followed(content: bytes, folder: Path) -> tuple[bytes, str]:
    """A model and the folder of its data, which may be links beside its file, as in a download cache.

    onnxruntime takes links for a way out of the folder when it is given a model's bytes.
    """
    if b"location" not in content:  # the folder of a process that runs for long may be gone
        return content, ""
    if all(f.is_file() and not f.is_symlink() for f in folder.glob("*")):
        return content, str(folder)  # looking for names takes 5 ms for each 200 kB of a graph
    names, folder = scan_bytes(content).external_files, folder.resolve()
    targets = {name: (folder / name).resolve() for name in names}
    folders = {target.parent for target in targets.values()}
    if all(target == folder / name for name, target in targets.items()) or len(folders) > 1:
        return content, str(folder)
    return with_external_files(content, {name: to.name for name, to in targets.items()}), str(folders.pop())


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
            f"for CUDA: {install('llm,cuda')}"
        )


# -- sessions that copies share --------------------------------------------------------------------

_shared_lock = threading.Lock()
_shared: weakref.WeakValueDictionary[Any, SharedSession] = weakref.WeakValueDictionary()
_alive: weakref.WeakSet[SessionLike] = weakref.WeakSet()


def _after_fork() -> None:
    global _environment_lock, _shared_lock
    _environment_lock, _shared_lock = threading.Lock(), threading.Lock()
    _running.clear()
    # A forked process never closes those of its parent, nor when it exits, as a list would: closing one waits
    # for its threads. Also those that only a cycle holds, which the next collection would close.
    for session in _alive:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SessionOptions(NamedTuple):
    """The device and options of the runs of a graph; see `open_session`.

    Attributes:
        device: "cpu", "cuda" or "cuda:N": where outputs of inputs on a GPU stay.
        providers: onnxruntime's providers, if not those of `device`.
        num_threads: threads inside one operator.
        runtime: "onnxruntime" or "numpy".
    """

    device: str = "cpu"
    providers: tuple[Any, ...] | None = None
    num_threads: int | None = None
    runtime: str = "onnxruntime"

    @classmethod
    def from_arguments(
        cls,
        device: str | None,
        providers: Sequence[Any] | None,
        num_threads: int | None,
        runtime: str = "onnxruntime",
    ) -> SessionOptions:
        """Check the arguments; `providers` tell the device where it is not given."""
        if runtime == "numpy":
            refuse_on_numpy(device=device, providers=providers, num_threads=num_threads)
        if providers is None:
            parse_device(device or "cpu")
            return cls(device or "cpu", None, num_threads, runtime)
        if isinstance(providers, str):
            raise TypeError(f"providers must be a list, got {providers!r}.")
        on_gpu = [entry for entry in providers if _provider_name(entry) == "CUDAExecutionProvider"]
        implied = "cuda" if on_gpu else "cpu"
        for entry in on_gpu:
            if not isinstance(entry, str) and "device_id" in entry[1]:
                implied = f"cuda:{int(entry[1]['device_id'])}"
        if device is not None and parse_device(device) != parse_device(implied):
            raise ValueError(f"device={device!r} contradicts providers={list(providers)!r}.")
        return cls(implied, tuple(providers), num_threads)

    @staticmethod
    def checked_device(device: Any) -> str:
        """The name of a device. Raises ValueError if it is not "cpu", "cuda" or "cuda:N"."""
        name = str(device)
        parse_device(name)
        return name


class SharedSession:
    """The session of one graph with one set of options, opened when it is first asked for.

    A copy is the object itself; what is unpickled, or finds itself in a forked process, opens the file
    again. Several of one process share, as long as the file is the same.

    Args:
        path: the ONNX file.
        options: where it runs.
        session: a session that is open; without one the file is opened when asked for.
    """

    def __init__(self, path: Path, options: SessionOptions, session: SessionLike | None = None) -> None:
        self.path = path
        self.options = options
        self._opened = None if session is None else (os.getpid(), session)

    @classmethod
    def of(cls, path: str | Path, options: SessionOptions) -> SharedSession:
        """The session of a file in this process."""
        path = Path(path).absolute()
        try:
            stat = path.stat()
            version: Any = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        except OSError:
            version = None
        key = (path, repr(options), version)
        with _shared_lock:
            found = _shared.get(key)
            if found is None:
                found = _shared[key] = cls(path, options)
        return found

    def get(self) -> SessionLike:
        """The session of this process.

        Raises:
            FileNotFoundError, ValueError, ImportError, RuntimeError: see `open_session`.
        """
        opened = self._opened
        if opened is not None and opened[0] == os.getpid():
            return opened[1]
        with _shared_lock:
            opened = self._opened
            if opened is None or opened[0] != os.getpid():
                opened = self._opened = (os.getpid(), self._open())
        return opened[1]

    def _open(self) -> SessionLike:
        if not self.path.is_file():
            beside = sorted(p.name for p in self.path.glob("*.onnx")) if self.path.is_dir() else []
            hint = (
                f"; it is a folder with {', '.join(beside) or 'no .onnx file'}" if self.path.is_dir() else ""
            )
            raise FileNotFoundError(f"model: there is no ONNX file {str(self.path)!r}{hint}.")
        check_external_files(self.path, scan(self.path).external_files)
        options = self.options
        return open_session(
            self.path,
            device=options.device,
            num_threads=options.num_threads,
            providers=options.providers,
            memory_reuse=False,
            runtime=options.runtime,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedSession:
        return self

    def __copy__(self) -> SharedSession:
        return self

    def __reduce__(self) -> Any:
        return SharedSession.of, (self.path, self.options)


class GivenSession(SharedSession):
    """A session that was made elsewhere: copies share it, but it cannot be pickled."""

    def __init__(self, session: SessionLike, options: SessionOptions) -> None:
        super().__init__(Path("<session>"), options, session)

    def _open(self) -> SessionLike:
        raise RuntimeError("the session was made in another process: give the path of the graph instead.")

    def __reduce__(self) -> Any:
        raise TypeError("a module of a given session cannot be pickled: give the path of the graph instead.")


def _provider_name(entry: Any) -> str:
    return str(entry if isinstance(entry, str) else entry[0])
