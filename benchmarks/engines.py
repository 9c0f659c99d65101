"""Exported rankers in the engines' own code: Elasticsearch, Vespa, RankLib, Solr.

Rankers are trained on ``yahoo-like:200`` and written for each engine. The engine scores
3,600 documents, and so does the ranker: 600 documents with half of all used features on
a threshold, 600 just below, 600 just above, 600 with extreme values, 1,200 plain ones.

    AFFINERANK_ENGINES=/path/to/engines python benchmarks/engines.py

The folder has one folder per engine: the jars that Maven Central has, and a
``Score.java`` that prints the score of each row of a CSV file. Needs Java 17.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.export.engine_trees import MISSING_IS_ZERO, TREE_ENGINES, fold_features
from affinerank.export.export import export_ranker
from affinerank.export.parity import Cut, cuts_of, lies_between
from affinerank.rankers import RANKERS, Ranker, Targets, linear, score
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rivals import xgboost
from affinerank.support.errors import AffineRankError

# A linear model is a ranking expression for Vespa, and the harness reads trees alone.
EXPRESSION = """
import com.yahoo.searchlib.rankingexpression.RankingExpression;
import com.yahoo.searchlib.rankingexpression.evaluation.MapContext;
import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;

public class Score {
    public static void main(String[] args) throws Exception {
        String text = Files.readString(Path.of(args[0]));
        RankingExpression expression = new RankingExpression(text);
        // What a server is sent is text again.
        expression = new RankingExpression(expression.getRoot().toString());
        try (BufferedReader in = Files.newBufferedReader(Path.of(args[1]))) {
            String[] names = in.readLine().split(",", -1);
            for (String line; (line = in.readLine()) != null; ) {
                String[] cells = line.split(",", -1);
                MapContext values = new MapContext();
                for (int i = 0; i < names.length; i++) {
                    boolean missing = cells[i].isEmpty();
                    double value = missing ? Double.NaN : Float.parseFloat(cells[i]);
                    values.put(names[i], value);
                }
                System.out.println(expression.evaluate(values).asDouble());
            }
        }
    }
}
"""
# Runs the harness of an engine for each line of a file: model, documents, scores.
MANY = """
class Many {
    public static void main(String[] jobs) throws Exception {
        java.lang.reflect.Method method;
        try {
            method = Score.class.getDeclaredMethod("run", String[].class);
        } catch (NoSuchMethodException none) {
            method = Score.class.getDeclaredMethod("main", String[].class);
        }
        java.io.PrintStream real = System.out;
        java.nio.file.Path list = java.nio.file.Path.of(jobs[0]);
        for (String job : java.nio.file.Files.readAllLines(list)) {
            String[] files = job.split("\\t");
            java.io.PrintStream out = new java.io.PrintStream(files[2]);
            System.setOut(out);
            try {
                method.invoke(null, (Object) new String[] {files[0], files[1]});
            } catch (java.lang.reflect.InvocationTargetException wrong) {
                Throwable cause = wrong.getCause();
                while (cause.getCause() != null) cause = cause.getCause();
                out.println("refused: " + cause);
            }
            System.out.flush();
            out.close();
            System.setOut(real);
        }
        System.exit(0);
    }
}
"""
N_DOCUMENTS = 3_600
LIST_SIZE = 20
F = np.float32


@dataclass(frozen=True, slots=True)
class Job:
    """A file, and documents that an engine is to score by it."""

    content: bytes
    documents: RankingDataset


def folder_of(engine: str) -> Path:
    """Return where the jars of an engine are."""
    return Path(os.environ["AFFINERANK_ENGINES"], engine)


def engine_scores(
    engine: str,
    jobs: Sequence[Job],
    *,
    harness: str | None = None,
    timeout: float = 600.0,
) -> list[NDArray[np.float64] | str]:
    """Score documents in the engine's own code, all jobs in one Java process.

    Args:
        engine: Its folder.
        jobs: What to score.
        harness: Java that calls the engine; left out, ``Score.java`` of the folder.
        timeout: Seconds that all jobs may take.

    Returns:
        Scores for each job; or what the engine said when it refused the file.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = []
        for i, job in enumerate(jobs):
            files = [folder / f"{i}.{kind}" for kind in ("json", "csv", "scores")]
            files[0].write_bytes(job.content)
            files[1].write_text(as_csv(job.documents))
            lines.append("\t".join(map(str, files)))
        list_of_jobs = folder / "jobs"
        list_of_jobs.write_text("\n".join(lines))
        if harness is None:
            harness = (folder_of(engine) / "Score.java").read_text()
        imports, public, rest = harness.partition("public class Score")
        source = folder / "Many.java"
        source.write_text(imports + MANY + public.removeprefix("public ") + rest)
        run_java(engine, source, list_of_jobs, timeout)
        return [read_scores(folder / f"{i}.scores") for i in range(len(jobs))]


