"""How rankers are trained: one type for Python, the command line, plans and --auto."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from affinerank.defaults import ESTIMATOR, NO_TUNING, RANKER, RELEVANT_ABOVE, TUNING
from affinerank.pipeline.steps.weighing import require_clips, with_clip
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import MemberPlan, RankerKind
from affinerank.support.errors import ConfigError
from affinerank.support.settings import EntrySpec, from_pairs, require_choice

ONE_HOT = "one-hot"
CATEGORIES = ("native", ONE_HOT)


class TrainOptions(TypedDict, total=False):
    """The fields of :class:`TrainSettings`, as keyword arguments."""

    ranker: str
    ranker_settings: Any
    learning_rates: Sequence[float]
    estimators: Sequence[str]
    clip: str | float | None
    seeds: Sequence[int]
    tuning: str
    scaling: str | None
    categories: str | None
    relevant_above: float
    strict_depth: bool
    importance: bool


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How rankers are trained.

    Attributes:
        ranker: A row of ``RANKERS``.
        ranker_settings: Shape and training of the ranker: an instance of the row's
            ``settings``; ``None`` takes its defaults.
        learning_rates: Learning rates to choose from; empty takes those of the row.
        estimators: Rows of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``. A
            ranker is trained for each.
        clip: Clipping rule of every estimator that divides.
        seeds: A ranker of each estimator is trained for each seed.
        tuning: ``held-out``: held-out queries choose learning rate and length, then the
            ranker is trained on all queries; ``none``: as the settings say.
        scaling: Of features: ``list``, within the query; ``data``; ``none``. ``None``
            takes that of the ranker's row. Search engines cannot serve ``list``.
        categories: ``native``, for rankers that read them, or ``one-hot``. ``None``
            takes ``native``.
        relevant_above: Labels above this are relevant, for estimators by labels.
        strict_depth: Reject ranks deeper than the click model instead of extending it.
        importance: Measure what features are worth on queries that were held out.
    """

    ranker: str = RANKER
    ranker_settings: Any = None
    learning_rates: Sequence[float] = ()
    estimators: Sequence[str] = (ESTIMATOR,)
    clip: str | float | None = None
    seeds: Sequence[int] = (0,)
    tuning: str = TUNING
    scaling: str | None = None
    categories: str | None = None
    relevant_above: float = RELEVANT_ABOVE
    strict_depth: bool = False
    importance: bool = False

    def __post_init__(self) -> None:
        """Reject what no ranker can be trained with."""
        for name in ("learning_rates", "estimators", "seeds"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.estimators or not self.seeds:
            raise ConfigError("give an estimator or more, and a seed or more")
        kind = self.kind
        if not isinstance(self.settings_of_ranker, kind.settings):
            raise ConfigError(
                f"the ranker {kind.name} takes {kind.settings.__name__}, got "
                f"{type(self.ranker_settings).__name__}; name the ranker that these "
                "settings are of"
            )
        if kind.members is not None and self.scaling is not None:
            raise ConfigError(
                f"each member of the {kind.name} scales features its own way; scaling "
                "is for other rankers (lightgbm, linear-model or mlp)"
            )
        require_choice("tuning", self.tuning, (TUNING, NO_TUNING))
        require_choice("categories", self.categories or CATEGORIES[0], CATEGORIES)
        require_clips(self.estimators, self.clip)

    @property
    def kind(self) -> RankerKind:
        """The ranker's row."""
        return RANKERS[self.ranker]

    @property
    def settings_of_ranker(self) -> Any:
        """Shape and training of the ranker, defaults of its row where not given."""
        return self.ranker_settings or self.kind.settings()

    @property
    def members(self) -> list[MemberPlan]:
        """How the members of the ranker are trained; most have one, themselves."""
        if self.kind.members is not None:
            return list(self.kind.members(self.settings_of_ranker))
        scaling = self.scaling or self.kind.scaling
        return [MemberPlan(self.ranker, self.ranker, self.settings_of_ranker, scaling)]

    @property
    def clipped_estimators(self) -> list[EntrySpec]:
        """The estimators with all their options, ``clip`` among them."""
        return [with_clip(name, self.clip) for name in self.estimators]

    @property
    def names(self) -> list[tuple[str, int]]:
        """Estimator and seed of each ranker that is trained."""
        return [
            (str(estimator), seed)
            for estimator in self.estimators
            for seed in self.seeds
        ]

    @property
    def is_tuned(self) -> bool:
        """Whether held-out queries choose learning rate and length."""
        return self.tuning == TUNING


def train_settings_from(settings: Any, options: TrainOptions) -> TrainSettings:
    """Return how to train, as a caller says it.

    Args:
        settings: A :class:`TrainSettings`, settings of the ranker alone, or ``None``.
        options: Fields that differ from ``settings``.
    """
    if settings is None:
        return TrainSettings(**options)
    if isinstance(settings, TrainSettings):
        return replace(settings, **options)
    return TrainSettings(**{"ranker_settings": settings, **options})


def ranker_settings(ranker: str, pairs: Sequence[str], seed: int = 0) -> Any:
    """Read the settings of a ranker from texts as in ``epochs=12``.

    What a kind draws in training is drawn by ``seed``.
    """
    kind = RANKERS[ranker].settings
    seeded = any(entry.name == "data_seed" for entry in fields(kind))
    return from_pairs(kind, [*([f"data_seed={seed}"] if seeded else []), *pairs])


def given_learning_rates(ranker: str, pairs: Sequence[str]) -> tuple[float, ...]:
    """Return the learning rate that these texts set; none if it is to be chosen."""
    if not any(text.replace(" ", "").startswith("learning_rate=") for text in pairs):
        return ()
    return (ranker_settings(ranker, pairs).learning_rate,)
