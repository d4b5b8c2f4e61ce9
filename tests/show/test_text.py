"""The exact text form."""

import textwrap

import numpy as np

from lite import NonTensorData, TensorDict, lazy_stack


def check(td: object, text: str) -> None:
    assert repr(td) == textwrap.dedent(text).strip("\n")
    assert str(td) == repr(td)


def test_nested_fields_are_sorted_and_indented() -> None:
    td = TensorDict(
        {
            "z": np.zeros(3, np.float32), "s": "hello", "n": {"b": np.zeros(3, bool), "m": {}},
            "l": ["u", "v", "w"], "a": np.zeros((3, 2), int),
        },
        batch_size=[3],
        device="cpu",
        names=["t"],
        lock=True,
    )  # fmt: skip
    check(
        td,
        """
        TensorDict(
            fields={
                a: Array(shape=(3, 2), device=cpu, dtype=int64, is_shared=False),
                l: NonTensorStack(
                    ['u', 'v', 'w'],
                    batch_size=(3,),
                    device=cpu),
                n: TensorDict(
                    fields={
                        b: Array(shape=(3,), device=cpu, dtype=bool, is_shared=False),
                        m: TensorDict(
                            fields={
                            },
                            batch_size=(3,),
                            device=cpu,
                            is_shared=False)},
                    batch_size=(3,),
                    device=cpu,
                    is_shared=False),
                s: NonTensorData(data=hello, batch_size=(3,), device=cpu),
                z: Array(shape=(3,), device=cpu, dtype=float32, is_shared=False)},
            batch_size=(3,),
            device=cpu,
            is_shared=False)
        """,
    )


def test_lazy_stack_with_ragged_and_exclusive_entries() -> None:
    rows = [
        TensorDict(
            {"x": np.zeros((3, 2), np.float32), "a": np.zeros(3), "only": np.zeros(3)}, batch_size=[3]
        ),
        TensorDict({"x": np.zeros((3, 4), np.float32), "a": np.zeros(3), "n": {"k": "v"}}, batch_size=[3]),
    ]
    check(
        lazy_stack(rows),
        """
        LazyStackedTensorDict(
            fields={
                a: Array(shape=(2, 3), device=cpu, dtype=float64, is_shared=False),
                x: Array(shape=(2, 3, -1), device=cpu, dtype=float32, is_shared=False)},
            exclusive_fields={
                0 ->
                    only: Array(shape=(3,), device=cpu, dtype=float64, is_shared=False),
                1 ->
                    n: TensorDict(
                        fields={
                            k: NonTensorData(data=v, batch_size=(3,), device=None)},
                        batch_size=(3,),
                        device=None,
                        is_shared=False)},
            batch_size=(2, 3),
            device=None,
            is_shared=False,
            stack_dim=0)
        """,
    )


def test_long_payloads_are_cut() -> None:
    assert repr(NonTensorData("x" * 201)) == (
        f"NonTensorData(data={'x' * 20}  ...  {'x' * 20}, batch_size=(), device=None)"
    )
    stack = TensorDict({"s": ["word"] * 20}, batch_size=[20]).get("s")
    assert repr(stack).splitlines()[1] == "    " + str(["word"] * 20)[:50] + "...,"
