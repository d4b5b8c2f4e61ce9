"""Calling several networks of one form at once, with parameters that are stacked."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import TensorDictBase


def values_of_each(
    network: Any,
    params: Any,
    data: TensorDictBase,
    key: Any,
    *,
    loop: bool = False,
    randomness: str = "error",
) -> Any:
    """What each set of parameters makes of the same data: (networks, *batch, ...).

    Args:
        network: a TensorDictModule.
        params: its parameters, stacked along the first dimension.
        data: what it reads; nothing is written there.
        key: of the entry that is wanted.
        loop: call the network once for each set, instead of once under `vmap` for all.
        randomness: of `vmap`, for what the network draws.
    """

    def call(own: Any) -> Any:
        inner = data.copy()
        with own.to_module(network):
            return network(inner).get(key)

    if loop:
        return np.stack([call(params[i]) for i in range(params.batch_size[0])])
    from lite._transforms.vmap.transform import vmap

    return vmap(call, randomness=randomness)(params)
