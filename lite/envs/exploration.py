"""Exploration, by TorchRL's names: the interaction type of `lite.nn`, which probabilistic modules obey."""

from lite.nn.settings import InteractionType, interaction_type, set_interaction_type

ExplorationType = InteractionType
exploration_type = interaction_type
set_exploration_type = set_interaction_type