def run_java(engine: str, source: Path, jobs: Path, timeout: float) -> None:
    """Run Java on an engine's jars; raise what it says if it fails."""
    command = [
        "java",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx1g",
        "-Xss64m",
        "-cp",
        f"{folder_of(engine)}/*",
        source,
        jobs,
    ]
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{engine}: {done.stderr[-2000:]}")


def as_csv(documents: RankingDataset) -> str:
    """Write features so that each float32 is read back as it was."""
    lines = [",".join(documents.feature_names)]
    for row in documents.features:
        cells = ["" if np.isnan(value) else repr(float(value)) for value in row]
        lines.append(",".join(cells))
    return "\n".join([*lines, ""])


def read_scores(path: Path) -> NDArray[np.float64] | str:
    """Read a score per line, or why the engine refused."""
    text = path.read_text()
    if text.startswith("refused: "):
        return text.strip()
    return np.array(text.split(), dtype=np.float64)


# Rankers


def training_data(*, with_gaps: bool) -> RankingDataset:
    """Return a world; with gaps, features have different sizes, and values lack.

    Two thirds of the features are scaled by powers of ten of either sign, rounded, and
    lack 15 % of their values.
    """
    data = DataSource.parse("yahoo-like:200").read("train")
    if not with_gaps:
        return data
    rng = np.random.default_rng(3)
    features = data.features.astype(np.float64)
    changed = rng.random(features.shape[1]) < 2 / 3
    size = 10.0 ** rng.integers(-6, 7, features.shape[1])
    size *= rng.choice([-1, 1], features.shape[1])
    features[:, changed] = np.round(features[:, changed], 2) * size[changed]
    lacking = (rng.random(features.shape) < 0.15) & changed
    features[lacking] = np.nan
    return replace(data, features=features.astype(F))


def trained(kind: str, data: RankingDataset, **settings: Any) -> Ranker:
    """Train on the labels of data."""
    row = RANKERS[kind]
    mapping = FeatureMapping.fit(
        data,
        scaling=settings.pop("scaling", "none"),
        impute=not row.reads_missing,
    )
    labels = np.asarray(data.labels, np.float64)[None]
    targets = Targets(labels, np.ones(labels.shape, dtype=bool))
    [fitted] = row.fit(
        mapping.apply(data).features,
        targets,
        data.offsets,
        seeds=[0],
        settings=row.settings(**settings),
    )
    return Ranker(kind, fitted.kept, mapping, {})


# Documents


