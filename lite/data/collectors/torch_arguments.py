"""Arguments of TorchRL's collectors that say where and how torch computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from lite._arrays.device import is_cpu

_DEVICES = ("device", "storing_device", "policy_device", "env_device")
_COMPILERS = ("compile_policy", "cudagraph_policy")
_SENT = ": update_policy_weights_() sends weights to where the policy runs"
_WAYS = {
    "compact_obs": ": LazyTensorStorage(size, compress_next=True) keeps next observations once",
    "weight_sync_schemes": _SENT,
    "weight_updater": _SENT,
}
_ALWAYS = ("extend_buffer", "reset_when_done")


class TorchArguments(TypedDict, total=False):
    """What scripts give, and lite has one way for.

    `device`, `storing_device`, `policy_device` and `env_device` are None or "cpu"; `compile_policy` and
    `cudagraph_policy` are None or False; `extend_buffer` and `reset_when_done` are True; `trust_policy`,
    `no_cuda_sync`, `use_buffers`, `num_threads` and `num_sub_threads` are without effect.
    """

    device: Any
    storing_device: Any
    policy_device: Any
    env_device: Any
    compile_policy: bool | dict[str, Any] | None
    cudagraph_policy: bool | dict[str, Any] | None
    trust_policy: bool | None
    no_cuda_sync: bool
    use_buffers: bool | None
    num_threads: int | None
    num_sub_threads: int
    extend_buffer: bool
    reset_when_done: bool


def check_torch_arguments(given: Mapping[str, Any]) -> None:
    """Refuse what would not happen.

    Raises:
        TypeError: there is no argument of a name.
        ValueError: another device, a policy that is to be compiled, or what always happens is to be left out.
    """
    for name, value in given.items():
        if name not in TorchArguments.__annotations__:
            raise TypeError(f"a collector has no argument {name!r}{_WAYS.get(name, '')}.")
        if name in _DEVICES and value is not None and not is_cpu(value):
            raise ValueError(f"{name} must be None or 'cpu', got {value!r}.")
        if name in _COMPILERS and value not in (None, False):
            raise ValueError(f"{name} must be None or False: give lite.jit(policy) as the policy.")
        if name in _ALWAYS and value is not True:
            raise ValueError(f"{name} must be True, got {value!r}.")
