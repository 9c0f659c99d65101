"""What an audit found, as data: a section per question, and the next steps.

The page, the terminal and JSON all show these; none of them knows a section by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from affinerank.output.blocks import Summary
from affinerank.output.charts import Spec

Mark = Literal["good", "care", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, made from rows of plain data.

    Attributes:
        head: Its title.
        text: Format of a row's text, as in ``{rate:.4f}``; a row that lacks the number
            has none.
        small: Format of small print beside it.
        mark: Field that is shown as a coloured word in front of it.
        code: Field that is listed as lines of code below it.
    """

    head: str
    text: str = ""
    small: str = ""
    mark: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A figure, a table and notes, each where there is one.

    Attributes:
        columns: Of the table; those without any text are left out.
        rows: Of the table, as plain data.
        title: Above it.
        figure: A specification, by the name it has on the page.
        notes: Below it, in small print.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    title: str = ""
    figure: tuple[str, Spec] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question that an audit answers.

    Attributes:
        name: Key of its section.
        text: The question itself.
        wanted: Whether "yes" is good news; none for a question without a verdict.
    """

    name: str
    text: str
    wanted: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """The answer to a question.

    Attributes:
        question: What is answered.
        verdict: The answer in a word: yes, partly, no, unknown, or ``not found``, if a
            test did not find it, which is no proof that there is none.
        says: What that means, a paragraph each.
        numbers: What it rests on, as plain data.
        blocks: The same for readers.
        short: The answer in a sentence without terms, for the first screen.
    """

    question: Question
    verdict: str
    says: tuple[str, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    short: str = ""

    @property
    def answer(self) -> str:
        """The verdict for readers: what was looked for is found, not found, or open."""
        words = {"partly": "in part", "unknown": "cannot be known"}
        if self.question.wanted is False:
            words |= {"yes": "found", "partly": "found in part"}
        return words.get(self.verdict, self.verdict)

    @property
    def mark(self) -> Mark:
        """The colour of the verdict."""
        yes: Mark = "good" if self.question.wanted else "care"
        marks: dict[str, Mark] = {"yes": yes, "partly": "care", "no": "bad"}
        return marks.get(self.verdict, "unknown")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"verdict": self.verdict, "says": list(self.says), **self.numbers}


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What the owner of a log can do next.

    Attributes:
        name: Of the step, for programs.
        title: Of the step, for readers.
        says: Why and how, a paragraph each.
        numbers: What it rests on, as plain data.
        blocks: The same for readers.
        commands: That do it.
    """

    name: str
    title: str
    says: tuple[str, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    commands: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        about = {"step": self.name, "title": self.title, "says": list(self.says)}
        commands = {"commands": list(self.commands)} if self.commands else {}
        return {**about, **self.numbers, **commands}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit(Summary):
    """What a log is good for.

    Attributes:
        sections: The answers, in the order of the page.
        next: What to do, the most urgent first.
        source: The log or counts, as they were named.
        worth: What corrected clicks would be worth, in words.
    """

    sections: tuple[Section, ...]
    next: tuple[Step, ...]
    source: str = ""
    worth: str = ""

    @property
    def told(self) -> list[Section]:
        """The answers that have a verdict."""
        return [part for part in self.sections if part.question.wanted is not None]

    def _line(self) -> str:
        return " ".join(f"{part.question.text} {part.answer}." for part in self.told)

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"question": p.question.text, "answer": p.answer, "in_short": p.short}
            for p in self.told
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: the source, each section by its name, and ``next``."""
        return {
            "source": self.source,
            **{part.question.name: part.to_dict() for part in self.sections},
            "worth": self.worth,
            "next": [step.to_dict() for step in self.next],
        }

    def lines(self) -> Iterator[str]:
        """Yield verdicts, what they mean and next steps, as lines of a terminal."""
        parts = [
            (f"{part.question.name.replace('_', ' ')}: {part.answer}", part.says)
            for part in self.told
        ]
        parts += [("worth", (self.worth,))] if self.worth else []
        parts += [(f"next: {step.title}", step.says) for step in self.next]
        for title, says in parts:
            yield title
            yield from (f"  {text}" for text in says)
