"""The documentation site builds without a warning, and asks nothing of the net."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import affinerank

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


class Requests(HTMLParser):
    """What a browser would fetch by itself for a page; links are not."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in LOADED and LOADED[tag] in given:
            self.found.append(given[LOADED[tag]])
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(given["href"])
        self.found += re.findall(r"url\(([^)]*)\)", given.get("style", ""))


def requests_of(page: str) -> list[str]:
    reader = Requests()
    reader.feed(page)
    return reader.found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocstrings")
    target = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return target


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()
        assert f'href="{page.stem}.html"' in start or page.stem == "index"


def test_pages_request_nothing_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        for address in requests_of(page.read_text()):
            assert not re.match(r"(https?:)?//", address), f"{page.name}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text())


def test_a_request_to_outside_would_be_seen() -> None:
    page = '<a href="https://a"><script src="https://b"></script><img src="//c">'
    page += (
        '<link rel="stylesheet" href="https://d"><p style="background:url(http://e)">'
    )
    assert requests_of(page) == ["https://b", "//c", "https://d", "http://e"]


def test_the_api_page_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in affinerank.__all__:
        home = (
            "affinerank.support.errors" if name.endswith(("Error", "Warning")) else None
        )
        anchor = f"{home or 'affinerank'}.{name}"
        # Tables have no docstring of their own; the page names them.
        assert f'id="{anchor}"' in page or f"<code>{name}</code>" in page, anchor


def test_docstrings_are_shown_without_roles_and_formulas_without_backslashes(
    site: Path,
) -> None:
    page = (site / "api.html").read_text()
    assert not re.search(r":(func|class|meth|mod|math):", page)
    assert ".. math" not in page
    assert "theta_k = min(k, 20)^(-eta)" in page
