"""Exported trees against LightGBM and XGBoost: 10,000 documents, 1,500 at thresholds.

Each file is scored by a reader that shares no code with what writes it: XGBoost,
treelite and ONNX Runtime themselves (in Python, and in Node where it is found), and for
search engines the package's reader, which decides as the engine does. 500 documents lie
on a threshold, 500 just below, 500 just above; 5 % of all values are missing.

    NODE_PATH=/path/to/node_modules python benchmarks/export.py

Node needs ``npm install --ignore-scripts onnxruntime-node``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export.engine_readers import TREE_READERS
from affinerank.export.export import export_ranker
from affinerank.rankers import RANKERS, Ranker, Targets, score
from affinerank.rankers.networks import settings as mlp
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rivals import xgboost

NAMES = ("price", "rating", "age", "text")
F = np.float32
LIST = 10  # documents
NEAR = 500  # documents on thresholds, as many just below, as many just above
SLACK = F(1e-6)  # Solr's
ROUNDING = 5e-7  # of the largest score: what sums in float32 may lose
Values = NDArray[np.float32]


def data(missing: float, seed: int = 0, n: int = 3000) -> RankingDataset:
    """Heavy-tailed features of different sizes, some values missing."""
    rng = np.random.default_rng(seed)
    features = rng.lognormal(sigma=2.0, size=(n, len(NAMES))) * [1, -1, 1e-3, 1e6]
    features[:, 2] = np.round(features[:, 2], 4)
    features[rng.random(features.shape) < missing] = np.nan
    ids = np.repeat(np.arange(n // LIST), LIST)
    return RankingDataset.from_rows(
        features.astype(F), [str(i) for i in ids], feature_names=NAMES
    )


def relevance(of: RankingDataset) -> NDArray[np.float64]:
    raw = np.nan_to_num(of.features.astype(np.float64))
    return np.asarray(np.log1p(np.abs(raw)) @ [1.0, -0.5, 3.0, 0.2])


def forest(scaling: str, missing: float, kind: str = trees.ROW.name) -> Ranker:
    """Train 40 trees of 15 leaves, or a small network."""
    train = data(missing)
    impute = not RANKERS[kind].reads_missing
    mapping = FeatureMapping.fit(train, scaling=scaling, impute=impute)
    features, target = mapping.apply(train).features, relevance(train)
    if kind == trees.ROW.name:
        made = lgb.Dataset(features, label=target)
        asked = {"objective": "regression", "verbosity": -1, "num_threads": 1}
        asked |= {"num_leaves": 15, "min_data_in_leaf": 5}
        text = lgb.train(asked, made, 40).model_to_string()
        return Ranker(kind, trees.TreeModel(text), mapping, {})
    settings: Any = xgboost.XGBoostSettings(trees=40, leaves=15)
    if kind == mlp.ROW.name:
        settings = mlp.NetworkSettings(hidden=(32, 16), epochs=2, device="cpu")
    targets = Targets(target[None], np.ones((1, len(target)), dtype=bool))
    fit = RANKERS[kind].fit
    [one] = fit(features, targets, train.offsets, seeds=[0], settings=settings)
    return Ranker(kind, one.kept, mapping, {})


def splits(ranker: Ranker) -> list[tuple[int, float]]:
    """Feature and threshold of each split, in units of raw features."""
    model: Any = ranker.model
    low, span = ranker.mapping.shift_and_span()
    found = []
    for node in chain.from_iterable(model.nodes()):
        at, threshold = node.feature, node.value
        if node.left and abs(threshold) < 1e30:  # else it tells missing from all others
            raw = threshold * float(span[at]) + float(low[at]) if len(low) else None
            found.append((at, threshold if raw is None else raw))
    return found


def documents(ranker: Ranker, missing: float, n: int = 10_000) -> RankingDataset:
    """New documents; the first lie on thresholds, just below and just above."""
    new = data(missing, seed=1, n=n)
    features, known = new.features.copy(), splits(ranker)
    rng = np.random.default_rng(2)
    for i, at in enumerate(rng.integers(0, len(known), 3 * NEAR)):
        feature, threshold = known[at]
        near = F(threshold)
        steps = (near, np.nextafter(near, F(-np.inf)), np.nextafter(near, F(np.inf)))
        features[i, feature] = steps[i // NEAR]
    return RankingDataset.from_rows(
        features, new.query_ids.repeat(LIST), feature_names=NAMES
    )


def read_as(to: str) -> Callable[[bytes, Values], NDArray[np.float64]]:
    """Return a reader that decides as the engine of a format does."""
    return lambda content, rows: TREE_READERS[to](content, rows, NAMES)


def read_xgboost(content: bytes, rows: Values) -> NDArray[np.float64]:
    """XGBoost itself, tree by tree, added up in double."""
    return _by_xgboost(content, rows, step=1)


def sums_of_xgboost(content: bytes, rows: Values) -> NDArray[np.float64]:
    """XGBoost itself, which adds up in float32."""
    return _by_xgboost(content, rows, step=1_000_000)


def _by_xgboost(content: bytes, rows: Values, step: int) -> NDArray[np.float64]:
    xgb = xgboost.library()
    booster = xgb.Booster()
    booster.load_model(bytearray(content))
    n, made = booster.num_boosted_rounds(), xgb.DMatrix(rows, feature_names=NAMES)
    total = np.zeros(len(rows))
    for first in range(0, n, step):
        some = (first, min(first + step, n))
        total += booster.predict(made, output_margin=True, iteration_range=some)
    return total


def read_treelite(content: bytes, rows: Values) -> NDArray[np.float64]:
    """Treelite reads LightGBM's text."""
    import treelite

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        path.write_bytes(content)
        model = treelite.frontend.load_lightgbm_model(path)
    found = treelite.gtil.predict(model, rows.astype(np.float64), nthread=1)
    return np.asarray(found, dtype=np.float64).ravel()


