"""AffineRank: learn a better ranking from clicks you cannot trust.

Importing the package loads none of its modules. Each public name is loaded from its
module, which ``__init__.pyi`` lists, when it is first used.
"""

from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name; if a library is missing, say how to install it."""
    from affinerank.support.extras import missing_library_named

    with missing_library_named():
        return _load(name)
