"""Ray: imported on first use, and connected as long as it is needed."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from lite.kernels._install import install


def import_ray() -> Any:
    """The module, with its data sets.

    Raises:
        ImportError: without Ray; the message has the pip command.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(f"clusters need Ray: {install('ray')}; the import said: {error}") from error
    return ray


class RayConnection:
    """A connection to a cluster, until it is closed.

    A process that is connected stays so. Otherwise it connects to the cluster that the environment variable
    RAY_ADDRESS names, or starts one on this machine, without a dashboard.

    Args:
        config: arguments for `ray.init` in place of those, such as `{"address": "auto"}`.

    Attributes:
        ray: the module.
        started: whether the cluster was started for this connection.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.ray = import_ray()
        self._own = not self.ray.is_initialized()
        self.started = False
        if self._own:
            # Ray warns of what it does without this, which is to hide GPUs from actors that ask for none.
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            given = dict(config or {})
            if not given.get("address") and "RAY_ADDRESS" not in os.environ:
                given.setdefault("include_dashboard", False)
                self.started = True
            self.ray.init(**{"log_to_driver": False, "logging_level": logging.ERROR, **given})

    def close(self) -> None:
        """Disconnect, which ends a cluster that was started here; a second time does nothing."""
        if self._own:
            self._own = False
            self.ray.shutdown()