def documents(
    ranker: Ranker,
    data: RankingDataset,
    n: int,
    *,
    missing: float,
    to: str = "vespa",
) -> RankingDataset:
    """Return documents at thresholds, extreme ones and plain ones.

    A sixth on thresholds of the ranker's trees, as many just below, just above, and
    extreme; the rest plain. For a ranker without trees all are plain. Where the engine
    of a format cannot cut at the ranker's threshold, the values lie on the near side of
    both cuts.
    """
    rng = np.random.default_rng(4)
    names = ranker.mapping.names
    columns = [data.feature_names.index(name) for name in names]
    drawn = rng.integers(data.n_docs, size=n)
    features = data.features[drawn][:, columns].copy()
    part = n // 6
    if hasattr(ranker.model, "nodes"):
        limits = limits_by_feature(ranker, to)
        for i, side in enumerate((0, -1, 1)):
            rows = slice(i * part, (i + 1) * part)
            features[rows] = moved_to_limits(features[rows], limits, side, rng)
        values = [0.0, 1.0, -1.0, 3.4e38, -3.4e38, 1e-3, -1e-3]
        if to != "solr":  # which adds 1e-6, and cannot tell these from 0
            values += [1e-35, -1e-35, 5e-36]
        extreme = rng.choice(np.array(values, F), size=(part, len(names)))
        rows = slice(3 * part, 4 * part)
        changed = rng.random(extreme.shape) < 0.3
        features[rows] = np.where(changed, extreme, features[rows])
    if missing:
        features[rng.random(features.shape) < missing] = np.nan
        features[-LIST_SIZE:] = np.nan
    return RankingDataset.from_groups(
        features,
        np.arange(n) // LIST_SIZE,
        np.arange(n // LIST_SIZE),
        feature_names=names,
    )


def limits_by_feature(ranker: Ranker, to: str) -> dict[int, list[tuple[float, float]]]:
    """Return where the splits of each feature cut: the lower and the higher cut.

    That is the largest float32 that the ranker and the engine send left.
    """
    limits: dict[int, set[tuple[float, float]]] = {}
    for cut in cuts_of_ranker(ranker, to):
        if abs(cut.limit) < 3e38:
            ends = (min(cut.limit, cut.reached), max(cut.limit, cut.reached))
            limits.setdefault(cut.feature, set()).add(ends)
    return {feature: sorted(ends) for feature, ends in limits.items()}


def cuts_of_ranker(ranker: Ranker, to: str) -> list[Cut]:
    """Return the cuts of a ranker's trees in a format; none for other rankers."""
    model: Any = ranker.model
    if not hasattr(model, "nodes"):
        return []
    folded = fold_features(model.nodes(), ranker.mapping)
    return cuts_of(folded, TREE_ENGINES[to].reached)


def moved_to_limits(
    features: NDArray[np.float32],
    limits: dict[int, list[tuple[float, float]]],
    side: int,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Return documents with half of the used features on a limit, or just beside it."""
    moved = features.copy()
    for feature, ends in limits.items():
        values = np.array([high if side > 0 else low for low, high in ends], F)
        if side:
            values = np.nextafter(values, F(side * np.inf))
        drawn = rng.choice(values, size=len(moved))
        changed = rng.random(len(moved)) < 0.5
        moved[:, feature] = np.where(changed, drawn, moved[:, feature])
    return moved


# Comparison


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an engine's scores compare with the ranker's.

    Attributes:
        relative: Largest difference, as a share of the largest score.
        reversed_pairs: Pairs of a list that stand in another order.
        pairs: Pairs that were compared.
        between: Documents left out: between a true and a declared threshold.
    """

    relative: float
    reversed_pairs: int
    pairs: int
    between: int


def agreement(
    wanted: NDArray[np.float64],
    got: NDArray[np.float64],
    between: NDArray[np.bool_],
    *,
    moved: bool = False,
) -> Agreement:
    """Compare scores; ``moved`` if the engine may add a constant to all of them."""
    counts = ~between
    if moved:
        got = got - np.median((got - wanted)[counts])
    largest = np.abs(wanted[counts]).max()
    difference = np.abs(got - wanted)[counts].max()

    # Each pair of a list once, of documents that count.
    reversed_pairs = 0
    pairs = 0
    for start in range(0, len(wanted), LIST_SIZE):
        rows = np.arange(start, min(start + LIST_SIZE, len(wanted)))
        rows = rows[counts[rows]]
        one, other = np.triu_indices(len(rows), k=1)
        apart = wanted[rows[one]] - wanted[rows[other]]
        apart_there = got[rows[one]] - got[rows[other]]
        pairs += len(apart)
        reversed_pairs += int(np.sum(np.sign(apart) * np.sign(apart_there) < 0))
    return Agreement(
        float(difference / largest), reversed_pairs, pairs, int(between.sum())
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A ranker in a format, and documents to score by both.

    Attributes:
        ranker: What was exported.
        to: The format.
        documents: To score.
        content: The file.
        description: Of the file.
    """

    ranker: Ranker
    to: str
    documents: RankingDataset
    content: bytes
    description: Mapping[str, Any]

    def job(self) -> Job:
        """Return what the engine is to score, missing values filled where asked."""
        missing = self.description["missing"]
        features = self.documents.features
        if "before_scaling" in missing and missing["filled_by"] == "the caller":
            fill = np.array(list(missing["before_scaling"].values()), F)
            features = np.where(np.isnan(features), fill, features)
        elif self.to == "solr" and missing == MISSING_IS_ZERO:
            features = np.nan_to_num(features, nan=0.0)  # what its features default to
        return Job(self.content, replace(self.documents, features=features))

    def agreement(self, got: NDArray[np.float64]) -> Agreement:
        """Compare an engine's scores with the ranker's."""
        with np.errstate(over="ignore"):
            wanted = score(self.ranker, self.documents)
        cuts = cuts_of_ranker(self.ranker, self.to)
        between = lies_between(self.documents.features, cuts)
        constant = self.description.get("add_to_scores", 0.0)
        moved = self.to == "elasticsearch"
        return agreement(wanted, got + constant, between, moved=moved)


def exported(ranker: Ranker, to: str, scored: RankingDataset) -> Comparison | str:
    """Export a ranker; return what is compared, or why it was refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        try:
            export_ranker(ranker, path, to=to)
        except AffineRankError as error:
            return str(error)
        description = json.loads(path.with_name("model.json").read_text())
        return Comparison(ranker, to, scored, path.read_bytes(), description)


def scores_of_engine(to: str, compared: Sequence[Comparison]) -> list[Any]:
    """Score by the engine that reads a format."""
    jobs = [one.job() for one in compared]
    if to == "opensearch-raw":
        return [by_xgboost(job) for job in jobs]
    if to == "vespa" and any(
        not hasattr(one.ranker.model, "nodes") for one in compared
    ):
        return engine_scores(to, jobs, harness=EXPRESSION)
    return engine_scores(to, jobs)


def by_xgboost(job: Job) -> NDArray[np.float64]:
    """Score by XGBoost itself."""
    library = xgboost.library()
    booster = library.Booster()
    booster.load_model(bytearray(job.content))
    data = library.DMatrix(
        job.documents.features, feature_names=list(job.documents.feature_names)
    )
    return np.asarray(booster.predict(data, output_margin=True), dtype=np.float64)


READ_BY = {
    "elasticsearch": "Elasticsearch 8.19.21",
    "vespa": "Vespa 8.700.24, Java",
    "ranklib": "RankyMcRankFace 0.2.0",
    "solr": "Solr 8.11.4",
    "opensearch-raw": "XGBoost",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A ranker, data like those it learnt from, and the share of values to remove."""

    name: str
    ranker: Ranker
    data: RankingDataset
    missing: float = 0.0


def cases(few: int, many: int) -> Iterator[Case]:
    """Train rankers of few and many trees, and linear ones."""
    plain = training_data(with_gaps=False)
    gaps = training_data(with_gaps=True)
    forest, xgb, line = trees.ROW.name, xgboost.ROW.name, linear.ROW.name
    yield Case(f"m{few}", trained(forest, plain, trees=few, leaves=15), plain)
    large = trained(forest, plain, trees=many, leaves=31)
    yield Case(f"m{many}", large, plain)
    yield Case(f"n{many}", large, plain, 0.15)
    yield Case(f"d{few}", trained(forest, plain, trees=few, scaling="data"), plain)
    yield Case(f"g{many}", trained(forest, gaps, trees=many, leaves=31), gaps, 0.1)
    yield Case(f"gx{few}", trained(xgb, gaps, trees=few), gaps, 0.1)
    yield Case("linear, none", trained(line, plain, scaling="none"), plain)
    yield Case("linear, data", trained(line, gaps, scaling="data"), gaps, 0.1)


def main() -> None:
    """Compare all rankers in all engines, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=N_DOCUMENTS)
    parser.add_argument("--trees", type=int, nargs=2, default=(100, 300))
    asked = parser.parse_args()
    heads = (
        "ranker",
        "format",
        "read by",
        "difference",
        "reversed",
        "pairs",
        "between",
    )
    print("{:15}{:15}{:23}{:>10}{:>9}{:>8}{:>8}".format(*heads))
    for case in cases(*asked.trees):
        for to, reader in READ_BY.items():
            scored = documents(
                case.ranker, case.data, asked.documents, missing=case.missing, to=to
            )
            compared = exported(case.ranker, to, scored)
            head = f"{case.name:15}{to:15}{reader:23}"
            if isinstance(compared, str):
                print(f"{head}refused by export", flush=True)
                continue
            [got] = scores_of_engine(to, [compared])
            if isinstance(got, str):
                needs = compared.description.get("needs", got[:60])
                print(f"{head}refused by the engine; needs {needs}", flush=True)
                continue
            found = compared.agreement(got)
            print(
                f"{head}{found.relative:10.1e}{found.reversed_pairs:9,}"
                f"{found.pairs:8,}{found.between:8,}",
                flush=True,
            )


if __name__ == "__main__":
    main()
