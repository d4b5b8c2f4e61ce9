"""The model of a class that works on batches, opened with the processors that it may use."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from lite.kernels import set_num_threads
from lite.models.decoder.decoder import OnnxDecoder
from lite.models.decoder.protocol import check_decoder
from lite.models.wrapper.loading import load_tokenizer


class OpenModel:
    """A decoder and its tokenizer.

    Args:
        model: folder of an exported model or its ``.onnx`` file, or a `Decoder`.
        tokenizer: a tokenizer or the folder of one; by default that of the model's folder, if there is one.
        threads: to run with; by default as many as Ray has given to the actor or task that this is, or what
            `OnnxDecoder` takes anywhere else.
        device: "cpu", "cuda" or "cuda:N".
        variant: which of the folder's graphs.
        adapter: file or folder of a LoRA adapter to run with.

    Attributes:
        decoder: the model.
        tokenizer: what makes token ids of texts; ValueError where there is none.
        seconds: what opening it took.

    Raises:
        FileNotFoundError: there is no model.
        TypeError: the model is neither a path nor a `Decoder`.
        ValueError: `threads` is below 1.
    """

    def __init__(
        self, model: Any, *, tokenizer: Any = None, threads: int | None = None, device: str = "cpu",
        variant: str | None = None, adapter: str | Path | None = None,
    ) -> None:  # fmt: skip
        start = time.perf_counter()
        if threads is None:
            threads = assigned_cpus()
        if threads is not None and assigned_cpus() is not None:
            set_num_threads(threads)  # Ray's processes see all processors of the machine
        self.decoder: Any = model
        if isinstance(model, (str, Path)):
            adapters = {} if adapter is None else {Path(adapter).stem: adapter}
            self.decoder = OnnxDecoder(
                model, device=device, num_threads=threads, variant=variant, adapters=adapters
            )
            self.decoder.adapter = next(iter(adapters), None)
        else:
            check_decoder(model, path=True)
        self._tokenizer = load_tokenizer(tokenizer, model, "tokens")
        self.seconds = time.perf_counter() - start

    @property
    def has_tokenizer(self) -> bool:
        """Whether there is one."""
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that converts texts to token ids.

        Raises:
            ValueError: there is none.
        """
        if self._tokenizer is None:
            raise ValueError("texts need a tokenizer: give one, or columns of token ids")
        return self._tokenizer


def assigned_cpus() -> int | None:
    """Processors that Ray has given to the actor or task that runs this; None where none does.

    Nothing of Ray is imported: where it runs this code, it is there.

    Example:
        >>> assigned_cpus() is None
        True
    """
    ray = sys.modules.get("ray")
    if ray is None or not getattr(ray, "is_initialized", lambda: False)():
        return None
    context = ray.get_runtime_context()
    worker = getattr(context, "worker", None)  # there is none in a client of a remote cluster
    if getattr(worker, "mode", None) != ray.WORKER_MODE:  # a driver, which is given nothing
        return None
    return max(1, int(context.get_assigned_resources().get("CPU", 1)))
