"""The text of trees is checked before LightGBM, which would crash, reads it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from affinerank.rankers.loading import load_ranker
from affinerank.rankers.trees.model_text import require_sound
from affinerank.support import limits
from affinerank.support.errors import DataError

SAMPLE = Path(__file__).parents[2] / "samples" / "ranker-lightgbm"
TEXT = (SAMPLE / "model.txt").read_text()
SPOIL = Path(__file__).with_name("spoilt_trees.py")


def test_trees_as_lightgbm_writes_them_are_sound() -> None:
    assert require_sound(TEXT) == 24
    assert require_sound(TEXT.partition("\nparameters:")[0]) == 24


def changed(pattern: str, new: str) -> str:
    """The text with the first match replaced, and the sizes of trees as needed."""
    text, n = re.subn(pattern, new, TEXT, count=1)
    assert n == 1
    more = len(text) - len(TEXT)
    if pattern.startswith("tree_sizes") or text.index("\n\nTree=") != TEXT.index(
        "\n\nTree="
    ):
        return text
    return text.replace("tree_sizes=566", f"tree_sizes={566 + more}")


@pytest.mark.parametrize(
    ("pattern", "new", "named"),
    [
        ("num_leaves=4", "num_leaves=999999", "tree 0: .*num_leaves"),
        ("num_leaves=4", "num_leaves=5", "tree 0: .*leaf_value to be 5"),
        ("num_leaves=4", "num_leaves=0", "tree 0: .*num_leaves"),
        ("left_child=1 -1 -3", "left_child=1 -1 -9", "tree 0: .*left_child"),
        ("left_child=1 -1 -3", "left_child=77 -1 -3", "tree 0: .*left_child"),
        ("left_child=1 -1 -3", "left_child=1 0 -3", "tree 0: .*left_child"),
        ("left_child=1 -1 -3", "left_child=1 1 -3", "tree 0: .*left_child"),
        ("left_child=1 -1 -3", "left_child=1 -1 -1", "tree 0: .*left_child"),
        ("split_feature=15", "split_feature=24", "tree 0: .*split_feature"),
        ("split_feature=15", "split_feature=-1", "tree 0: .*split_feature"),
        (r"threshold=0\.88", "threshold=1e999", "tree 0: .*threshold"),
        (r"threshold=0\.88", "threshold=nan ", "tree 0: .*threshold"),
        (r"threshold=0\.88\S*", "threshold=inf", None),  # missing, or not
        (r"threshold=0\.88\S*", "threshold=infinity", "tree 0: .*threshold"),
        ("\nend of parameters", "", "trees and their end"),
        ("leaf_value=", "leaf_value=1 ", "tree 0: .*leaf_value"),
        ("leaf_value=-0", "leaf_value=-1e400", "tree 0: .*leaf_value"),
        ("decision_type=2", "decision_type=3", "tree 0: .*num_cat"),
        ("decision_type=2", "decision_type=99", "tree 0: .*decision_type"),
        ("num_cat=0", "num_cat=1", "tree 0: .*cat_boundaries"),
        ("is_linear=0", "is_linear=1", "tree 0: .*is_linear"),
        ("is_linear=0\n", "", None),
        ("leaf_count=351", "leaf_count=x", "tree 0: .*leaf_count"),
        ("num_cat=0", "num_bat=0", "tree 0: .*known key"),
        ("num_cat=0", "num_cat=0\nnum_cat=0", "tree 0: .*known key"),
        ("Tree=0", "Tree=7", "tree 0: .*number"),
        ("num_class=1", "num_class=3", "num_class"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=2", "per_iteration"),
        ("max_feature_idx=23", "max_feature_idx=22", "23 feature_names"),
        ("max_feature_idx=23", "max_feature_idx=99999999", "max_feature_idx"),
        (r"\[0:1\]", "[0:1", "24 feature_infos"),
        ("Column_3", 'Column"3', "24 feature_names"),
        ("tree_sizes=566", "tree_sizes=999999999", "tree_sizes"),
        ("tree_sizes=566 ", "tree_sizes=", "tree_sizes"),
        ("num_class=1", "num_class=1\nobjective=multiclass num_class:3", "objective"),
        ("end of trees", "end of tree", "their end"),
        ("tree\n", "", "a header"),
    ],
)
def test_what_lightgbm_would_trust_is_refused_with_its_name(
    pattern: str, new: str, named: str | None, tmp_path: Path
) -> None:
    text = changed(pattern, new)
    if named is None:
        assert require_sound(text) == 24
        return
    (tmp_path / "model.txt").write_text(text)
    about = (SAMPLE / "ranker.json").read_text()
    (tmp_path / "ranker.json").write_text(about)
    with pytest.raises(DataError, match=named) as caught:
        load_ranker(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'model.txt'}: not trees")
    assert "\n" not in str(caught.value)


def chain(nodes: int) -> str:
    """One tree whose every right child is the next node."""
    lines: dict[str, list[float]] = {
        "num_leaves": [nodes + 1],
        "num_cat": [0],
        "split_feature": [0] * nodes,
        "threshold": [0.5] * nodes,
        "decision_type": [2] * nodes,
        "left_child": [-1 - i for i in range(nodes)],
        "right_child": [*range(1, nodes), -1 - nodes],
        "leaf_value": [1] * (nodes + 1),
        "shrinkage": [1],
    }
    tree = "Tree=0\n" + "".join(
        f"{key}={' '.join(map(str, values))}\n" for key, values in lines.items()
    )
    return (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        "max_feature_idx=0\nfeature_names=a\nfeature_infos=[0:1]\n"
        f"tree_sizes={len(tree) + 2}\n\n{tree}\n\nend of trees\n"
    )


def test_a_tree_may_be_so_deep_and_no_deeper() -> None:
    assert require_sound(chain(limits.MODEL_DEPTH)) == 1
    with pytest.raises(DataError, match="levels"):
        require_sound(chain(limits.MODEL_DEPTH + 1))


def test_spoilt_texts_end_no_process_and_whole_ones_score_as_before() -> None:
    done = subprocess.run(
        [sys.executable, str(SPOIL), "11", "1500"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    taken, refused = map(int, done.stdout.split())
    assert taken > 50
    assert refused > 500


@pytest.mark.parametrize("line", ["[banana: 1]", "[x]"])
def test_what_lightgbm_says_of_a_file_is_not_printed(tmp_path: Path, line: str) -> None:
    text = TEXT.replace("\nparameters:\n", f"\nparameters:\n{line}\n")
    assert text != TEXT
    (tmp_path / "model.txt").write_text(text)
    (tmp_path / "ranker.json").write_text((SAMPLE / "ranker.json").read_text())
    code = (
        "import sys, numpy as np; from affinerank.rankers.loading import load_ranker; "
        "load_ranker(sys.argv[1]).predict(np.zeros((2, 24), np.float32))"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_lightgbm_warns_of_goes_to_the_log() -> None:
    code = (
        "import numpy as np; from affinerank.rankers.trees import lightgbm as trees; "
        "lgb = trees.lightgbm(); "
        "lgb.train({}, lgb.Dataset(np.zeros((30, 2)), label=np.arange(30.0)), 2)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout == ""
