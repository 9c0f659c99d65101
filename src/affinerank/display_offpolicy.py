"""Values estimated from clicks, as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinerank import display


def evaluated_from_clicks(about: Mapping[str, Any]) -> None:
    """Print how rankers were judged by held-out clicks."""
    display.line(
        f"{about['metric']} by {about['estimator']}, from {about['clicks']:,} clicks, "
        f"{about['sessions']:,} sessions and {about['queries']:,} queries; in units of "
        f"{about['units']}"
    )
    for row in about["rankers"]:
        display.line(row["ranker"])
        display.notes(_lines(row))
    refits = about["refits"]
    if refits is not None:
        display.line(
            "users were estimated, so only differences are told; for each interval "
            f"they were refitted to {refits['replicates']} resamples of {refits['to']}"
        )


def _lines(row: Mapping[str, Any]) -> dict[str, str]:
    lines: dict[str, str] = {}
    if "value" in row:
        lines["value"] = _estimate(row["value"])
    if "logged" in row:
        lines["logged ranking"] = _estimate(row["logged"])
    if "against_logged" in row:
        difference = row["against_logged"]
        lines["difference from logged"] = _estimate(difference, sign="+")
        lines["verdict on future queries"] = _verdict(difference)
    lines["rank weight on documents never shown"] = f"{row['never_shown_share']:.1%}"
    lines["effective impressions"] = (
        f"{row['effective_impressions']:,.0f} of {row['impressions']:,}; the top 1 % "
        f"carry {row['top_percent_share']:.1%} of the weight"
    )
    return lines


def _estimate(about: Mapping[str, Any], sign: str = "") -> str:
    """A value, and below it both intervals, or bounds."""
    if about["bounds"]:
        kind = "bounds"
        lines = [
            f"{about['least']:{sign}.4f} to {about['most']:{sign}.4f}, by what "
            "documents never shown are worth"
        ]
    else:
        kind = "95 %"
        lines = [f"{about['estimate']:{sign}.4f}"]
    for over, target in (("sessions", "these queries"), ("queries", "future ones")):
        interval = about[f"over_{over}"]
        lines.append(
            f"{interval['low']:{sign}.4f} to {interval['high']:{sign}.4f}: {kind} over "
            f"{over} ({target})"
        )
    return "\n".join(lines)


def _verdict(difference: Mapping[str, Any]) -> str:
    verdict, needed = str(difference["verdict"]), difference["clicks_needed"]
    if verdict != "undecided":
        return verdict
    if needed is None:
        return "undecided, and more clicks of this kind would not decide it"
    return (
        f"undecided; about {needed:,.0f} clicks would decide it, on as many more "
        f"queries (there are {difference['clicks']:,} clicks)"
    )
