"""Plans: what an experiment measures, and how large it is, as TOML.

A shipped plan is a file of ``plans`` (what is measured) laid over one of ``profiles``
(how large); a plan of one's own is one file with the keys of :class:`Plan`.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeGuard

from affinerank.corrections import parse_clip, parse_estimator
from affinerank.data.catalog import PUBLIC_SETS, DataSource
from affinerank.errors import ConfigError
from affinerank.experiments.tables import from_table, hint, to_toml
from affinerank.files import existing_file
from affinerank.pipeline import FULL_INFORMATION
from affinerank.rankers.mlp import NetworkSettings

PLANS = ("figure1", "figure2", "figure3", "all", "noise", "clipping")
PROFILES = ("smoke", "laptop", "paper")
FIGURES = ("figure1", "figure2", "figure3")

PRODUCTION = "production"
BASELINES = (PRODUCTION, FULL_INFORMATION)
TRUE = "true"
DEFAULT = "default"
ACTIVATIONS = ("soft-min-max", "softmax", "sigmoid")
USERS = (TRUE, *ACTIVATIONS, DEFAULT)
NO_CLIP = "none"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Ranking data, and what of the training depends on them.

    Attributes:
        name: What cells and figures call it.
        source: A world, folder or file, as :class:`DataSource` reads it.
        learning_rate: Of its networks.
        validation_share: Held-out clicks for each training click, on the validation
            split's queries; early stopping reads them.
        relevant_above: Labels above this are relevant.
    """

    name: str
    source: str
    learning_rate: float = 0.02
    validation_share: float = 0.33
    relevant_above: float = 2.0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        if not self.learning_rate > 0 or not self.validation_share > 0:
            raise ConfigError(
                "learning_rate and validation_share must be above 0, got "
                f"{self.learning_rate:g} and {self.validation_share:g}"
            )


