"""Plans: what an experiment measures, and how large it is, as TOML.

A shipped plan is a file of ``plans`` (what is measured) merged with one of ``profiles``
(how large); a plan of your own is one file with the keys of :class:`Plan`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from affinerank.data.sources import PUBLIC_SETS, DataSource
from affinerank.defaults import NO_TUNING, POLICY
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.rankers import RANKERS
from affinerank.research.cells import PER_DATA_SET, PER_RUN, TRUE, DataSet
from affinerank.research.coordinates import FIGURES, canonical, estimator_of, values_of
from affinerank.support import limits
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.plugins import load_named_plugins
from affinerank.support.settings import (
    EntrySpec,
    from_table,
    hint,
    require_at_least,
    to_toml,
)
from affinerank.support.text_files import read_toml

PLANS = (
    *("figure1", "figure2", "figure3", "figure4", "figure5"),
    *("all", "noise", "clipping", "real", "trees", "field"),
)
PROFILES = ("smoke", "laptop", "paper")
SETS = "AFFINERANK_DATA"  # environment variable: where sets are, if nobody says

ORIGINALS = {
    "yahoo-like": DataSet("yahoo", "", learning_rate=0.004, validation_share=0.15),
    "mslr-like": DataSet("mslr30k", "", learning_rate=0.02, validation_share=0.33),
}


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells that are every combination of these coordinates.

    What is left empty is the plan's.

    Attributes:
        estimators: Rows of ``ESTIMATORS`` with options, or ``production``, the ranker
            that logged; what does not depend on clicks is measured once per run.
        data: Names of data sets.
        click_models: Rows of ``CLICK_MODELS`` with parameters.
        policies: Rows of ``POLICIES`` with parameters, ``top_k`` among them.
        clicks: Training clicks.
        most_clicks: Take the plan's most clicks alone, where ``clicks`` is empty.
        click_model_from: How estimators know the click model: ``true``, or the row of
            ``METHODS`` that estimates it.
        rankers: Rows of ``RANKERS``; parameters override the plan's settings.
    """

    estimators: tuple[str, ...]
    data: tuple[str, ...] = ()
    click_models: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    clicks: tuple[float, ...] = ()
    most_clicks: bool = False
    click_model_from: tuple[str, ...] = (TRUE,)
    rankers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject names that no table has, and combinations that cannot be measured."""
        _check(self, "estimators", "click_model_from")
        _make_canonical(
            self,
            "estimators",
            "click_models",
            "policies",
            "click_model_from",
            "rankers",
        )
        estimated = [name for name in self.click_model_from if name != TRUE]
        for name in self.estimators:
            row = estimator_of(name)
            if estimated and row is not None and row.needs == "examination":
                raise ConfigError(
                    f"{name} has to know examination, and users estimated by "
                    f"{estimated[0]} are known up to gauge; measure it in another grid"
                )


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment.

    Attributes:
        name: Of the experiment.
        data: Data sets.
        click_models: How users click.
        clicks: Training clicks.
        grids: What is measured.
        rankers: Rows of ``RANKERS`` with their settings.
        policies: How the lists shown depart from the production ranker's.
        runs: Independent runs; run r has the seed ``seed + r``.
        seed: Of the first run, and of the order of queries in training.
        production: Whether runs have production rankers of their own (``per-run``), or
            all that of the first (``per-data-set``).
        early_stopping: Also report each ranker as held-out clicks liked it best.
        group_networks: At most this many rankers are trained as one group.
        figures: What its report draws.
        profile: Which shipped sizes it has, if any.
        plugins: Modules that add rows which the plan names.
    """

    name: str
    data: tuple[DataSet, ...]
    click_models: tuple[str, ...]
    clicks: tuple[float, ...]
    grids: tuple[Grid, ...]
    rankers: tuple[EntrySpec, ...]
    policies: tuple[str, ...] = (POLICY,)
    runs: int = 4
    seed: int = 0
    production: str = PER_RUN
    early_stopping: bool = False
    group_networks: int = 64
    figures: tuple[str, ...] = ("figure1",)
    profile: str = ""
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject what cannot be run; write out what grids and rankers leave out."""
        load_named_plugins(self.plugins)
        _check(self, "data", "click_models", "clicks", "grids", "rankers", "policies")
        least = {"runs": 1, "group_networks": 1, "seed": 0}
        require_at_least(self, least=least, most={"runs": limits.PLAN_RUNS})
        _require_known("production", self.production, (PER_RUN, PER_DATA_SET))
        _make_canonical(self, "click_models", "policies")
        for name in self.figures:
            FIGURES[name]  # an error that lists the names
        for name in ("data", "rankers"):
            names = [part.name for part in getattr(self, name)]
            if len(set(names)) < len(names):
                raise ConfigError(
                    f"each of {name} needs a name of its own, got {names}"
                )
        rankers = tuple(_resolved(ranker) for ranker in self.rankers)
        object.__setattr__(self, "rankers", rankers)
        grids = tuple(self._resolved(grid) for grid in self.grids)
        object.__setattr__(self, "grids", grids)
        cells = self.runs * sum(map(_combinations, grids))
        if cells > limits.PLAN_CELLS:
            raise ConfigError(
                f"a plan may have {limits.PLAN_CELLS:,} cells at most, got {cells:,}; "
                "take fewer runs, or fewer of what is combined"
            )

    def data_set(self, name: str) -> DataSet:
        """Return the data set of this name."""
        return next(data for data in self.data if data.name == name)

    def ranker_settings(self, ranker: str, data: DataSet, device: str) -> Any:
        """Return what a cell's ranker is trained with, as its row's own type."""
        spec = EntrySpec.parse(ranker)
        said: dict[str, Any] = {"data_seed": self.seed, "device": device}
        said["learning_rate"] = data.learning_rate
        settings = {name: said[name] for name in _decided_elsewhere(spec.name)}
        own = {ranker.name: dict(ranker.parameters) for ranker in self.rankers}
        settings |= own.get(spec.name, {})
        return spec.settings(RANKERS[spec.name].settings, **settings)

    def train_settings(self, ranker: str, data: DataSet, device: str) -> TrainSettings:
        """Return how a cell's ranker is trained; estimators and seeds are the cell's.

        As in the paper, nothing is tuned.
        """
        return TrainSettings(
            ranker=EntrySpec.parse(ranker).name,
            ranker_settings=self.ranker_settings(ranker, data, device),
            tuning=NO_TUNING,
            relevant_above=data.relevant_above,
        )

    def to_toml(self) -> str:
        """Write the plan as the text of a file that :func:`read_plan` reads."""
        return to_toml(self)

    def _resolved(self, grid: Grid) -> Grid:
        plans = {
            "data": tuple(data.name for data in self.data),
            "click_models": self.click_models,
            "policies": self.policies,
            "clicks": (max(self.clicks),) if grid.most_clicks else self.clicks,
            "rankers": tuple(ranker.name for ranker in self.rankers),
        }
        for name in grid.data:
            _require_known("data set", name, plans["data"])
        own: dict[str, Any] = {n: getattr(grid, n) or plans[n] for n in plans}
        return replace(grid, most_clicks=False, **own)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan's file."""
    return parse_plan(read_toml(path), str(path))


