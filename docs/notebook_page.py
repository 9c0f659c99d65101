"""Make a page of the documentation from ``notebook.ipynb``, as it was run."""

import json
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

NOTEBOOK = Path(__file__).parent / "notebook.ipynb"


def on_files(files: Files, config: Any) -> Files:
    """Put the page in the place of the file, which stays for download."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    parts = [part for cell in cells for part in _parts(cell)]
    parts.append("[Download the notebook](notebook.ipynb)")
    files.append(File.generated(config, "notebook.md", content="\n\n".join(parts)))
    return files


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    parts = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        shown = output["data"]
        plain = f"<pre>{escape(''.join(shown['text/plain']))}</pre>"
        html = "".join(shown.get("text/html", plain))
        html = html.replace(' border="1" class="dataframe"', "")  # styled as others
        parts.append(f'<div class="shown">{" ".join(html.split(chr(10)))}</div>')
    return parts
