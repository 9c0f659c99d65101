"""The rows of rivals come in as those of a plug-in do, where they are needed."""

import subprocess
import sys
from importlib.metadata import entry_points

LOOK = """
import sys
import affinerank as ar

ar.ESTIMATORS["affine"].name
print("affinerank.rivals" in sys.modules)
print(ar.ESTIMATORS["cascade-ips"].weigh.__module__)
print(*ar.ESTIMATORS)
"""


def test_the_package_names_its_rivals_by_an_entry_point() -> None:
    modules = [entry.module for entry in entry_points(group="affinerank.rows")]
    assert "affinerank.rivals" in modules, "install the package again: pip install -e ."


def test_a_table_loads_rivals_when_it_lacks_a_row_and_lists_them_last() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
    )
    is_loaded_at_first, module, names = done.stdout.splitlines()
    assert is_loaded_at_first == "False"
    assert module == "affinerank.rivals.cascade_ips"
    assert names.startswith("naive ips")
    assert names.endswith("cascade-ips")
