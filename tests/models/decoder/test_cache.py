"""What both caches share: capacities, padding, and copies of positions between buffers."""

import numpy as np
from helpers.models.real_models import open_model

from lite.models.decoder.binding import PlacedGraph
from lite.models.decoder.cache import (
    Line,
    copy_positions,
    line_bytes,
    new_buffers,
    pad_right,
    round_capacity,
    similar_lengths,
    split_logits,
)


def test_capacities() -> None:
    cases = [(1, 0, None, 32), (33, 0, None, 64), (33, 100, None, 128), (33, 100, 90, 90), (95, 100, 90, 95)]
    for needed, wished, context, capacity in cases:
        assert round_capacity(needed, wished, context) == capacity, needed


def test_rows_are_padded_and_cut_again() -> None:
    ids, counts = pad_right([np.array([1, 2, 3]), np.array([4])])
    np.testing.assert_array_equal(ids, [[1, 2, 3], [4, 0, 0]])
    np.testing.assert_array_equal(counts, [3, 1])
    logits = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    for last, expected in ((False, [logits[0], logits[1, :1]]), (True, [logits[0, 2:], logits[1, :1]])):
        np.testing.assert_equal(split_logits(logits, counts, last), expected)
    np.testing.assert_array_equal(split_logits(logits[:, :1], counts, True), logits[:, :1])


def test_rows_of_similar_length_run_together() -> None:
    assert similar_lengths([5, 1, 9, 2, 9], lambda longest: 5) == [[1, 3, 0, 2, 4]]
    assert similar_lengths([5, 1, 9, 2, 9], lambda longest: 10 // longest) == [[1, 3], [0], [2], [4]]
    assert similar_lengths([5, 1, 5, 2, 5], lambda longest: 2, filler=0) == [[1], [3], [0, 2], [4]]
    assert similar_lengths([8, 8], lambda longest: 0) == [[0], [1]]


def test_positions_are_copied_between_lines_of_other_lengths() -> None:
    decoder = open_model("optimum-llama")
    spec = decoder.spec
    graph = PlacedGraph(decoder.session, spec, 512, 256, "cpu", 0)
    assert line_bytes(spec, 5) == spec.num_heads * 5 * spec.head_size * 4
    old, new = new_buffers(graph, 3, 7), new_buffers(graph, 2, 5)
    assert len(old) == len(spec.cache)
    for i, buffer in enumerate(old):
        buffer.view().view(np.float32)[:] = np.arange(buffer.size // 4) + i
    for buffer in new:
        buffer.zero()
    copy_positions(spec, Line(old, 2, 7, 3), Line(new, 1, 5, 1), 4)
    for before, after in zip(old, new, strict=True):
        source = before.view().view(np.float32).reshape(3, spec.num_heads, 7, spec.head_size)
        target = after.view().view(np.float32).reshape(2, spec.num_heads, 5, spec.head_size)
        expected = np.zeros_like(target)
        expected[1, :, 1:5] = source[2, :, 3:7]
        np.testing.assert_array_equal(target, expected)
