"""What was found in a log: faults, which make rows unusable, and peculiarities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ibis.expr.types as ir

from affinerank.support.errors import DataError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a log that its owner should know.

    Attributes:
        what: In words.
        fault: Whether it makes the rows unusable.
        number: How many rows, sessions or pairs it concerns.
        unit: What ``number`` counts.
        examples: A few of them.
        column: The column whose values are at fault, by our name; ``None`` if it is
            not about the values of one column.
    """

    what: str
    fault: bool
    number: int
    unit: str
    examples: tuple[Mapping[str, Any], ...] = ()
    column: str | None = None


@dataclass(frozen=True, slots=True)
class LogReport:
    """What was found in a log.

    Attributes:
        rows: Rows read.
        sessions: Sessions among them.
        findings: Faults first.
        repeats: Whether some impressions are there more than once.
        plain: Whether every session has one query (ranker, segment, ...) and the ranks
            1, 2, ... up to 126 at most, each once: queries have as many sessions as
            impressions at rank 1.
        suspects: Ids of the only sessions that may have faults; ``None``: any may.
    """

    rows: int
    sessions: int
    findings: tuple[Finding, ...]
    repeats: bool = False
    plain: bool = False
    suspects: ir.Table | None = field(default=None, compare=False, repr=False)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that make rows unusable."""
        return tuple(finding for finding in self.findings if finding.fault)

    def noting(self, *findings: Finding) -> LogReport:
        """Return the report with more findings."""
        return replace(self, findings=(*self.findings, *findings))


class LogFaultsError(DataError):
    """A log with faults; ``report`` has them all."""

    def __init__(self, report: LogReport) -> None:
        self.report = report
        first, *more = report.faults
        kinds = "kind" if len(more) == 1 else "kinds"
        others = f", and {len(more)} more {kinds} of fault" if more else ""
        super().__init__(
            f"the log has faults: {first.what} ({first.number} {first.unit}){others}; "
            "correct them, or drop the sessions they are in (--bad-rows drop)"
        )


def shortened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Cut long texts of an example."""
    return {
        name: value[:200] if isinstance(value, str) else value
        for name, value in row.items()
    }
