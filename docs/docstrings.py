"""Docstrings as the site shows them: roles as code, formulas as plain text.

The docstrings are written for Sphinx's roles (``:func:`` and the like) and with LaTeX,
which would need a script from elsewhere to be drawn.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


def _part(text: str) -> str:
    """Part of a fraction, in brackets where it needs them."""
    return text if re.fullmatch(r"\w+", text) else f"({text})"


WORDS = (
    (r"\\epsilon", "eps"),
    (r"\\hat\\?\s*(\w+)", r"\1^"),
    (r"\\mathrm\{([^{}]*)\}", r"\1"),
    (r"\\log_2", "log2"),
    (r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\\frac\{([^{}]*)\}\s*\{([^{}]*)\}", lambda m: f"{_part(m[1])} / {_part(m[2])}"),
    (r"\\le\b", "<="),
    (r"\\(?:qquad|quad|[bB]ig[lr]?|left|right|,|;)", " "),
    (r"\\\{([^{}]*)\\\}", r"(\1)"),
    (r"\\\\", ""),
    (r"&", ""),
    (r"\^\{([^{}]*)\}", r"^(\1)"),
    (r"_\{(\w+)\}", r"_\1"),
    (r"_\{([^{}]*)\}", r"_[\1]"),
    (r"\\([a-zA-Z]+)", r"\1"),
)


def plain(formula: str) -> str:
    r"""Write LaTeX as one would type the formula.

    >>> plain(r"\theta_k (\epsilon^+_k - \epsilon^-_k) / x^{2}")
    'theta_k (eps+_k - eps-_k) / x^(2)'
    """
    for pattern, word in 2 * WORDS:  # braces within braces
        formula = re.sub(pattern, word, formula)
    return re.sub(r"eps\^([+-])", r"eps\1", formula)


def readable(text: str) -> str:
    """Turn roles and formulas of a docstring into Markdown."""
    text = re.sub(r":math:`([^`]*)`", lambda m: f"`{plain(m[1])}`", text)
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text)
    block = r"^( *)\.\. math::[ ]*([^\n]*(?:\n+\1 +[^\n]+)*)"
    return re.sub(block, _formula, text, flags=re.MULTILINE)


def _formula(found: re.Match[str]) -> str:
    indent, lines = found[1], found[2].strip("\n").splitlines()
    shown = [" ".join(plain(line).split()) for line in lines]
    return "\n".join(f"{indent}    {line}" for line in shown if line)


class Docstrings(griffe.Extension):
    """Makes every docstring readable once it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
