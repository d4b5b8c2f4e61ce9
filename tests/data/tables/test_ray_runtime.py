"""Ray, imported and connected to when it is asked for."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lite.data import RayCollector, RayReplayBuffer
from lite.data.tables.ray_runtime import RayConnection, import_ray


class StandIn(SimpleNamespace):
    """What of Ray is called."""

    def __init__(self, connected: bool) -> None:
        super().__init__(connected=connected, given=None, data=SimpleNamespace())

    def is_initialized(self) -> bool:
        return bool(self.connected)

    def init(self, **options: Any) -> None:
        self.connected, self.given = True, options

    def shutdown(self) -> None:
        self.connected = False


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn(False)
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setitem(sys.modules, "ray.data", stand_in.data)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return stand_in


def test_without_ray_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for make in (
        import_ray,
        RayConnection,
        RayReplayBuffer,
        lambda: RayCollector(lambda: None, frames_per_batch=1),
    ):
        with pytest.raises(ImportError, match=r'pip install -e "\.\[ray\]"'):
            make()


def test_a_cluster_is_started_and_ended_with_the_connection(ray: StandIn) -> None:
    connection = RayConnection()
    assert ray.connected
    assert connection.started
    assert ray.given["include_dashboard"] is False
    connection.close()
    assert not ray.connected
    ray.connected = True
    connection.close()
    assert ray.connected


def test_a_running_cluster_is_connected_to(ray: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not RayConnection({"address": "auto", "log_to_driver": True}).started
    assert ray.given["address"] == "auto"
    assert ray.given["log_to_driver"] is True
    assert "include_dashboard" not in ray.given
    ray.connected = False
    monkeypatch.setenv("RAY_ADDRESS", "host:1")
    RayConnection()
    assert "include_dashboard" not in ray.given


def test_who_is_connected_stays_so(ray: StandIn) -> None:
    ray.connected = True
    RayConnection({"address": "elsewhere"}).close()
    assert ray.connected
    assert ray.given is None
