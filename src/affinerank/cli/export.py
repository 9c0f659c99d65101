"""Rankers written for the systems that serve them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Json,
    Output,
    command,
    require_writable,
    show,
)
from affinerank.errors import ConfigError


@command
def export(
    model: Annotated[Path, Argument(metavar="MODEL", help="Folder of a ranker.")],
    *,
    to: Annotated[
        str,
        Option(
            help="onnx, lightgbm, opensearch, opensearch-raw, elasticsearch, solr, "
            "vespa or ranklib."
        ),
    ],
    output: Output,
    data: Annotated[
        str | None,
        Option(
            help="Compare file and ranker on these lists (of splits, test); made-up "
            "ones where left out."
        ),
    ] = None,
    of: DataOptions,
    as_json: Json = False,
) -> None:
    """Write a ranker for another system, and check what was written.

    Example: affinerank export model --to opensearch -o model.json
    """
    from affinerank.rankers.export import export_ranker
    from affinerank.rankers.loading import load_ranker

    require_writable(output, reads=[data])
    ranker = load_ranker(model)
    if model.resolve() in output.resolve().parents:
        raise ConfigError(f"{output}: lies in the ranker's own folder; choose another")
    lists = None if data is None else of.read(data, "test")
    show(asdict(export_ranker(ranker, output, to=to, data=lists)), as_json, _draw)


def _draw(about: dict[str, Any]) -> None:
    lines = {
        "written": f"{about['path']}\n{about['about']}",
        "features": f"{about['n_features']:,}",
    }
    if parity := about["parity"]:
        lines["compared"] = (
            f"{parity['documents']:,} documents of {parity['lists']:,} lists, scored "
            "by the file and by the ranker"
        )
        lines["max difference"] = (
            f"{parity['max_difference']:.3g} "
            f"({parity['relative']:.2g} of the largest score)"
        )
    display.notes(lines)
