"""Plans: what their files may say, and which cells and groups they mean."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from affinerank.errors import ConfigError, DataError
from affinerank.experiments.cells import Cell, cells_of, click_rng, groups_of
from affinerank.experiments.plan import (
    PLANS,
    PROFILES,
    parse_plan,
    read_plan,
    shipped_plan,
    with_data,
)

OWN = """
name = "own"
settings = [{eta = 1.0, eps_minus_1 = 0.65}]
clicks = [1e3, 1e4]
runs = 2

[[data]]
name = "tiny"
source = "yahoo-like:30"

[[grids]]
estimators = ["full-information", "naive", "affine"]

[network]
hidden = [8]
epochs = 2
"""


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", PLANS)
def test_every_shipped_plan_reads_back_from_what_it_writes(
    name: str, profile: str
) -> None:
    plan = shipped_plan(name, profile)
    assert parse_plan(tomllib.loads(plan.to_toml()), "again") == plan
    assert (plan.name, plan.profile) == (name, profile)


def test_the_paper_profile_has_the_papers_sizes() -> None:
    plan = shipped_plan("figure1", "paper")
    assert (min(plan.clicks), max(plan.clicks)) == (3e4, 8e6)
    assert plan.network.hidden == (512, 256, 128)
    assert (plan.network.epochs, plan.runs) == (32, 4)
    assert [d.validation_share for d in plan.data] == [0.15, 0.33]
    assert [d.learning_rate for d in plan.data] == [0.004, 0.02]
    assert {(s.eta, s.eps_minus_1) for s in plan.settings} == {
        (eta, eps) for eta in (1.0, 2.0) for eps in (0.65, 0.35)
    }
    for data in plan.data:
        networks = [g.networks for g in groups_of(plan) if g.data == data.name]
        assert 550 < sum(networks) < 650
        assert max(networks) <= plan.group_networks


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs = 2", "runns = 2", "no key 'runns'; did you mean 'runs'?"),
        ("estimators =", "estimator =", "no key 'estimator'; did you mean"),
        ("epochs = 2", "epoch = 2", "network: there is no key 'epoch'"),
        ("source =", "sauce =", "data[0]: there is no key 'sauce'; did you mean"),
        ("runs = 2", "runs = 'two'", "runs must be a whole number, got 'two'"),
        ("runs = 2", "runs = 0", "runs must be 1 or more, got 0"),
        ("runs = 2", "seed = -1", "seed must be 0 or more, got -1"),
        ("[1e3, 1e4]", "1e3", "clicks must be a list, got 1000.0"),
        ("[1e3, 1e4]", "[1e3, 0]", "clicks must be above 0"),
        ("[1e3, 1e4]", "[]", "clicks must name one or more"),
        ('"naive"', '"nave"', "there is no estimator 'nave'"),
        ("eps_minus_1 = 0.65", "eps_minus_1 = 1.65", "eps_minus_1 from 0 to 1"),
        ("hidden = [8]", "hidden = [0]", "hidden layers need 1 unit or more"),
        ('name = "own"', "", "the key 'name' is missing"),
        ("epochs = 2", "epochs = 2\nprecision = 'half'", "precision must be float32"),
        ("runs = 2", "figures = ['figure4']", "no figure 'figure4'; did you mean"),
        ("runs = 2", "runs = 2\nruns = 3", "not TOML"),
        (
            'estimators = ["full-information", "naive", "affine"]',
            'estimators = ["naive"]\nusers = ["softmax"]',
            "estimated users go with the estimator affine, not 'naive'",
        ),
        (
            'estimators = ["full-information", "naive", "affine"]',
            'estimators = ["affine"]\nusers = ["soft-minmax"]',
            "no users 'soft-minmax'; did you mean 'soft-min-max'?",
        ),
        (
            'estimators = ["full-information", "naive", "affine"]',
            'estimators = ["affine"]\nclips = ["10/n"]',
            "clip must be a number or a rule",
        ),
        (
            'estimators = ["full-information", "naive", "affine"]',
            'estimators = ["affine"]\ndata = ["tinny"]',
            "no data set 'tinny'; did you mean 'tiny'?",
        ),
    ],
)
def test_a_wrong_plan_is_one_sentence_that_says_what_would_be_right(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.toml"
    assert old in OWN
    path.write_text(OWN.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_plan(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_unknown_plan_or_profile_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'figure1'"):
        shipped_plan("figur1")
    with pytest.raises(ConfigError, match="did you mean 'laptop'"):
        shipped_plan("figure1", "labtop")


def test_what_does_not_depend_on_clicks_is_measured_once_a_run() -> None:
    cells = cells_of(parse_plan(tomllib.loads(OWN), "own"))
    assert len(cells) == len(set(cells)) == 2 + 2 * 2 * 2
    assert [c.run for c in cells if c.estimator == "full-information"] == [0, 1]


def test_naive_cells_are_not_repeated_for_clipping() -> None:
    text = OWN.replace("[[grids]]", '[[grids]]\nclips = ["none", "0.1"]')
    cells = cells_of(parse_plan(tomllib.loads(text), "own"))
    assert sum(c.estimator == "naive" for c in cells) == 4
    assert sum(c.estimator == "affine" for c in cells) == 8


def test_groups_hold_every_cell_once_and_one_data_set_each() -> None:
    plan = shipped_plan("all", "paper")
    groups = groups_of(plan)
    cells = [cell for group in groups for cell in group.cells]
    assert sorted(map(repr, cells)) == sorted(map(repr, cells_of(plan)))
    for group in groups:
        assert {cell.data for cell in group.cells} == {group.data}
        assert len({cell.users not in ("true", "default") for cell in group.cells}) == 1
        assert len(group.cells) <= plan.group_networks


def test_a_cells_clicks_depend_on_its_coordinates_alone() -> None:
    cell = Cell("tiny", 1.0, 0.65, 1e4, "affine", "true", "none", 1)
    same = replace(cell, estimator="naive", users="default", clip="0.1")

    def drawn(of: Cell, *, held_out: bool = False) -> float:
        return click_rng(of, 0, held_out=held_out).random()

    assert drawn(cell) == drawn(same)
    others = [
        replace(cell, data="other"),
        replace(cell, eta=2.0),
        replace(cell, eps_minus_1=0.35),
        replace(cell, clicks=2e4),
        replace(cell, run=0),
    ]
    values = [drawn(cell), drawn(cell, held_out=True), *map(drawn, others)]
    assert len(set(values)) == len(values)


def test_a_folder_of_real_sets_takes_the_place_of_the_worlds(tmp_path: Path) -> None:
    fold = tmp_path / "MSLR-WEB30K" / "Fold1"
    fold.mkdir(parents=True)
    (fold / "train.txt.gz").touch()
    plan = with_data(shipped_plan("all", "paper"), tmp_path)
    assert [d.name for d in plan.data] == ["mslr30k"]
    assert plan.data[0].learning_rate == 0.02
    assert plan.data[0].source == str(fold.parent)
    assert {cell.data for cell in cells_of(plan)} == {"mslr30k"}
    (tmp_path / "set1.train.txt").touch()
    plan = with_data(shipped_plan("all", "paper"), tmp_path)
    assert [d.name for d in plan.data] == ["yahoo", "mslr30k"]
    assert {c.data for c in cells_of(plan) if c.users == "softmax"} == {"yahoo"}


@pytest.mark.parametrize(
    ("folder", "name"),
    [("MSLR-WEB10K", "mslr10k"), ("MQ2008", "mq2008"), ("shop", "shop")],
)
def test_folds_are_called_what_their_folder_says(
    folder: str, name: str, tmp_path: Path
) -> None:
    fold = tmp_path / folder / "Fold1"
    fold.mkdir(parents=True)
    (fold / "train.txt").touch()
    plan = with_data(shipped_plan("figure1", "smoke"), fold.parent)
    assert [d.name for d in plan.data] == [name]
    assert {cell.data for cell in cells_of(plan)} == {name}


def test_a_folder_without_a_known_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not the folder of a set"):
        with_data(shipped_plan("figure1", "smoke"), tmp_path)
