"""Spoil the text of trees in many ways, and read it: ``spoilt_trees.py SEED CASES``.

Run it in a process of its own: what gets past the checks may end it.
"""

import random
import re
import sys
from collections import Counter

import lightgbm as lgb
import numpy as np

from affinerank.rankers.trees.lightgbm import TreeModel, lightgbm
from affinerank.rankers.trees.model_text import require_sound
from affinerank.support.errors import DataError

ODD = "0 -1 1 2 7 999999 2147483647 -2147483648 4294967296 1e308 1e400 nan inf - 00"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")
END = "\n\n\nend of trees"


def features() -> np.ndarray:
    """Numbers, with missing ones, and a column of categories."""
    rng = np.random.default_rng(0)
    x = rng.random((400, 4))
    x[:, 3] = rng.integers(0, 40, 400)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


def texts() -> list[str]:
    """Models of several kinds, as LightGBM writes them."""
    x = features()
    y = (x[:, 0] > 0.5) + (x[:, 3] % 3 == 2).astype(float)
    plain = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    found = []
    for objective in ("lambdarank", "rank_xendcg", "regression"):
        for leaves in (2, 5, 31):
            for more in ({}, {"zero_as_missing": True}, {"use_missing": False}):
                kind = {"objective": objective, "num_leaves": leaves, **more, **plain}
                categories = [3] if leaves == 5 else []
                data = lgb.Dataset(
                    x, label=y, group=[20] * 20, categorical_feature=categories
                )
                found.append(lgb.train(kind, data, 3).model_to_string())
    own = {"objective": lambda scores, _: (scores - y, np.ones(len(y))), **plain}
    found.append(lgb.train(own, lgb.Dataset(x, label=y), 2).model_to_string())
    flat = lgb.Dataset(np.zeros((50, 4)), label=np.arange(50.0))
    found.append(lgb.train(plain, flat, 2).model_to_string())
    return found


def spoilt(text: str, draw: random.Random) -> str:
    """Change some bytes, numbers or lines; mostly with sizes that agree again."""
    end = text.index(END) + draw.choice([0, 0, 0, 300])
    at, kind = draw.randrange(end), draw.randrange(6)
    if kind == 0:
        text = text[:at] + chr(draw.randrange(300)) + text[at + 1 :]
    elif kind == 1:
        text = text[:at] + text[at + draw.randint(1, 30) :]
    elif kind == 2:
        other = draw.randrange(end)
        text = text[:at] + text[other : other + draw.randint(1, 80)] + text[at:]
    elif kind == 3:
        lines = text.split("\n")
        i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[i], lines[j] = lines[j], draw.choice([lines[i], lines[j]])
        text = "\n".join(lines)
    else:
        for _ in range(draw.randint(1, 2)):
            numbers = list(NUMBER.finditer(text, 0, end))
            place = draw.choice(numbers)
            new = draw.choice([draw.choice(numbers).group(), draw.choice(ODD.split())])
            text = text[: place.start()] + new + text[place.end() :]
    return text if draw.random() < 0.2 else resized(text)


def resized(text: str) -> str:
    """Write the sizes of trees anew, so that the checks behind them are met."""
    head, first, rest = text.partition("\n\nTree=")
    sizes = (str(len(tree) + 8) for tree in rest.partition(END)[0].split("\n\n\nTree="))
    return re.sub("tree_sizes=.*", f"tree_sizes={' '.join(sizes)}", head) + first + rest


def main(seed: int, cases: int) -> None:
    """Print how many were taken, and how many refused."""
    lightgbm()
    draw, good, x, tally = random.Random(seed), texts(), features(), Counter[str]()
    for text in good:
        assert require_sound(text) == 4
        expected = lgb.Booster(model_str=text).predict(x)
        np.testing.assert_array_equal(TreeModel(text).predict(x), expected)
    for _ in range(cases):
        text = spoilt(draw.choice(good), draw)
        try:
            require_sound(text)
        except DataError:
            tally["refused"] += 1
            continue
        model = TreeModel(text)
        assert np.isfinite(model.predict(x)).all()
        model.booster().dump_model()
        tally["taken"] += 1
    sys.stdout.write(f"{tally['taken']} {tally['refused']}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
