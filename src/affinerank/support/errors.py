"""What goes wrong in ways a user can put right.

Every expected fault is an :class:`AffineRankError` whose text is one sentence: where,
what was wrong, what would be right. Anything else that is raised is a bug.
"""

import warnings


class AffineRankError(Exception):
    """The input or a setting was wrong; the message says how to put it right."""


class DataError(AffineRankError):
    """A file, a table or an array does not hold what it should."""


class ConfigError(AffineRankError):
    """A setting, a name or an option is not one the package knows."""


class MissingLibraryError(AffineRankError):
    """A library that not everyone installs is needed, and is not there."""


class AffineRankWarning(UserWarning):
    """The input was taken, and something about it is worth knowing."""


def warn(text: str) -> None:
    """Warn of something that a user may want to change."""
    warnings.warn(text, AffineRankWarning, stacklevel=3)
