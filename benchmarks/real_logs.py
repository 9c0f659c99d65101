"""Four real logs: what each is found to be, and how well estimated users predict it.

    AFFINERANK_DATA=FOLDER python benchmarks/real_logs.py [yandex expedia ...]

Of every log: ``count``, ``estimate`` and ``audit``, as a user would run them. Yandex:
users and relevance from the train part predict the clicks of the test part, beside a
user browsing model. Expedia: users from sorted lists predict the click rates by rank
of randomised lists, beside LightGBM's ``position``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl
from polars import col
from scipy import stats

import affinerank as ar
from affinerank.bias.method import EstimationSettings
from affinerank.pipeline.steps.click_model import estimate_from_rows, filled_features
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.progress import no_progress

# Yandex: pages have ten ranks.
DEPTH = 10
ROUNDS = 50
RELEVANCE = ("posterior(prior=rank)", "mixture-based")
IDS = ("query_id", "doc_id")
# Expedia: ranks whose click rates are predicted; 5 is another element of the page.
PREDICTED = np.array([2, 3, 4, 6, 7, 8, 9, 10])
PLAIN = (
    *("prop_starrating", "prop_review_score", "prop_brand_bool", "promotion_flag"),
    *("prop_location_score1", "prop_log_historical_price"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", default=list(LOGS), metavar="LOG")
    parser.add_argument("--replicates", type=int, default=16, help="Of Expedia's lists")
    asked = parser.parse_args()
    root = Path(os.environ.get("AFFINERANK_DATA", ""))
    for name in asked.logs:
        if "AFFINERANK_DATA" not in os.environ or not (root / name).is_dir():
            print(f"{name}: AFFINERANK_DATA names no folder with {name}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            LOGS[name](root / name, Path(folder), asked.replicates)


# As a user would


def as_a_user(folder: Path, *, data: str = "", count: str = "") -> None:
    """Count, estimate and audit ``log.parquet``; print what each says."""
    given = ["--data", data] if data else []
    counted = command(folder, "count", "log.parquet", *count.split())
    if not said("count", counted):
        return
    names = ("sessions", "queries", "documents", "clicks")
    print("   ", ", ".join(f"{counted[name]:,} {name}" for name in names))
    for finding in counted["findings"]:
        print(f"    {finding['what']}: {finding['number']:,} {finding['unit']}")
    estimated(folder, *given)
    audit = command(folder, "audit", "log.parquet", *given)
    if said("audit", audit):
        for name, section in audit.items():
            if isinstance(section, dict) and "verdict" in section:
                print(f"    {name}: {section['verdict']}.", *section["says"][:1])


def estimated(folder: Path, *more: str) -> None:
    """Estimate from ``counts.parquet``; print what it says."""
    found = command(folder, "estimate", "counts.parquet", *more)
    if said(" ".join(["estimate", *more]), found):
        print(f"    by {found['method']}: {found['why']}")
        alpha = [f"{row['display']['alpha']:.2f}" for row in found["by_rank"]]
        print("    alpha", *alpha)
        print("   ", "\n    ".join(found["notes"]))


def command(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command for its JSON; of one that refuses, what it said."""
    program = Path(sys.executable).parent / "affinerank"
    done = subprocess.run(  # noqa: S603
        [program, *words, "--json"],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"refused": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def said(name: str, found: dict[str, Any]) -> bool:
    """Print the command, and why it refused if it did; return whether it did not."""
    refused = found.get("refused")
    print(f"  {name}", *([f"\n    refused: {refused}"] if refused else []))
    return refused is None


# Yandex


def yandex(source: Path, folder: Path, _replicates: int) -> None:
    log = read_pages(source)
    log.drop("part", "context").write_parquet(folder / "log.parquet")
    print("yandex")
    as_a_user(folder)
    train, test = (log.filter(part=name) for name in ("train", "test"))
    pages = train["session_id"].unique(maintain_order=True)
    inner = train["session_id"].is_in(pages.gather_every(5).implode())
    found = [
        evaluated(train.filter(~inner), train.filter(inner)),
        evaluated(train, test),
    ]
    print("\n  log-likelihood per impression, perplexity; a fifth of train, and test")
    best = found[1]["user browsing model"]
    for name, chosen in found[0].items():
        final = found[1][name]
        print(f"  {name:45} {chosen.line}  {final.line}  {final.less(best)}")


def read_pages(source: Path) -> pl.DataFrame:
    """Read impressions, page after page, each with the last click above it."""
    log = pl.read_parquet(source / "serps.parquet").select(
        "part",
        session_id=col("part") + "-" + col("serp_id").cast(pl.String),
        query_id="query_id",
        doc_id="url_id",
        rank="rank",
        clicked="click",
    )
    log = log.sort("session_id", "rank")
    return log.with_columns(context=last_click(log))


def last_click(log: pl.DataFrame) -> pl.Series:
    """Rank of the last click above on the page, 0 for none; pages of ten, sorted."""
    clicked = (log["clicked"] * log["rank"]).to_numpy().reshape(-1, DEPTH)
    last = np.maximum.accumulate(clicked, axis=1)
    above = np.concatenate([np.zeros((len(last), 1), int), last[:, :-1]], axis=1)
    return pl.Series(above.ravel())


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """How likely a model finds the clicks of pages, ``[n_pages, DEPTH]``."""

    log_likelihood: Floats

    @classmethod
    def of(cls, rate: Floats, clicked: Floats) -> Evaluated:
        """Judge click rates, page after page."""
        rate = np.clip(rate, 1e-6, 1 - 1e-6)
        value = np.log(np.where(clicked > 0, rate, 1 - rate))
        return cls(value.reshape(-1, DEPTH))

    @property
    def line(self) -> str:
        """Log-likelihood per impression, and perplexity: its mean over ranks."""
        perplexity = np.exp(-self.log_likelihood.mean(axis=0)).mean()
        return f"{self.log_likelihood.mean():.4f} {perplexity:.4f}"

    def less(self, other: Evaluated) -> str:
        """Mean difference per impression, and its standard error over pages."""
        each = (self.log_likelihood - other.log_likelihood).mean(axis=1)
        return f"{each.mean():+.5f} +- {each.std() / np.sqrt(len(each)):.5f}"


def evaluated(train: pl.DataFrame, test: pl.DataFrame) -> dict[str, Evaluated]:
    """Fit every model to some pages, and judge it by others."""
    seen, shown = rows_of_pages(train, test)
    found = {}
    for name in ("rank", "doc"):
        rate = click_rate(getattr(seen, name), seen)
        found[f"click rate by {name}"] = rate[getattr(shown, name)]
    for name, contexts in {"position-based": False, "user browsing": True}.items():
        found[f"{name} model"] = browsing_rates(seen, shown, contexts=contexts)
    for name, contexts in {"rank": False, "rank and last click": True}.items():
        rows = seen if contexts else seen.merged()
        how = EstimationSettings(method="mixture")
        click_model = estimate_from_rows(rows, settings=how).click_model
        alpha, beta = click_model.at(shown)
        for estimator in RELEVANCE:
            relevance = ar.weigh(rows, estimator, click_model).weight[shown.doc]
            title = f"affine by {name}, {estimator.split('(')[0]}"
            found[title] = alpha * relevance + beta
    return {name: Evaluated.of(rate, shown.clicks) for name, rate in found.items()}


def rows_of_pages(train: pl.DataFrame, test: pl.DataFrame) -> list[ar.ClickRows]:
    """Rows of the impressions of both, with the same numbers of documents."""
    both = pl.concat([train, test]).with_columns(
        doc=pl.struct("query_id", "doc_id").rank("dense").cast(pl.Int64) - 1,
        query=col("query_id").rank("dense").cast(pl.Int64) - 1,
    )
    query_of_doc = both.unique("doc").sort("doc")["query"].to_numpy()
    found = []
    for part in (both[: len(train)], both[len(train) :]):
        query = part["query"].to_numpy()
        found.append(
            ar.ClickRows(
                doc=part["doc"].to_numpy(),
                rank=part["rank"].to_numpy(),
                context=part["context"].to_numpy(),
                impressions=np.ones(len(part)),
                clicks=part["clicked"].to_numpy().astype(float),
                query_of_doc=query_of_doc,
                sessions=np.bincount(query, minlength=query_of_doc.max() + 1) / DEPTH,
                has_context=True,
            )
        )
    place = found[0].rank * (DEPTH + 1) + found[0].context
    added = found[0].added_up(place)
    found[0] = replace(added, rank=added.rank // (DEPTH + 1))
    return found


def click_rate(place: Ints, rows: ar.ClickRows) -> Floats:
    """Click rate at each place; one half where there are no impressions."""
    size = max(int(place.max()) + 1, rows.n_docs)
    clicks = np.bincount(place, rows.clicks, size)
    return (clicks + 1) / (np.bincount(place, rows.impressions, size) + 2)


def browsing_rates(
    seen: ar.ClickRows, shown: ar.ClickRows, *, contexts: bool
) -> Floats:
    """Click rates by a user browsing model: relevance times examination, by EM.

    Examination goes by rank and last click; both are smoothed by one click and one
    skip. Without contexts it is the position-based model.
    """
    doc, n, clicks = seen.doc, seen.impressions, seen.clicks
    place, there = (
        each.rank * (DEPTH + 1) + (each.context if contexts else 0)
        for each in (seen, shown)
    )
    relevance, examined = np.full(seen.n_docs, 0.5), np.full(place.max() + 1, 0.5)
    for _ in range(ROUNDS):
        g, e = relevance[doc], examined[place]
        # A skip: relevant but not examined, or examined but not relevant.
        skips = (n - clicks) / (1 - g * e)
        relevant, looked = clicks + skips * g * (1 - e), clicks + skips * e * (1 - g)
        total = np.bincount(doc, n, len(relevance)) + 2
        relevance = (np.bincount(doc, relevant, len(relevance)) + 1) / total
        total = np.bincount(place, n, len(examined)) + 2
        examined = (np.bincount(place, looked, len(examined)) + 1) / total
    return np.asarray(relevance[shown.doc] * examined[there], dtype=np.float64)


# Expedia


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists of hotels, one after the other, each shown once.

    Attributes:
        number: ``[n]`` list of each hotel, from 0 on.
        rank: ``[n]`` from 1.
        features: ``[n, n_features]``.
        clicks: ``[n]`` 0 or 1.
    """

    number: Ints
    rank: Ints
    features: Matrix
    clicks: Floats

    def take(self, lists: Ints) -> Lists:
        """Take lists, some of them several times."""
        first = np.flatnonzero(np.diff(self.number, prepend=-1))
        size = np.bincount(self.number)
        start = np.repeat(first[lists] - np.cumsum(size[lists]), size[lists])
        rows = start + np.repeat(size[lists], size[lists]) + np.arange(len(start))
        number = np.repeat(np.arange(len(lists)), size[lists])
        return Lists(number, self.rank[rows], self.features[rows], self.clicks[rows])

    def drawn(self, rng: np.random.Generator) -> Lists:
        """Draw as many lists, with replacement."""
        n = int(self.number[-1]) + 1
        return self.take(rng.integers(n, size=n))

    def seen(self) -> Ints:
        """``[DEPTH]`` impressions at the first ranks."""
        return np.bincount(self.rank)[1 : DEPTH + 1]

    def rates(self) -> Floats:
        """``[DEPTH]`` click rates at the first ranks."""
        return np.bincount(self.rank, self.clicks)[1 : DEPTH + 1] / self.seen()

    def rows(self) -> ar.ClickRows:
        """The same as rows of counts: a list is a query."""
        n = len(self.rank)
        return ar.ClickRows(
            np.arange(n),
            self.rank,
            np.zeros(n, dtype=np.int64),
            np.ones(n),
            self.clicks,
            self.number,
            np.ones(int(self.number[-1]) + 1),
        )


def expedia(source: Path, folder: Path, replicates: int) -> None:
    table = read_hotels(source)
    log = table.filter(random_bool=0).select("session_id", *IDS, "rank", "clicked")
    log.write_parquet(folder / "log.parquet")
    sorted_, random = hotel_lists(table, folder / "features.parquet")
    print("\nexpedia: sorted lists")
    as_a_user(folder, data="features.parquet")
    predict(sorted_, random, replicates)


def read_hotels(source: Path) -> pl.DataFrame:
    """Read the complete lists, with features of every hotel in its list."""
    price, before = col("price_usd").clip(1, 5000).log(), col(PLAIN[-1])
    known = before > 0
    table = pl.read_parquet(source / "rows.parquet").filter(list_complete=1)
    return table.sort("srch_id", "position").select(
        *("random_bool", *PLAIN),
        session_id="srch_id",
        query_id="srch_id",
        doc_id=pl.int_range(pl.len()),
        rank="position",
        clicked=col("click_bool").fill_null(0).cast(pl.Int64),
        log_price=price,
        price_rank=price.rank().over("srch_id") / pl.len().over("srch_id"),
        dearer_than_before=pl.when(known).then(price - before).otherwise(0),
        no_history=(~known).cast(pl.Int64),
        no_review=(col("prop_review_score").fill_null(0) == 0).cast(pl.Int64),
        no_stars=(col("prop_starrating") == 0).cast(pl.Int64),
        location_2=col("prop_location_score2").fill_null(0).sqrt(),
        no_location_2=col("prop_location_score2").is_null().cast(pl.Int64),
        dearer=rivals("rate"),
        sold_out=rivals("inv"),
    )


def hotel_lists(table: pl.DataFrame, features: Path) -> tuple[Lists, Lists]:
    """Write the features; return the sorted and the randomised lists."""
    table.drop("random_bool", "session_id", "rank", "clicked").write_parquet(features)
    scaled = filled_features(ar.read_parquet(features))
    random = table["random_bool"].to_numpy() == 1
    return part(table, scaled, ~random), part(table, scaled, random)


def rivals(what: str) -> pl.Expr:
    """Over the rival sites: where Expedia was cheaper, or alone had rooms."""
    return pl.sum_horizontal(col(f"comp{i}_{what}").fill_null(0) for i in range(1, 9))


def part(table: pl.DataFrame, features: Matrix, taken: Any) -> Lists:
    some = table.filter(taken)
    number = some["query_id"].rank("dense").to_numpy().astype(np.int64) - 1
    clicks = some["clicked"].to_numpy().astype(float)
    return Lists(number, some["rank"].to_numpy(), features[taken], clicks)


def predict(sorted_: Lists, random: Lists, replicates: int) -> None:
    """Predict the randomised click rates from that at rank 1; print how well."""
    rng = np.random.default_rng(0)
    pairs = [(sorted_.drawn(rng), random.drawn(rng)) for _ in range(replicates)]
    observed, at = random.rates(), PREDICTED - 1
    noise = np.sqrt(observed * (1 - observed) / random.seen())[at]
    print(f"  {'ranks':29}{row(PREDICTED, 0)}")
    print(f"  {'randomised lists':29}{row(observed[at])}")
    print(f"  {'standard error':29}{row(noise)}  relative   z^2  z^2, noise alone")
    for name, ratios in RATIOS.items():
        expected = observed[0] * ratios(sorted_)
        away = (expected - observed)[at]
        others = [there.rates() - there.rates()[0] * ratios(s) for s, there in pairs]
        error = np.std(others, axis=0, ddof=1)[at]
        z, alone = (np.mean((away / each) ** 2) for each in (error, noise))
        relative = np.mean(np.abs(away) / observed[at])
        print(f"  {name:29}{row(expected[at])}  {relative:7.1%} {z:6.2f} {alone:8.2f}")


def row(values: Any, digits: int = 3) -> str:
    return " ".join(f"{value:5.{digits}f}" for value in values)


def listwise(rows: ar.ClickRows, features: Matrix) -> ar.TrustModel:
    """Position bias by which documents of a list got its clicks."""
    fit = ar.METHODS["listwise"].fit
    click_model: ar.TrustModel = fit(
        rows, features, ar.EstimationSettings(), no_progress
    ).click_model
    return click_model


def by_click_model(lists: Lists, click_model: ar.TrustModel) -> Floats:
    """Click rates of the mean document, over that at rank 1."""
    rows = lists.rows()
    alpha, beta = click_model.at(rows)
    relevance = (rows.clicks - beta).sum() / alpha.sum()
    expected = (click_model.alpha * relevance + click_model.beta)[:DEPTH]
    return np.asarray(expected / expected[0])


def by_method(lists: Lists, name: str) -> Floats:
    """The same with users estimated by a method of the package."""
    how = EstimationSettings(method=name)
    found = estimate_from_rows(lists.rows(), lists.features, settings=how)
    return by_click_model(lists, found.click_model)


class Heard:
    """What LightGBM logs, which is where it says its position bias."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, line: str) -> None:
        """Keep a line."""
        self.lines.append(line)

    warning = info


def by_lightgbm(lists: Lists, **more: Any) -> Floats:
    """Odds by rank of lambdarank with ``position``, over those at rank 1."""
    heard = Heard()
    lightgbm.register_logger(heard)
    data = lightgbm.Dataset(
        lists.features,
        lists.clicks.astype(int),
        group=np.bincount(lists.number),
        position=lists.rank - 1,
    )
    settings = {"objective": "lambdarank", "verbosity": 2, "num_threads": 1}
    lightgbm.train({**settings, **more}, data)
    bias = np.full(DEPTH, np.nan)
    for line in heard.lines:  # after each tree; the last ones stay
        said = re.search(r"\s(\d+)\s+(-?[\d.]+(?:e-?\d+)?)\s*$", line)
        if said and int(said[1]) < DEPTH:
            bias[int(said[1])] = float(said[2])
    return np.asarray(np.exp(bias - bias[0]))


RATIOS: dict[str, Callable[[Lists], Floats]] = {
    "naive ratios": lambda lists: lists.rates() / lists.rates()[0],
    "LightGBM position": by_lightgbm,
    "LightGBM position, 7 leaves": lambda lists: by_lightgbm(lists, num_leaves=7),
    "mixture": lambda lists: by_method(lists, "mixture"),
    "two-level": lambda lists: by_method(lists, "two-level"),
    "listwise": lambda lists: by_click_model(
        lists, listwise(lists.rows(), lists.features)
    ),
}


# Open Bandit and TianGong


def open_bandit(source: Path, folder: Path, _replicates: int) -> None:
    table = pl.read_parquet(source / "sample.parquet").filter(policy="random")
    table.select(
        session_id=pl.int_range(pl.len()),
        query_id=col("campaign") + "-" + col("user_feature_1"),
        doc_id="item_id",
        rank="position",
        clicked="click",
    ).write_parquet(folder / "log.parquet")
    print("\nopen-bandit: the random policy; a query is a campaign and a user feature")
    by_rank = table.group_by("position").agg(pl.len(), col("click").sum())
    n, clicks = by_rank.sort("position").select("len", "click").to_numpy().T
    p = stats.chi2_contingency([clicks, n - clicks]).pvalue
    print(
        f"  click rates by rank: {row(clicks / n, 4)} (p = {p:.2f} for no difference)"
    )
    as_a_user(folder)
    estimated(folder, "--min-clicks", "20")


def tiangong(source: Path, folder: Path, _replicates: int) -> None:
    print("\ntiangong-st")
    names = ("train", "valid", "test")
    files = [str(source / f"{name}_per_query_quid.txt") for name in names]
    said("import", command(folder, "import", "tiangong", *files))
    as_a_user(folder)
    as_a_user(folder, count="--bad-rows drop")


LOGS = {
    "yandex": yandex,
    "expedia": expedia,
    "open-bandit": open_bandit,
    "tiangong-st": tiangong,
}

if __name__ == "__main__":
    main()
