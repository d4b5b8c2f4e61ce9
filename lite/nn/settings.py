"""InteractionType: how a sample is taken from a distribution, and the setting that chooses."""

from __future__ import annotations

from enum import StrEnum

from lite._arrays.settings import Scoped, Setting


class InteractionType(StrEnum):
    """What a probabilistic module takes from its distribution.

    MODE, MEDIAN and MEAN are the properties of these names (the mean may be estimated from samples), RANDOM
    draws a sample. DETERMINISTIC is what the distribution says stands for it when chance is off; where it
    says nothing, the mean or the mode.

    Example:
        >>> from lite.nn import InteractionType
        >>> InteractionType("Mode"), InteractionType.from_str("RANDOM")
        (<InteractionType.MODE: 'mode'>, <InteractionType.RANDOM: 'random'>)
    """

    MODE = "mode"
    MEDIAN = "median"
    MEAN = "mean"
    RANDOM = "random"
    DETERMINISTIC = "deterministic"

    @classmethod
    def from_str(cls, type_str: str) -> InteractionType:
        """The type of this name, in any case.

        Raises:
            ValueError: there is none.
        """
        return cls(type_str)

    @classmethod
    def _missing_(cls, value: object) -> InteractionType | None:
        if isinstance(value, str) and value != value.lower():
            return cls(value.lower())
        return None


_interaction: Setting[InteractionType | None] = Setting("lite.nn.interaction_type", None)


def interaction_type() -> InteractionType | None:
    """The interaction type that holds here; None leaves the choice to each module."""
    return _interaction.get()


class set_interaction_type(Scoped[InteractionType | None]):
    """Choose how all probabilistic modules take samples, in a `with` statement or a decorated function.

    Args:
        type: an `InteractionType`, its name in any case, or None for the default of each module.

    Raises:
        ValueError: there is no such type.

    Example:
        >>> from lite.nn import interaction_type, set_interaction_type
        >>> with set_interaction_type("random"):
        ...     interaction_type()
        <InteractionType.RANDOM: 'random'>
        >>> interaction_type() is None
        True
    """

    _setting = _interaction

    def __init__(self, type: InteractionType | str | None = InteractionType.DETERMINISTIC) -> None:
        super().__init__(None if type is None else InteractionType(type))
