"""What processes of tests run: a worker imports it, so it lives on the path."""

import os
from typing import Any

import numpy as np

from lite import TensorDict


def fill(td: Any, value: float) -> None:
    td["n", "a"].fill(value)
    td["x"][0] = value


def add_one(td: Any) -> None:
    td["x"][...] += 1


def echo(source: Any, target: Any) -> None:
    td = source.get()
    x = td["x"]
    x += 1
    target.put(td[1:])


def echo_all(source: Any, target: Any) -> None:
    for td in iter(source.get, None):
        target.put(td)


def first_output(queue: Any, module: Any, *inputs: Any) -> None:
    queue.put(module(*inputs)[0])


def put_new(queue: Any) -> None:
    queue.put(TensorDict({"x": np.arange(4.0)}, [4]).share_memory_())


def put_and_die(queue: Any) -> None:
    put_new(queue)
    queue.close()
    queue.join_thread()
    os._exit(1)


def send_new(connection: Any) -> None:
    connection.send(TensorDict({"x": np.arange(4.0)}, [4]).share_memory_())