def parse_plan(raw: Mapping[str, Any], where: str) -> Plan:
    """Build a plan from parsed TOML."""
    # Plug-ins come first: the plan's grids, which are built before it, name their rows.
    plugins = raw.get("plugins")
    if isinstance(plugins, list) and all(isinstance(name, str) for name in plugins):
        load_named_plugins(plugins)
    return from_table(Plan, raw, where)


def shipped_plan(name: str, profile: str = "laptop") -> Plan:
    """Return a plan of the package at one of its sizes.

    What a plan's file says for all sizes goes before the profile, and what its table of
    that size says before both; but for grids, which are added.
    """
    _require_known("plan", name, PLANS)
    _require_known("profile", profile, PROFILES)
    own = _shipped("plans", name)
    sizes = {size: own.pop(size, {}) for size in PROFILES}[profile]
    grids = {"grids": [*own["grids"], *sizes.pop("grids", [])], "profile": profile}
    raw = _shipped("profiles", profile) | own | sizes | grids
    return parse_plan(raw, f"plan {name}, profile {profile}")


def sets_of(plan: Plan, root: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder that a shipped plan's files are in; none if it has worlds."""
    if all(data.synthetic for data in plan.data):
        return None
    folder = root or os.environ.get(SETS)
    if not folder:
        raise ConfigError(
            f"the plan {plan.name} reads sets from a folder: give --data, or name it "
            f"in {SETS}"
        )
    return Path(folder)


def with_sets(plan: Plan, root: Path, relevant_above: float | None = None) -> Plan:
    """Leave out the sets that are not in a folder, with a warning."""
    there = [d for d in plan.data if d.synthetic or Path(d.below(root).source).exists()]
    names = [data.name for data in plan.data if data not in there]
    if not there:
        raise DataError(f"{root}: there is none of {', '.join(names)} in it")
    if names:
        text = f"{root}: {', '.join(names)} is not in it, and is left out"
        warnings.warn(text, AffineRankWarning, stacklevel=2)
    return _only(plan, {data.name: data for data in there}, relevant_above)


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
        if located := _located(data.name, folder):
            place, name = located
            found[world] = replace(data, name=name, source=str(place))
    if not found:
        source = DataSource.parse(str(folder))  # says what was looked for
        found[""] = DataSet(folder.resolve().name, source.name)
    return _only(plan, found, relevant_above)


def _only(plan: Plan, found: dict[str, DataSet], above: float | None) -> Plan:
    """Put data sets in the place of others by name; leave out those not found."""
    if above is not None:
        found = {w: replace(d, relevant_above=above) for w, d in found.items()}
    grids = tuple(
        replace(grid, data=tuple(found[w].name for w in grid.data if w in found))
        for grid in plan.grids
    )
    return replace(plan, data=tuple(found.values()), grids=grids)


def _combinations(grid: Grid) -> int:
    return math.prod(len(v) for v in values_of(grid).values() if isinstance(v, tuple))


def _resolved(ranker: EntrySpec) -> EntrySpec:
    """Write out every setting of a ranker, but those that are decided elsewhere."""
    elsewhere = _decided_elsewhere(ranker.name) - dict(ranker.parameters).keys()
    values = values_of(ranker.settings(RANKERS[ranker.name].settings))
    kept = [(n, v) for n, v in values.items() if v is not None and n not in elsewhere]
    return EntrySpec(ranker.name, tuple(kept))


def _decided_elsewhere(ranker: str) -> set[str]:
    """Name the settings of a ranker that data set, plan and machine decide."""
    row = RANKERS[ranker]
    names = {"data_seed", "device", *(["learning_rate"] if row.tuned_rate else [])}
    return names & {field.name for field in dataclasses.fields(row.settings)}


def _make_canonical(table: Grid | Plan, *names: str) -> None:
    singular = {"policies": "policy", "click_model_from": "click_model_from"}
    for name in names:
        coordinate = singular.get(name, name.removesuffix("s"))
        texts = [canonical(coordinate, text) for text in getattr(table, name)]
        object.__setattr__(table, name, tuple(dict.fromkeys(texts)))


def _check(table: Grid | Plan, *filled: str) -> None:
    """Reject lists that must not be empty, and clicks that are no numbers of them."""
    for name in filled:
        if not getattr(table, name):
            raise ConfigError(f"{name} must name one or more")
    if not all(0 < count < math.inf for count in table.clicks):
        raise ConfigError(f"clicks must be above 0 and finite, got {table.clicks}")


def _require_known(kind: str, name: str, known: Any) -> None:
    if name not in known:
        raise ConfigError(f"there is no {kind} {name!r}; {hint(name, known)}")


def _located(name: str, root: Path) -> tuple[Path, str] | None:
    """Find a public set below ``root``: where its training file lies, and its name.

    Where several sets have such files, the folder names it.
    """
    known = PUBLIC_SETS[name]
    file = known.files[0]["train"][0].format(fold=1)
    for place in (root, *(root / below for below in known.folders)):
        if any((place / (file + end)).is_file() for end in ("", ".gz", ".zst")):
            own, sets = place.resolve().name, PUBLIC_SETS.items()
            alike = [n for n, other in sets if other.files[0] == known.files[0]]
            called = [n for n in alike if own in PUBLIC_SETS[n].folders]
            return place, name if alike == [name] else (called or [own])[0]
    return None


def _shipped(kind: str, name: str) -> dict[str, Any]:
    file = resources.files("affinerank.research") / kind / f"{name}.toml"
    with resources.as_file(file) as path:
        return read_toml(path)
