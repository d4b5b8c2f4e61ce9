"""Opening sessions: devices, threads, and errors that say what to do."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS
from helpers.waiting import LONG

from lite.models import OnnxDecoder, OnnxModule
from lite.models.decoder import binding
from lite.models.graph import call, session
from lite.models.graph.cuda_stream import CudaStream
from lite.models.graph.session import (
    PointerBinding,
    _stopped_after,
    default_threads,
    ended_in_time,
    open_session,
    run_once,
    run_options,
)

BOTH = r"pip uninstall onnxruntime onnxruntime-gpu; pip install"


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITE_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("LITE_NUM_THREADS", "")
    assert default_threads() >= 1
    with pytest.raises(TypeError, match="num_threads must be an integer, got '2'"):
        open_session(MODELS / "optimum-llama" / "model.onnx", num_threads="2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_threads must be at least 1, got 0"):
        open_session(MODELS / "optimum-llama" / "model.onnx", num_threads=0)


def test_idle_threads_spin_for_a_millisecond() -> None:
    options = open_session(MODELS / "optimum-llama" / "model.onnx", num_threads=2).get_session_options()  # type: ignore[attr-defined]
    assert options.get_session_config_entry("session.intra_op.spin_duration_us") == "1000"


def test_cuda_without_a_gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(RuntimeError, match=rf"needs a GPU build of onnxruntime.*{BOTH}"):
        open_session(MODELS / "optimum-llama" / "model.onnx", device="cuda")


def test_cuda_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    real = onnxruntime.InferenceSession
    # a GPU build that finds no GPU warns and falls back to the CPU
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda path, options, providers: real(path, options, ["CPUExecutionProvider"]),
    )
    with pytest.raises(RuntimeError, match="fell back to the CPU"):
        open_session(MODELS / "optimum-llama" / "model.onnx", device="cuda:0")


def test_options_of_the_cuda_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is given by its address; what cannot be captured is an error, not a run on the CPU."""
    given: list[Any] = []
    waited: list[int | None] = []
    monkeypatch.setattr(CudaStream, "finish", lambda stream: waited.append(stream.handle))

    class Session:
        def __init__(self, path: str, options: Any, **more: Any) -> None:
            given.append(more)

        def get_providers(self) -> list[str]:
            return ["CUDAExecutionProvider"]

    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    path = MODELS / "optimum-llama" / "model.onnx"
    open_session(path, device="cuda:1")
    open_session(path, device="cuda:1", stream=CudaStream(1, 12345))
    open_session(path, device="cuda:1", stream=CudaStream(1, 12345), cuda_graphs=True)
    assert waited == [12345, 12345]  # as the sessions ended
    plain = {"device_id": 1, "arena_extend_strategy": "kSameAsRequested"}
    streamed = {**plain, "user_compute_stream": "12345"}
    assert given == [
        {"providers": [("CUDAExecutionProvider", plain), "CPUExecutionProvider"]},
        {"providers": [("CUDAExecutionProvider", streamed), "CPUExecutionProvider"]},
        {
            "providers": [
                ("CUDAExecutionProvider", {**streamed, "enable_cuda_graph": "1"}),
                "CPUExecutionProvider",
            ],
            "enable_fallback": 0,
        },
    ]


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_runs_with_options(seconds: float | None) -> None:
    """Of onnxruntime's own: a run that is told to stop does."""
    session = open_session(Path(__file__).parents[1] / "graphs" / "policy.onnx")
    binding = PointerBinding(session)
    cpu = binding.device("cpu", 0)
    for arg in session.get_inputs():
        values = np.ones([size if isinstance(size, int) else 2 for size in arg.shape], np.float32)
        binding.bind_input(arg.name, cpu, np.float32, list(values.shape), values.ctypes.data)
    for arg in session.get_outputs():
        binding.bind_new_output(arg.name, cpu)
    options = run_options({"gpu_graph_id": "-1"})
    assert options.get_run_config_entry("gpu_graph_id") == "-1"
    binding.run(seconds, options)
    assert all(np.isfinite(output).all() for output in binding.outputs_on_cpu())
    options.terminate = True
    raises(Exception, "terminate", lambda: binding.run(seconds, options))


@pytest.mark.parametrize("before", [None, "0"])
def test_the_environment_says_for_one_session_how_attention_works(before, monkeypatch):
    seen: list[str | None] = []
    name, create = session._NO_FLASH, onnxruntime.InferenceSession

    def created(*args: Any, **options: Any) -> Any:
        seen.append(os.environ.get(name))
        return create(*args, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", created)
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)
    for flash in (True, False):
        open_session(Path(__file__).parents[1] / "graphs" / "policy.onnx", flash_attention=flash)
        assert os.environ.get(name) == before
    assert seen == [before, "1"]


