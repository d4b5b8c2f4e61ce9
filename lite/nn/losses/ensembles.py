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
    each: bool = False,
    loop: bool = False,
    randomness: str = "error",
) -> Any:
    """The results of each set of parameters, on the same or on separate data: (networks, *batch, ...).

    Args:
        network: a TensorDictModule.
        params: its parameters, stacked along the first dimension.
        data: the input, which is not changed.
        key: of the entry that is wanted.
        each: the first dimension of `data` counts the sets, too, and each reads its part.
        loop: call the network once for each set, instead of once under `vmap` for all.
        randomness: of `vmap`, for what the network draws.
    """

    def call(own: Any, part: TensorDictBase) -> Any:
        inner = part.copy()
        with own.to_module(network):
            return network(inner).get(key)

    if loop:
        parts: Any = data if each else [data] * params.batch_size[0]
        return np.stack([call(params[i], parts[i]) for i in range(params.batch_size[0])])
    from lite._transforms.vmap.transform import vmap

    return vmap(call, in_dims=(0, 0 if each else None), randomness=randomness)(params, data)
