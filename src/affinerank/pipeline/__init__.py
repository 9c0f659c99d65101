"""The stages, composed: the only place where one stage's result enters the next.

Each name is loaded from its module, which ``__init__.pyi`` lists, at its first use,
so that a stage that needs neither torch nor LightGBM loads neither.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
