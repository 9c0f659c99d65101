"""Print lines of code and tokens by package: docstrings, comments and imports aside.

Run ``python benchmarks/size.py``; with ``--modules`` it lists every module, with
``--functions`` the longest functions.
"""

from __future__ import annotations

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "affinerank"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def lines_aside(text: str) -> set[int]:
    """Line numbers of docstrings and imports."""
    aside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            aside |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            aside |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return aside


def size_of(text: str) -> tuple[int, int]:
    """Lines of code and tokens of a module."""
    aside = lines_aside(text)
    lines = sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if number not in aside and line.strip() and not line.strip().startswith("#")
    )
    tokens = sum(
        1
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.start[0] not in aside and token.type not in LAYOUT
    )
    return lines, tokens


def function_lengths(source: Path = SOURCE) -> list[tuple[int, str]]:
    """Length of every function, with where it is, the longest first."""
    found = []
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((length, f"{path.relative_to(source)}:{node.name}"))
    return sorted(found, reverse=True)


def sizes(source: Path = SOURCE) -> dict[str, tuple[int, int]]:
    """Lines and tokens of every module."""
    return {
        str(path.relative_to(source)): size_of(path.read_text())
        for path in sorted(source.rglob("*.py"))
    }


def main() -> None:
    """Print the table."""
    by_module = sizes()
    lines, tokens, modules = Counter[str](), Counter[str](), Counter[str]()
    for name, (own_lines, own_tokens) in by_module.items():
        package = name.split("/")[0] if "/" in name else "(top)"
        row = name if "--modules" in sys.argv else package
        lines[row] += own_lines
        tokens[row] += own_tokens
        modules[row] += 1
    print(f"{'package':<36}{'modules':>8}{'lines':>8}{'tokens':>9}")
    for name in lines:
        print(f"{name:<36}{modules[name]:>8}{lines[name]:>8,}{tokens[name]:>9,}")
    total = (len(by_module), lines.total(), tokens.total())
    print(f"{'total':<36}{total[0]:>8}{total[1]:>8,}{total[2]:>9,}")
    lengths = function_lengths()
    median = statistics.median(length for length, _ in lengths)
    print(f"{len(lengths)} functions, median {median:g} lines, longest:")
    for length, where in lengths[: 20 if "--functions" in sys.argv else 5]:
        print(f"  {length:>4} {where}")


if __name__ == "__main__":
    main()
