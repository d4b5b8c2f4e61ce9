"""Ray's part in this process: actors whose calls run when someone asks for them, and a clock.

A script of `ray_jobs` runs on it in the process of the test, so that each test sees what it changes.
"""

import contextlib
import copy
import io
import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lite.data.collectors import ray_collector


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class ObjectLostError(RayError):
    pass


class RayTaskError(RayError):
    pass


class Died(BaseException):
    """The process of an actor was killed."""


def _of_both_classes(error: Exception) -> Exception:
    told = "".join(traceback.format_exception(error))
    methods: dict[str, Any] = {"__init__": lambda self: None, "__str__": lambda self: told}
    return type("RayTaskError", (RayTaskError, type(error)), methods)()


class Ref:
    def __init__(self, actor: "Actor", name: str, args: Any) -> None:
        self.actor, self.name, self.args = actor, name, args


class Actor:
    def __init__(self, cluster: "LocalRay", kind: type, cpus: float, args: tuple[Any, ...]) -> None:
        self._cluster, self._kind, self._args, self._cpus = cluster, kind, args, cpus
        self._made: Any = None
        self._error: str | None = None

    def __deepcopy__(self, memo: Any) -> "Actor":
        return self

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *args: Ref(self, name, copy.deepcopy(args)))

    def _end(self, why: str) -> None:
        self._error = why
        self._cluster.actors = [other for other in self._cluster.actors if other is not self]

    def _run(self, name: str, args: Any) -> Any:
        if self._error is None and name != "__ray_ready__":
            try:
                self._made = self._made or self._kind(*copy.deepcopy(self._args))
            except Exception as error:
                self._end(f"its start raised {error!r}")
        if self._error is not None:
            raise RayActorError(self._error)
        try:
            return None if name == "__ray_ready__" else copy.deepcopy(getattr(self._made, name)(*args))
        except Died:
            self._end("killed")
            raise RayActorError("killed") from None
        except Exception as error:
            raise _of_both_classes(error) from error


class LocalRay:
    """The module `ray`, connected to a cluster of so many processors."""

    exceptions = SimpleNamespace(
        RayError=RayError, RayActorError=RayActorError, ObjectLostError=ObjectLostError,
        RayTaskError=RayTaskError,
    )  # fmt: skip
    data = None

    def __init__(self, cpus: int) -> None:
        self.cpus, self.now = cpus, 1000.0
        self.actors: list[Actor] = []
        self.put = copy.deepcopy

    def is_initialized(self) -> bool:
        return True

    def shutdown(self) -> None:
        assert self.actors == []

    def die(self) -> None:
        raise Died

    def remote(self, num_cpus: float, **options: int) -> Any:
        assert not any(options.values())

        def make(kind: type) -> Any:
            def start(*args: Any) -> Actor:
                self.actors.append(Actor(self, kind, num_cpus, args))
                return self.actors[-1]

            return SimpleNamespace(remote=start)

        return make

    def kill(self, actor: Actor) -> None:
        actor._end("killed")

    def _started(self) -> list[Actor]:
        started: list[Actor] = []
        for actor in self.actors:
            if sum(one._cpus for one in started) + actor._cpus <= self.cpus:
                started.append(actor)
        return started

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cpus}

    def available_resources(self) -> dict[str, float]:
        free = self.cpus - sum(actor._cpus for actor in self._started())
        return {"CPU": free} if free else {}

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        started = self._started()
        ready = [ref for ref in refs if any(ref.actor is one for one in started) or ref.actor._error]
        if not ready:
            self.now += timeout
        return ready[:num_returns], []

    def get(self, ref: Ref) -> Any:
        return ref.actor._run(ref.name, ref.args)


def run(script: str, folder: Path, cpus: int) -> Any:
    """What a script prints last, as `ray_jobs.run`."""
    ray, told = LocalRay(cpus), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(told):
        patch.setitem(sys.modules, "ray", ray)
        patch.setitem(sys.modules, "ray.data", SimpleNamespace())
        patch.setattr(sys, "argv", ["script", str(folder)])
        patch.setattr(ray_collector, "_QUIET", 2.0)
        patch.setattr(ray_collector, "time", SimpleNamespace(monotonic=lambda: ray.now))
        exec(f"import os, ray, sys\n{script}", {"__name__": "script"})
    return json.loads(told.getvalue().splitlines()[-1])