ORIGINALS = {
    "yahoo-like": DataSet("yahoo", "", learning_rate=0.004, validation_share=0.15),
    "mslr-like": DataSet("mslr30k", "", learning_rate=0.02, validation_share=0.33),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """How users click: steepness of position bias, and trust in the first rank."""

    eta: float
    eps_minus_1: float

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not self.eta >= 0 or not 0 <= self.eps_minus_1 <= 1:
            raise ConfigError(
                "eta must be 0 or more and eps_minus_1 from 0 to 1, got "
                f"{self.eta:g} and {self.eps_minus_1:g}"
            )


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells that are every combination of these coordinates.

    Attributes:
        estimators: Corrections by name; ``full-information`` and ``production`` depend
            on the data and the run alone, so they are measured once for those.
        data: Names of data sets; all of the plan's where empty.
        settings: How users click; the plan's where empty.
        clicks: Training clicks; the plan's where empty.
        users: Where alpha and beta come from: ``true``, an activation of regression EM
            (then with the estimator ``affine``), or ``default``, our own estimate.
        clips: Lower bounds of alpha: ``none``, a number, or a rule as in
            ``10/sqrt(n)``.
    """

    estimators: tuple[str, ...]
    data: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    clicks: tuple[float, ...] = ()
    users: tuple[str, ...] = (TRUE,)
    clips: tuple[str, ...] = (NO_CLIP,)

    def __post_init__(self) -> None:
        """Refuse names that nothing has."""
        for name in set(self.estimators) - set(BASELINES):
            parse_estimator(name)
        for name in self.users:
            if name not in USERS:
                raise ConfigError(f"there are no users {name!r}; {hint(name, USERS)}")
        estimated = set(self.users) - {TRUE}
        others = set(self.estimators) - {"affine", *BASELINES}
        if estimated and others:
            raise ConfigError(
                f"estimated users go with the estimator affine, not {min(others)!r}"
            )
        for clip in set(self.clips) - {NO_CLIP}:
            parse_clip(clip, 1)
        if any(not count > 0 for count in self.clicks):
            raise ConfigError(f"clicks must be above 0, got {self.clicks}")


@dataclass(frozen=True, slots=True)
class Network:
    """Shape and training of every network of a plan."""

    hidden: tuple[int, ...]
    epochs: int
    batch_queries: int = 32
    precision: str = "float32"

    def settings(self, learning_rate: float, seed: int, device: str) -> NetworkSettings:
        """What a stack of these networks is trained with, for all epochs."""
        return NetworkSettings(
            hidden=self.hidden,
            epochs=self.epochs,
            batch_queries=self.batch_queries,
            precision=self.precision,
            learning_rate=learning_rate,
            data_seed=seed,
            device=device,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment.

    Attributes:
        name: Of the experiment.
        data: Data sets.
        settings: How users click.
        clicks: Training clicks.
        grids: What is measured.
        network: Of the rankers.
        runs: Independent runs; run r has the seed ``seed + r``.
        seed: Of the first run, and of the order of queries in training.
        early_stopping: Also report each network as held-out clicks liked it best.
        group_networks: At most so many networks are trained as one group.
        figures: What its report draws.
        profile: Which shipped sizes it has, if any.
    """

    name: str
    data: tuple[DataSet, ...]
    settings: tuple[Setting, ...]
    clicks: tuple[float, ...]
    grids: tuple[Grid, ...]
    network: Network
    runs: int = 4
    seed: int = 0
    early_stopping: bool = False
    group_networks: int = 64
    figures: tuple[str, ...] = ("figure1",)
    profile: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be run; let grids say all they mean."""
        for name in ("data", "settings", "clicks", "grids"):
            if not getattr(self, name):
                raise ConfigError(f"{name} must name one or more")
        for name in ("runs", "group_networks"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be 1 or more, got {getattr(self, name)}"
                )
        if self.seed < 0:
            raise ConfigError(f"seed must be 0 or more, got {self.seed}")
        if any(not count > 0 for count in self.clicks):
            raise ConfigError(f"clicks must be above 0, got {self.clicks}")
        for name in self.figures:
            if name not in FIGURES:
                raise ConfigError(f"there is no figure {name!r}; {hint(name, FIGURES)}")
        names = [data.name for data in self.data]
        if len(set(names)) < len(names):
            raise ConfigError(f"data sets need names of their own, got {names}")
        self.network.settings(self.data[0].learning_rate, self.seed, "auto")
        resolved = tuple(self._resolved(grid, names) for grid in self.grids)
        object.__setattr__(self, "grids", resolved)

    def data_set(self, name: str) -> DataSet:
        """The data set of this name."""
        return next(data for data in self.data if data.name == name)

    def to_toml(self) -> str:
        """The plan as the text of a file that :func:`read_plan` reads."""
        return to_toml(self)

    def _resolved(self, grid: Grid, names: list[str]) -> Grid:
        for name in grid.data:
            if name not in names:
                raise ConfigError(f"there is no data set {name!r}; {hint(name, names)}")
        return replace(
            grid,
            data=grid.data or tuple(names),
            settings=grid.settings or self.settings,
            clicks=grid.clicks or self.clicks,
        )


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan's file."""
    source = existing_file(path)
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: not TOML: not text in UTF-8") from None
    return parse_plan(_parsed(text, str(source)), str(source))


def parse_plan(raw: dict[str, Any], where: str) -> Plan:
    """Build a plan from parsed TOML; a grid's clicks may be ``"largest"``."""
    clicks = raw.get("clicks")
    grids = raw.get("grids")
    if _numbers(clicks) and isinstance(grids, list):
        largest = {"clicks": [max(clicks)]}
        grids = [
            {**grid, **largest}
            if isinstance(grid, dict) and grid.get("clicks") == "largest"
            else grid
            for grid in grids
        ]
        raw = {**raw, "grids": grids}
    return from_table(Plan, raw, where)


def shipped_plan(name: str, profile: str = "laptop") -> Plan:
    """Return a plan of the package at one of its sizes."""
    if name not in PLANS:
        raise ConfigError(f"there is no plan {name!r}; {hint(name, PLANS)}")
    if profile not in PROFILES:
        raise ConfigError(f"there is no profile {profile!r}; {hint(profile, PROFILES)}")
    raw = _shipped("profiles", profile) | {"profile": profile}
    return parse_plan(raw | _shipped("plans", name), f"plan {name}, profile {profile}")


def with_data(
    plan: Plan, root: str | os.PathLike[str], relevant_above: float | None = None
) -> Plan:
    """Put real sets from a folder in the place of worlds.

    The folder is that of one set, or one that Yahoo's set, MSLR-WEB30K or both were
    unpacked in. A world without its original there is left out.
    """
    folder = Path(root)
    found = {}
    for world, data in ORIGINALS.items():
        place = _place_of(data.name, folder)
        if place is not None:
            name = _name_of(data.name, place)
            found[world] = replace(data, name=name, source=str(place))
    if not found:
        source = DataSource.parse(str(folder))  # says what was looked for
        found[""] = DataSet(folder.resolve().name, source.name)
    if relevant_above is not None:
        above = relevant_above
        found = {w: replace(d, relevant_above=above) for w, d in found.items()}
    grids = tuple(
        replace(grid, data=tuple(found[w].name for w in grid.data if w in found))
        for grid in plan.grids
    )
    return replace(plan, data=tuple(found.values()), grids=grids)


def _numbers(value: Any) -> TypeGuard[list[float]]:
    """Whether this is a list of numbers, of one or more."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, int | float) for part in value)
    )


def _place_of(name: str, root: Path) -> Path | None:
    """Where below ``root`` a public set's training file lies."""
    known = PUBLIC_SETS[name]
    file = known.files[0]["train"][0].format(fold=1)
    for folder in (root, *(root / below for below in known.folders)):
        if any((folder / (file + end)).is_file() for end in ("", ".gz", ".zst")):
            return folder
    return None


def _name_of(name: str, place: Path) -> str:
    """What a set is called: where several have such files, what its folder says."""
    alike = [
        other
        for other, known in PUBLIC_SETS.items()
        if known.files[0] == PUBLIC_SETS[name].files[0]
    ]
    if alike == [name]:
        return name
    own = place.resolve().name
    return next((n for n in alike if own in PUBLIC_SETS[n].folders), own)


def _shipped(kind: str, name: str) -> dict[str, Any]:
    file = resources.files("affinerank.experiments") / kind / f"{name}.toml"
    return _parsed(file.read_text(encoding="utf-8"), name)


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}") from None