READERS: dict[str, tuple[str, Callable[[bytes, Values], NDArray[np.float64]]]] = {
    "OpenSearch's rule": ("opensearch", read_as("opensearch")),
    "the same, raw": ("opensearch-raw", read_as("opensearch-raw")),
    "XGBoost, tree by tree": ("opensearch-raw", read_xgboost),
    "XGBoost": ("opensearch-raw", sums_of_xgboost),
    "Elasticsearch's rule": ("elasticsearch", read_as("elasticsearch")),
    "Solr's rule": ("solr", read_as("solr")),
    "Vespa's rule": ("vespa", read_as("vespa")),
    "RankLib's rule": ("ranklib", read_as("ranklib")),
    "treelite": ("lightgbm", read_treelite),
}


def beyond_solr(ranker: Ranker, rows: Values) -> NDArray[np.bool_]:
    """Documents that Solr's sum, with any threshold, sends to another side."""
    found = np.zeros(len(rows), dtype=bool)
    for feature, threshold in splits(ranker):
        limit = F(threshold)
        if float(limit) > threshold:
            limit = np.nextafter(limit, F(-np.inf))
        near = limit - SLACK
        tried = [near]
        for to in (F(-np.inf), F(np.inf)):
            at = near
            for _ in range(8):
                at = np.nextafter(at, to)
                tried.append(at)
        reached = max(t + SLACK for t in tried if t + SLACK <= limit)
        x = rows[:, feature]
        found |= (x > reached) & (x <= limit)
    return found


def reads(kind: str, scaling: str, to: str) -> bool:
    """Whether a format takes such a ranker as it is."""
    if to == "lightgbm":  # features are scaled by the caller
        return kind == trees.ROW.name and scaling == "none"
    return to != "ranklib" or kind == trees.ROW.name  # XGBoost tells missing from 0


