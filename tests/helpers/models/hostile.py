"""Cases of hostile model folders, each in a process of its own with limits on memory and time.

Run as a program, this file imports what takes long once, and forks for every line it reads.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

MEMORY = 3 << 30
"""Bytes of address space: what onnxruntime maps for its threads alone is a good part of one."""


def varint(number: int) -> bytes:
    out = b""
    while number >= 128:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number: int, payload: bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def graph_of_size(*shape: int) -> bytes:
    """An ONNX model whose logits are a constant of any shape, which its few bytes do not hold."""
    dims = b"".join(number.to_bytes(8, "little") for number in shape)
    initializer = field(1, len(shape)) + field(2, 7) + field(8, b"shape") + field(9, dims)
    nodes = [
        field(1, b"shape") + field(2, b"constant") + field(4, b"ConstantOfShape"),
        field(1, b"input_ids")
        + field(2, b"cast")
        + field(4, b"Cast")
        + field(5, field(1, b"to") + field(3, 1) + field(20, 2)),
        field(1, b"cast") + field(2, b"sum") + field(4, b"ReduceSum"),
        field(1, b"constant") + field(1, b"sum") + field(2, b"logits") + field(4, b"Add"),
    ]

    def value(name: bytes, kind: int, *axes: bytes) -> bytes:
        dims = b"".join(field(1, field(2, axis)) for axis in axes)
        return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))

    graph = (
        b"".join(field(1, node) for node in nodes)
        + field(2, b"g")
        + field(5, initializer)
        + field(11, value(b"input_ids", 7, b"batch", b"sequence"))
        + field(12, value(b"logits", 1, b"x", b"y", b"z"))
    )
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


class Cases:
    """The program that runs cases; a context manager."""

    def __enter__(self) -> Cases:
        path = os.pathsep.join(str(place) for place in sys.path if place)
        self._program = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stdin.close()  # type: ignore[union-attr]
        self._program.wait(30)
        self._program.stdout.close()  # type: ignore[union-attr]

    def run(self, action: str, folder: Path, *, seconds: float = 30.0, **options: Any) -> str:
        """What a process makes of a folder: "fine", or the name of the error and its message.

        Args:
            action: a function of this file.
            folder: its argument.
            seconds: how long it may take.
            options: its further arguments; `runtime` is what runs graphs.

        Raises:
            AssertionError: the process died, or did not end in time.
        """
        stdin, stdout = self._program.stdin, self._program.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([action, str(folder), seconds, options]) + "\n")
        stdin.flush()
        said = json.loads(stdout.readline())
        if said[0] != "done":
            raise AssertionError(f"{action} {said[0]} {said[1]}")
        return str(said[1])


def use(folder: Path, **options: Any) -> None:
    """Open a model in the ways that read its files, and let it answer and score."""
    from lite import TensorDict
    from lite.models import ChatHistory, History, OnnxWrapper

    wrapper = OnnxWrapper(folder, generate_kwargs={"max_new_tokens": 2, "do_sample": False}, **options)
    history = History.from_chats([[{"role": "user", "content": "Hi"}]])
    wrapper(TensorDict({"history": ChatHistory(prompt=history, batch_size=[1])}, batch_size=[1]))
    text = wrapper.get_new_version(input_mode="text", inplace=False)
    text(["Hi", "Hello there"])
    text.get_new_version(generate=False)(["Hello there"])


def configure(folder: Path) -> None:
    """Read what the files say about generation."""
    from lite.models import GenerationConfig, ModelConfig

    GenerationConfig.from_kwargs(None, ModelConfig.from_directory(folder))


def tokenize(folder: Path) -> None:
    """Open the tokenizer alone, and use it."""
    from lite.models import Tokenizer

    tokenizer = Tokenizer.from_pretrained(folder)
    tokenizer.decode(tokenizer.encode("Hello, World 12"))
    tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], chat_template="{{ messages[0].content }}"
    )


def impatient(folder: Path) -> None:
    """`use`, with as little patience for a graph as a test can wait for."""
    from lite.models.decoder import binding

    binding.FIRST_RUN_SECONDS = 0.5  # type: ignore[attr-defined]
    use(folder)


def run_graph(folder: Path) -> None:
    """Run any graph of one input as a module, with little patience."""
    import numpy as np

    from lite.models import OnnxModule
    from lite.models.graph import call

    call.FIRST_RUN_SECONDS = 0.5  # type: ignore[attr-defined]
    OnnxModule(folder / "model.onnx")(np.ones((1, 2), np.int64))


def _case(line: str) -> list[Any]:
    action, folder, seconds, options = json.loads(line)
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiver)
        _limited(action, Path(folder), options, sender)
    os.close(sender)
    try:
        if not select.select([receiver], [], [], seconds)[0]:
            return ["did not end in", f"{seconds} seconds"]
        said = os.read(receiver, 1 << 16)
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(receiver)
        _, status = os.waitpid(child, 0)
    return ["done", said.decode()] if said else ["died with status", str(status)]


def _limited(action: str, folder: Path, options: dict[str, Any], sender: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_RDWR)  # onnxruntime and tokenizers write what they raise, too
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    warnings.simplefilter("ignore")
    os.environ["LITE_RUNTIME"] = options.pop("runtime", "onnxruntime")
    try:
        globals()[action](folder, **options)
        said = "fine"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"[:500]
    os.write(sender, said.encode("utf-8", errors="replace"))
    os._exit(0)


def _serve() -> None:
    from helpers.models.real_models import MODELS
    from helpers.models.rewriting import remembered

    from lite.models.decoder import opening
    from lite.models.text import template_sandbox as template_budget

    template_budget.MAX_SECONDS = 0.5
    vars(opening).update(remembered())
    use(MODELS / "optimum-llama")  # compiles, and rewrites the graph that most cases leave as it is
    for line in sys.stdin:
        print(json.dumps(_case(line)), flush=True)


if __name__ == "__main__":
    _serve()
