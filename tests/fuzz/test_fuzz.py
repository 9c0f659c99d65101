"""A short slice of the attack: every format, and every file that once got through."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import oracle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def attacked(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the attack in a process without threads, which it forks."""
    command = [sys.executable, "-m", "tests.fuzz", "--out", str(out), *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_spoilt_files_are_refused_or_read_right(tmp_path: Path) -> None:
    done = attacked(tmp_path, "--cases", "54", "--seed", "20261116")
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_once_got_through_are_refused(tmp_path: Path) -> None:
    done = attacked(tmp_path, "--kept")
    assert done.returncode == 0, done.stdout + done.stderr


LOG = '''session_id,query_id,doc_id,rank,clicked
s1,q,"a ""b""",1,1
s1,q,c,2,0
s2,q,c,1,true
'''


def test_the_oracle_counts_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    assert oracle.expected_counts(path) == {
        ("q", 'a "b"', 1, ""): (1, 1, 2),
        ("q", "c", 2, ""): (1, 0, 2),
        ("q", "c", 1, ""): (1, 1, 2),
    }


@pytest.mark.parametrize(
    "line",
    ["s3,q,c,1", "s3,q,c,1,2", "s3,q,c,0,1", ",q,c,1,1", 's3,q,"c', "s1,q,c,3,0"],
)
def test_the_oracle_finds_faults(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG + line)
    with pytest.raises(oracle.FaultError):
        oracle.expected_counts(path)
