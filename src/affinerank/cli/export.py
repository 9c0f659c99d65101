"""Rankers written for the systems that serve them."""

from __future__ import annotations

from dataclasses import asdict

from affinerank.cli import display
from affinerank.cli.options import DataOptions, Model, Output, Result, require_writable
from affinerank.support.errors import ConfigError


def export(
    model: Model, *, to: str, output: Output, data: str | None = None, of: DataOptions
) -> Result:
    """Write a ranker for another system, and check what was written.

    Example: affinerank export model --to onnx -o model.onnx

    Options:
        to: onnx, lightgbm, opensearch, opensearch-raw, elasticsearch, solr, vespa or
            ranklib.
        data: Compare file and ranker on these lists (of splits, test); made-up ones
            where left out.
    """
    from affinerank.export.export import export_ranker
    from affinerank.rankers.loading import load_ranker

    require_writable(output, reads=[data])
    ranker = load_ranker(model)
    if model.resolve() in output.resolve().parents:
        raise ConfigError(f"{output}: lies in the ranker's own folder; choose another")
    written = export_ranker(ranker, output, to=to, data=of.read(data, "test"))
    return asdict(written), display.exported
