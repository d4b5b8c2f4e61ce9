"""What layers ask that run inside maps and outside."""

import threading
from typing import Any

import numpy as np
from helpers.vmap_cases import rows

from lite import vmap
from lite._transforms.vmap.running import everything, generator_for, look_up, maps


def test_outside_a_map_all_is_as_it_is() -> None:
    rng, table = np.random.default_rng(0), np.arange(4)
    assert generator_for(rng) is rng
    assert everything(table) is table
    np.testing.assert_array_equal(look_up(table, [1, 2]), [1, 2])


def test_inside_maps() -> None:
    x, table = rows(3, 2), np.arange(10.0)[::-1]
    seen: list[Any] = []

    def fn(v: Any) -> Any:
        seen.append(everything(v))
        return look_up(table, v.astype(int))

    out = vmap(vmap(fn))(x)
    np.testing.assert_array_equal(out, table[x.astype(int)])
    assert seen[0].shape == x.shape
    assert type(seen[0]) is np.ndarray


def test_maps_run_in_their_own_thread() -> None:
    counts: list[int] = []

    def fn(v: Any) -> Any:
        thread = threading.Thread(target=lambda: counts.append(len(maps.running)))
        thread.start()
        thread.join()
        counts.append(len(maps.running))
        return v

    vmap(fn)(rows())
    assert counts == [0, 1]
