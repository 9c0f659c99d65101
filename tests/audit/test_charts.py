"""Charts as files: every format, by the ending of the name."""

from pathlib import Path

import pytest

from affinerank.output.charts import Spec, save_figure
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

SPEC: Spec = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"rank": 1, "rate": 0.5}, {"rank": 2, "rate": 0.25}]},
    "mark": "point",
    "encoding": {
        "x": {"field": "rank", "type": "quantitative"},
        "y": {"field": "rate", "type": "quantitative"},
    },
}


@pytest.mark.parametrize(
    ("ending", "start"),
    [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF"), ("html", b"<!DOCTYPE")],
)
def test_the_ending_chooses_the_format(
    ending: str, start: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"chart.{ending}"
    save_figure(SPEC, path)
    assert path.read_bytes()[:40].lstrip().upper().startswith(start.upper())


def test_another_ending_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"chart\.gif: .* written as \.png, \.svg"):
        save_figure(SPEC, tmp_path / "chart.gif")
    with pytest.raises(DataError, match="there is no folder"):
        save_figure(SPEC, tmp_path / "nowhere" / "chart.svg")
    assert not list(tmp_path.iterdir())
