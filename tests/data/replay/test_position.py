from lite.data.replay.position import Position


def test_a_position_is_what_was_committed_last() -> None:
    place = Position()
    assert place.now() == (0, 0, 0)
    place.commit(3, 1, 7)
    assert (place.length, place.cursor, place.writes) == place.now() == (3, 1, 7)
