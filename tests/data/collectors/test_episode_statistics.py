import numpy as np

from lite.data.collectors.episode_statistics import EpisodeStatistics


def test_returns_and_lengths():
    stats = EpisodeStatistics((2,), kept=3)
    assert stats.summary() == {"episodes": 0}
    ended = np.array([True, False])
    for step in range(1, 9):
        stats.add(np.array([1.0, 2.0]))
        if step % 2 == 0:
            stats.end(ended, step)
            stats.start(ended, step)
    assert stats.summary() == {"episodes": 4, "episode_reward_mean": 2.0, "episode_length_mean": 2.0}
    stats.end(~ended, 8)
    assert list(stats.returns) == [2.0, 2.0, 16.0]
    assert list(stats.lengths) == [2, 2, 8]


def test_state():
    stats = EpisodeStatistics(())
    stats.add(1.5)
    stats.end(np.array(True), 1)
    other = EpisodeStatistics(())
    other.load_state_dict(stats.state_dict())
    assert (
        other.summary()
        == stats.summary()
        == {"episodes": 1, "episode_reward_mean": 1.5, "episode_length_mean": 1.0}
    )
