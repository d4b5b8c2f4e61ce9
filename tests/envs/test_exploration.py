"""TorchRL's names of the interaction type."""

from lite.envs import ExplorationType, exploration_type, set_exploration_type
from lite.nn import interaction_type


def test_one_setting_by_two_names():
    with set_exploration_type(ExplorationType.MODE):
        assert interaction_type() is exploration_type() is ExplorationType.MODE
    assert exploration_type() is None