def compared(
    kind: str, scaling: str, reader: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Score documents by file and ranker; tell which Solr's rule cannot hit."""
    to, read = READERS[reader]
    # RankLib takes a missing value for 0, as do trees that learnt without, unscaled.
    ranker = forest(scaling, 0.0 if to == "ranklib" else 0.05, kind)
    docs = documents(ranker, 0.0 if (to, scaling) == ("ranklib", "data") else 0.05)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        export_ranker(ranker, path, to=to)
        found = read(path.read_bytes(), docs.features)
    cannot = beyond_solr(ranker, docs.features) if to == "solr" else found < -np.inf
    return found, score(ranker, docs), cannot


SCRIPT = """
const ort = require('onnxruntime-node'), fs = require('fs');
const [model, input, sizes, width, output] = process.argv.slice(1);
(async () => {
  const session = await ort.InferenceSession.create(model);
  const all = new Float32Array(new Uint8Array(fs.readFileSync(input)).buffer);
  const scores = [];
  let at = 0;
  for (const n of JSON.parse(fs.readFileSync(sizes))) {
    const part = all.slice(at * width, (at + n) * width);
    const tensor = new ort.Tensor('float32', part, [n, Number(width)]);
    scores.push(...(await session.run({features: tensor})).scores.data);
    at += n;
  }
  fs.writeFileSync(output, JSON.stringify(scores));
})().catch(error => { console.error(error); process.exit(1); });
"""


def node_lacks() -> str:
    """Say why ONNX Runtime does not run in Node here; nothing, where it does."""
    asked = ["node", "-e", "require('onnxruntime-node')"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return "node is not installed"
    return "" if done.returncode == 0 else "onnxruntime-node is not in NODE_PATH"


def node_scores(model: Path, of: RankingDataset) -> NDArray[np.float64]:
    """Score each list by ONNX Runtime in Node."""
    folder = model.parent
    files = [folder / name for name in ("features.bin", "sizes.json", "scores.json")]
    files[0].write_bytes(np.ascontiguousarray(of.features, dtype=F).tobytes())
    files[1].write_text(json.dumps(np.diff(of.offsets).tolist()))
    given = [model, files[0], files[1], of.features.shape[1], files[2]]
    asked = ["node", "-e", SCRIPT, *map(str, given)]
    subprocess.run(asked, check=True)  # noqa: S603
    return np.array(json.loads(files[2].read_text()))


def python_scores(model: Path, of: RankingDataset) -> NDArray[np.float64]:
    """Score each list by ONNX Runtime in Python."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.read_bytes())
    parts = [
        session.run(["scores"], {"features": of.features[i:j]})[0]
        for i, j in pairwise(of.offsets)
    ]
    return np.concatenate(parts).astype(np.float64)


def line(kind: str, scaling: str, to: str, reader: str, found: Any, wanted: Any) -> str:
    away = np.abs(found - wanted)
    largest = away.max() / np.abs(wanted).max()
    beyond = np.count_nonzero(away > ROUNDING * np.abs(wanted).max())
    head = f"{kind:9}{scaling:8}{to:15}{reader:22}"
    return f"{head}{away.max():9.1e}{largest:9.1e}{beyond:7,}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    heads = ("ranker", "scaling", "format", "read by", "max diff", "share", "> 5e-7")
    print("{:9}{:8}{:15}{:22}{:>9}{:>9}{:>7}".format(*heads))
    kinds = (trees.ROW.name, xgboost.ROW.name)
    for kind in kinds:
        for scaling in ("none", "data"):
            for name, (to, _) in READERS.items():
                if not reads(kind, scaling, to):
                    continue
                found, wanted, cannot = compared(kind, scaling, name)
                said = line(kind, scaling, to, name, found, wanted)
                if to == "solr":
                    bar = ROUNDING * np.abs(wanted).max()
                    others = (np.abs(found - wanted) > bar) & ~cannot
                    said += f"  ({np.count_nonzero(others)} that its rule can hit)"
                print(said, flush=True)
    lacks = node_lacks()
    for kind in (*kinds, mlp.ROW.name):
        for scaling in ("none", "data", "list"):
            if kind == mlp.ROW.name and scaling == "none":
                continue  # heavy tails are not for networks
            ranker = forest(scaling, 0.05, kind)
            docs = documents(ranker, 0.05) if kind in kinds else data(0.05, 1, 10_000)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.onnx")
                export_ranker(ranker, path, to="onnx")
                wanted, python = score(ranker, docs), python_scores(path, docs)
                about = (kind, scaling, "onnx")
                print(line(*about, "ONNX Runtime, Python", python, wanted))
                if not lacks:
                    node = node_scores(path, docs)
                    print(line(*about, "Node, against Python", node, python))
    if lacks:
        print(lacks)


if __name__ == "__main__":
    main()
