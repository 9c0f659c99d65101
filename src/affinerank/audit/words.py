"""Numbers in words."""

from __future__ import annotations


def p_text(p: float) -> str:
    """Return a p-value for a reader."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def times_text(factor: float, days: float | None) -> str:
    """Return a length of time in units of the log, and in days if they are known.

    >>> times_text(1.04, 14.0), times_text(0.052, None)
    ('1.0 times this log (15 days)', '0.052 times this log')
    """
    text = f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}"
    if factor < 1:
        text = f"{factor:.2g}"
    length = f" ({days_text(factor * days)})" if days is not None else ""
    return f"{text} times this log{length}"


def days_text(days: float) -> str:
    """Return a number of days.

    >>> days_text(1.0), days_text(1.26), days_text(14.4)
    ('1 day', '1.3 days', '14 days')
    """
    text = f"{days:,.0f}" if days >= 10 else f"{days:.2g}"
    return f"{text} day" if text == "1" else f"{text} days"