def test_a_damaged_graph_is_a_value_error(tmp_path: Path) -> None:
    whole = (MODELS / "optimum-llama" / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").write_bytes(whole[: len(whole) // 2])
    raises(ValueError, r"cannot load .*model\.onnx", lambda: open_session(tmp_path / "model.onnx"))


def test_an_onnxruntime_of_which_loading_cannot_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.19 and 1.21, as some boards have them."""
    monkeypatch.delattr(onnxruntime.SessionOptions, "set_load_cancellation_flag")
    found = open_session(MODELS / "optimum-llama" / "model.onnx").get_outputs()
    np.testing.assert_equal(found[0].name, "logits")


def test_the_device_follows_from_the_providers() -> None:
    from lite.models.graph.session import SessionOptions

    cuda = ("CUDAExecutionProvider", {"device_id": 2})
    assert SessionOptions.from_arguments(None, [cuda, "CPUExecutionProvider"], None).device == "cuda:2"
    assert SessionOptions.from_arguments("cuda:2", [cuda], None).device == "cuda:2"
    assert SessionOptions.from_arguments(None, ["CUDAExecutionProvider"], None).device == "cuda"


# -- graphs that never end ---------------------------------------------------------------------------

ENDLESS = Path(__file__).parents[1] / "graphs" / "endless.onnx"
"""`logits` of 8 tokens are those of a loop of 2^62 rounds."""


@pytest.mark.processes
def test_a_decoder_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "FIRST_RUN_SECONDS", 0.2)
    with pytest.raises(TimeoutError, match=r"may never end: its run took over 2\.2 seconds"):
        OnnxDecoder(ENDLESS, num_threads=1)


def test_a_module_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "FIRST_RUN_SECONDS", 0.2)
    module = OnnxModule(ENDLESS)
    for _ in range(2):  # a run that was stopped is not the first one that has been
        raises(TimeoutError, "may never end", lambda: module(np.ones((1, 2), np.int64)))


def test_a_run_on_arrays_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session(ENDLESS, num_threads=1)
    feeds = {arg.name: np.ones((1, 2), np.int64) for arg in session.get_inputs()}
    outputs = [arg.name for arg in session.get_outputs()]
    monkeypatch.setattr("lite.models.graph.session.FIRST_RUN_SECONDS", 0.2)
    raises(TimeoutError, "may never end", lambda: run_once(session, outputs, feeds))


def test_what_is_in_time_is_not_stopped() -> None:
    stopped = threading.Event()
    with _stopped_after(30, stopped.set, "loading"):
        pass
    with pytest.raises(ValueError, match="mine"), _stopped_after(30, stopped.set, "loading"):
        raise ValueError("mine")
    assert not stopped.is_set()

    def load() -> None:
        with _stopped_after(0.01, stopped.set, "loading"):
            stopped.wait(20)
            raise ValueError("stopped")

    raises(TimeoutError, r"loading took over 0\.01 seconds", load)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_closes_no_session_of_its_parent() -> None:
    """Closing one waits for threads that the child does not have: a garbage collection would never return."""
    decoder = OnnxDecoder(MODELS / "optimum-llama", num_threads=2)
    decoder.prefill(0, [3, 4])
    forgotten: list[Any] = [decoder]
    forgotten.append(forgotten)
    time.sleep(0.2)  # the session's threads go to sleep only some milliseconds after a run
    gc.disable()

    def collected() -> None:
        assert session._environment_lock.acquire(timeout=5)  # which a thread of the parent may hold
        assert session._shared_lock.acquire(timeout=5)
        gc.collect()

    try:
        del decoder, forgotten
        with session._environment_lock, session._shared_lock:
            child = multiprocessing.get_context("fork").Process(target=collected, daemon=True)
            child.start()
    finally:
        gc.enable()
    child.join(20)
    code = child.exitcode
    child.kill()
    assert code == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_waits_for_no_lock_of_its_parent() -> None:
    with session._environment_lock, session._shared_lock:
        child = os.fork()
        if not child:
            os._exit(session._environment_lock.locked() or session._shared_lock.locked())
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_ends_with_the_sessions_of_its_parent() -> None:
    """As a server's worker does, whose master opened a model or a step; it never ended."""
    program = """
import os, signal, sys, time
import numpy as np, lite
lite.jit(lambda x: np.tanh(x @ x).sum(), threads=2)(np.ones((512, 512)))
time.sleep(0.2)
child = os.fork()
if not child:
    signal.alarm(20)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = [sys.executable, "-W", "ignore", "-c", program]
    assert subprocess.run(run, capture_output=True, text=True, timeout=120).stdout == "7\n"


def test_the_end_of_the_program_waits_for_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_ending", [])
    monkeypatch.setattr(session, "_running", set())  # without threads that other tests left
    begun, may_end, ended = threading.Event(), threading.Event(), []

    def run(result: int) -> int:
        begun.set()
        assert may_end.wait(LONG)
        return result

    threads = [
        threading.Thread(target=lambda: ended.append(ended_in_time(run, 3)())),
        threading.Thread(target=lambda: [session._end_runs(), ended.append("end")]),
        threading.Thread(target=lambda: raises(SystemExit, "", ended_in_time(run, 4))),
    ]
    threads[0].start()
    assert begun.wait(LONG)
    threads[1].start()
    while not session._ending:
        time.sleep(0.001)
    threads[2].start()  # which ends before its run
    threads[2].join()
    assert ended == []
    may_end.set()
    for thread in threads:
        thread.join()
    assert ended == [3, "end"]
    assert ended_in_time(run, 5)() == 5  # a function that runs at the end
    raises(ZeroDivisionError, "", ended_in_time(divmod, 1, 0))
    assert not session._running


@pytest.mark.processes
def test_daemon_threads_that_run_graphs_at_the_end() -> None:
    """The interpreter ended them within onnxruntime, which aborted nearly every time."""
    program = """
import threading
from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, generate
decoder, begun = OnnxDecoder(embedded_model_path()), threading.Event()
def work():
    while True:
        generate(decoder, [[3, 4]] * 2, GenerationConfig(max_new_tokens=100))
        begun.set()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
