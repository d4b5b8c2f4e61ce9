import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.kernels import cu_seqlens, left_to_right_pad, pad_sequences, unpad


def make(rng, lengths, features=()):
    return [rng.integers(1, 1000, (length, *features)) for length in lengths]


def test_rows_hold_the_sequences(rng):
    for lengths in ([3, 1, 0, 5], [0], [0, 0], [4, 4]):
        for features in ((), (2, 3), (0,)):
            for side in ("left", "right"):
                sequences = make(rng, lengths, features)
                values, mask = pad_sequences(sequences, padding_value=-7, side=side)
                longest = max(lengths)
                assert values.shape == (len(lengths), longest, *features)
                assert values.dtype == np.int64
                for row, flags, sequence in zip(values, mask, sequences, strict=True):
                    place = (
                        slice(longest - len(sequence), None) if side == "left" else slice(0, len(sequence))
                    )
                    np.testing.assert_array_equal(row[place], sequence)
                    expected = np.zeros(longest, bool)
                    expected[place] = True
                    np.testing.assert_array_equal(flags, expected)
                    assert (row[~expected] == -7).all()


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8), st.sampled_from(["left", "right"]), st.integers(0, 3)
)
def test_there_and_back(lengths, side, more):
    sequences = make(np.random.default_rng(1), lengths, (2,))
    padded = pad_sequences(sequences, side=side, length=max(lengths) + more)
    packed = unpad(*padded)
    np.testing.assert_array_equal(packed.values, np.concatenate(sequences))
    np.testing.assert_array_equal(packed.cu_seqlens, np.cumsum([0, *lengths]))
    assert packed.cu_seqlens.dtype == np.int32
    np.testing.assert_equal(np.split(packed.values, packed.cu_seqlens[1:-1]), sequences)
    again = pad_sequences(packed.values, packed.cu_seqlens, side=side, length=max(lengths) + more)
    np.testing.assert_equal(again, padded)


def test_entries_move_in_order():
    values = np.array([[9, 1, 9, 2, 3], [9, 9, 9, 9, 9], [1, 2, 3, 4, 5]])
    mask = np.array([[0, 1, 0, 1, 1], [0] * 5, [1] * 5], bool)
    right, left = (
        left_to_right_pad(values, mask),
        left_to_right_pad(values, mask, padding_value=-1, side="left"),
    )
    np.testing.assert_array_equal(right.values, [[1, 2, 3, 0, 0], [0] * 5, [1, 2, 3, 4, 5]])
    np.testing.assert_array_equal(right.mask, [[1, 1, 1, 0, 0], [0] * 5, [1] * 5])
    np.testing.assert_array_equal(left.values, [[-1, -1, 1, 2, 3], [-1] * 5, [1, 2, 3, 4, 5]])
    np.testing.assert_array_equal(left.mask, [[0, 0, 1, 1, 1], [0] * 5, [1] * 5])
    assert values[0, 0] == 9  # the input is left as it was


def test_features_move_with_their_entries(rng):
    values = rng.normal(size=(2, 4, 3)).astype(np.float32)
    mask = np.array([[False, True, False, True], [True, False, False, False]])
    moved = left_to_right_pad(values, mask)
    assert moved.values.dtype == np.float32
    np.testing.assert_array_equal(moved.values[0, :2], values[0, [1, 3]])
    np.testing.assert_array_equal(moved.values[1, 0], values[1, 0])
    assert not moved.values[0, 2:].any()


def test_types_are_kept_and_joined():
    padded = pad_sequences([np.array([1], np.int8), np.array([2, 3], np.int32)])
    assert padded.values.dtype == np.int32
    assert pad_sequences([np.array([0.5], np.float16)], padding_value=np.nan).values.dtype == np.float16
    assert pad_sequences([[1, 2], [3]]).values.tolist() == [[1, 2], [3, 0]]


def test_starts_of_lengths_and_masks():
    np.testing.assert_array_equal(cu_seqlens([]), [0])
    np.testing.assert_array_equal(cu_seqlens(np.array([1, 0, 2], np.uint8)), [0, 1, 1, 3])
    np.testing.assert_array_equal(cu_seqlens(np.array([[True, False, True], [False] * 3])), [0, 2, 2])
    np.testing.assert_array_equal(cu_seqlens(np.array([200, 200], np.uint8)), [0, 200, 400])


def test_errors_name_the_argument():
    for call, error, message in [
        (lambda: cu_seqlens([1.5]), TypeError, "lengths must be integers or booleans, got float64"),
        (lambda: cu_seqlens([[1]]), ValueError, r"lengths must have the shape \(batch,\), got \(1, 1\)"),
        (lambda: cu_seqlens([True]), ValueError, r"lengths of booleans must have .*got \(1,\)"),
        (lambda: cu_seqlens([1, -2]), ValueError, "lengths must be at least 0, got -2"),
        (lambda: cu_seqlens([2**31]), ValueError, r"lengths must sum to less than 2\*\*31, got 2147483648"),
        (lambda: pad_sequences([]), ValueError, "sequences must hold at least one array"),
        (lambda: pad_sequences([np.zeros((2, 3)), np.zeros((2, 4))]), ValueError, r"got \[\(2, 3\), \(2, 4"),
        (lambda: pad_sequences([np.zeros(())]), ValueError, r"got \[\(\)\]"),
        (lambda: pad_sequences([[1, 2]], length=1), ValueError, "longest sequence, 2, got 1"),
        (lambda: pad_sequences([[1]], side="up"), ValueError, "side must be 'left' or 'right', got 'up'"),
        (lambda: pad_sequences(np.arange(3), [0, 2]), ValueError, r"to the total 3, got \[0, 2\]"),
        (lambda: pad_sequences(np.arange(3), [0, 4, 3]), ValueError, "rise from 0 to the total 3"),
        (lambda: pad_sequences(np.arange(3), [0.0, 3.0]), TypeError, "starts must be integers, got float64"),
        (lambda: pad_sequences(np.arange(3), [[0, 3]]), ValueError, r"starts must have .*got \(1, 2\)"),
        (lambda: unpad(np.zeros((2, 3)), np.ones((2, 3))), TypeError, "mask must be boolean, got float64"),
        (lambda: unpad(np.zeros((2, 3)), np.ones((2, 2), bool)), ValueError, r"mask \(2, 2\), values \(2, 3"),
        (lambda: left_to_right_pad(np.zeros(3), np.ones(3, bool)), ValueError, r"mask must have the shape"),
    ]:
        with pytest.raises(error, match=message):
            call()
