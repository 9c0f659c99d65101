"""Coordinates of a plan: rows of tables with parameters, and the figures made of them.

A coordinate is a text as in ``trust(eta=2, eps_minus_1=0.65)`` or ``affine``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from affinerank.bias import METHODS, EstimationSettings
from affinerank.clicks.models import CLICK_MODELS
from affinerank.clicks.policies import POLICIES
from affinerank.clicks.traffic import Traffic
from affinerank.defaults import CORRECTION, NETWORK, POLICY
from affinerank.estimators import ESTIMATORS, Estimator
from affinerank.rankers import RANKERS
from affinerank.research.cells import PRODUCTION, TRUE
from affinerank.support.registry import Registry
from affinerank.support.settings import EntrySpec

# The table of each coordinate, and the type of a row's parameters.
TABLES: Mapping[str, tuple[Registry[Any], Callable[[Any], type]]] = {
    "click_model": (CLICK_MODELS, lambda row: row.settings),
    "policy": (POLICIES, lambda row: row.settings),
    "estimator": (ESTIMATORS, lambda row: row.options),
    "click_model_from": (METHODS, lambda _: EstimationSettings),
    "ranker": (RANKERS, lambda row: row.settings),
}
TITLES = {PRODUCTION: "Production", TRUE: "True values"}
PARAMETERS = {"fresh true": "new networks"}  # where name and value would not do
UNNAMED = {"policy": POLICY, "ranker": NETWORK}  # titles do not mention these


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of ``FIGURES``: what a figure shows.

    Attributes:
        name: Its key.
        title: Above it.
        x: What runs along the panels: ``clicks`` or ``rank``.
        series: Coordinate that makes series, or ``method``: estimator and users.
        where: Coordinates that are held at one value.
        besides: Panels are drawn only for data that have series besides this one.
        held_out: Whether rankers are those of the epoch that held-out clicks chose, of
            methods that have one; else those of the last.
    """

    name: str
    title: str
    x: str
    series: str
    where: Mapping[str, str] = field(default_factory=dict)
    besides: str | None = None
    held_out: bool = False


FIGURES: Registry[Figure] = Registry(
    "figure",
    Figure("figure1", "Figure 1", "clicks", "estimator", {"click_model_from": TRUE}),
    Figure(
        "figure2",
        "Figure 2",
        "clicks",
        "click_model_from",
        {"estimator": CORRECTION},
        TRUE,
    ),
    Figure("figure3", "Figure 3", "rank", "click_model_from"),
    Figure("figure4", "Figure 4: quality per click", "clicks", "method", held_out=True),
    Figure("figure5", "Figure 5: cutoffs", "clicks", "method", held_out=True),
)


def settings_of(coordinate: str, text: str) -> Any:
    """Return the parameters of a coordinate as the row's own type, all of them."""
    spec = EntrySpec.parse(text)
    table, parameters = TABLES[coordinate]
    own = parameters(table[spec.name])
    if coordinate == "policy":
        spec = EntrySpec.parse(Traffic.of(spec).policies[0])  # without the cutoff
    return spec.settings(own)


def estimator_of(text: str) -> Estimator | None:
    """Return the row of an estimator; production has none."""
    return None if text == PRODUCTION else ESTIMATORS[EntrySpec.parse(text).name]


def canonical(coordinate: str, text: str) -> str:
    """Write a coordinate in the one way that cells have it; reject unknown names.

    >>> canonical("click_model", "trust( eps_minus_1=0.650, eta=2.0)")
    'trust(eta=2, eps_minus_1=0.65)'
    """
    if text in TITLES:
        return text
    given = dict(EntrySpec.parse(text).parameters)
    named = values_of(settings_of(coordinate, text))
    kept = {name: named[name] for name in named if name in given}
    kept |= {name: value for name, value in given.items() if name not in named}
    pairs = tuple(pair for pair in kept.items() if pair[1] is not None)
    return str(EntrySpec(EntrySpec.parse(text).name, pairs))


def title_of(coordinate: str, text: str) -> str:
    """Name a coordinate for a reader.

    >>> title_of("click_model", "trust(eta=2, eps_minus_1=0.65)")
    'η = 2, ε⁻₁ = 0.65'
    >>> title_of("estimator", "affine(clip=0.1)")
    'Affine, clip 0.1'
    """
    if text in TITLES:
        return TITLES[text]
    spec, settings = EntrySpec.parse(text), settings_of(coordinate, text)
    if str(settings) != repr(settings):  # it has a text of its own
        return str(settings)
    title = TABLES[coordinate][0][spec.name].title
    parameters = (f"{name} {value}" for name, value in spec.parameters)
    return ", ".join([title, *(PARAMETERS.get(text, text) for text in parameters)])


def values_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, as they are."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
