"""Plans: what their files may say, and which cells and groups they mean."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from affinerank.research.cells import Cell
from affinerank.research.coordinates import canonical, title_of
from affinerank.research.groups import cells_of, groups_of
from affinerank.research.plan import (
    PLANS,
    PROFILES,
    Plan,
    parse_plan,
    read_plan,
    shipped_plan,
    with_data,
)
from affinerank.research.reproduce import plan_for
from affinerank.research.worlds import click_rng
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.settings import EntrySpec

pytestmark = pytest.mark.slow

OWN = """
name = "own"
click_models = ["trust(eta=1.0, eps_minus_1=0.65)"]
clicks = [1e3, 1e4]
runs = 2

[[data]]
name = "tiny"
source = "yahoo-like:30"

[[grids]]
estimators = ["full-information", "naive", "affine"]

[[rankers]]
name = "mlp"
hidden = [8]
epochs = 2
"""
# The first draw for a cell's clicks, and for its held-out clicks, in committed runs.
COMMITTED_DRAWS = (0.12298366001521466, 0.6136051564090679)


def own(**changes: str) -> Plan:
    """The plan above, with keys of its grid added."""
    lines = "".join(f"\n{key} = {value}" for key, value in changes.items())
    text = OWN.replace("[[grids]]", f"[[grids]]{lines}")
    if "estimators" in changes:
        text = text.replace(
            '\nestimators = ["full-information", "naive", "affine"]', ""
        )
    return parse_plan(tomllib.loads(text), "own")


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
    assert (plan.runs, plan.production) == (4, "per-data-set")
    for data, share, rate in zip(plan.data, (0.15, 0.33), (0.004, 0.02), strict=True):
        assert (data.validation_share, data.learning_rate) == (share, rate)
        network = plan.ranker_settings("mlp", data, "cpu")
        assert network.hidden == (512, 256, 128)
        assert (network.epochs, network.learning_rate) == (32, rate)
    assert set(plan.click_models) == {
        f"trust(eta={eta}, eps_minus_1={eps})" for eta in (1, 2) for eps in (0.65, 0.35)
    }
    for data in plan.data:
        networks = [g.networks for g in groups_of(plan) if g.data == data.name]
        assert 550 < sum(networks) < 650
        assert max(networks) <= plan.group_networks


def test_a_table_of_a_size_goes_before_the_profile_and_adds_grids() -> None:
    paper, laptop, smoke = (
        shipped_plan("figure4", size) for size in reversed(PROFILES)
    )
    assert [d.source for d in paper.data] == ["yahoo-like:8000", "mslr-like:4000"]
    assert [d.source for d in smoke.data] == ["yahoo-like:100"]  # the profile's
    assert (paper.clicks[0], paper.clicks[-1], len(paper.clicks)) == (1e3, 8e6, 7)
    assert (paper.runs, laptop.runs) == (4, 2)
    assert all(plan.early_stopping for plan in (paper, laptop, smoke))
    real = [shipped_plan("real", size).runs for size in PROFILES]
    assert real == [2, 5, 5]  # the plan's own, but for smoke
    # Grids of a size come besides those of all sizes.
    for size, clicks in zip(PROFILES, [(2e4,), (4e5,), (1e5, 1e6, 8e6)], strict=True):
        first, added = shipped_plan("figure2", size).grids
        assert "softmax" in first.click_model_from
        assert "softmax(fresh=true)" in added.click_model_from
        assert added.clicks == clicks


def test_users_for_new_networks_are_estimated_in_groups_of_their_own() -> None:
    plan = own(
        estimators='["affine", "affine(clip=0.1)"]',
        click_model_from='["softmax", "softmax(fresh=true)", "mixture", "two-level", '
        '"true"]',
    )
    kinds = [
        {(c.estimator[:9], c.click_model_from) for c in g.cells}
        for g in groups_of(plan)
    ]
    both = ("affine", "affine(cl")
    assert sorted(map(sorted, kinds)) == sorted(
        [
            [("affine", "softmax")],
            [("affine(cl", "softmax")],
            [(name, "softmax(fresh=true)") for name in both],
            sorted((name, u) for name in both for u in ("mixture", "two-level")),
            [(name, "true") for name in both],
        ]
    )


def test_groups_of_a_set_with_folds_are_of_one_fold() -> None:
    folds = OWN.replace("[[grids]]", "folds = 5\n[[grids]]").replace("= 2", "= 7")
    plan = parse_plan(tomllib.loads(folds), "own")
    runs = [{cell.run for cell in group.cells} for group in groups_of(plan)]
    assert runs == [{0, 5}, {1, 6}, {2}, {3}, {4}]


def test_a_plan_of_files_takes_the_sets_that_a_folder_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AFFINERANK_DATA", raising=False)
    with pytest.raises(ConfigError, match="give --data, or name it in AFFINERANK_DATA"):
        plan_for("real")
    with pytest.raises(DataError, match="there is none of mq2008, mslr-sample in it"):
        plan_for("real", data=tmp_path)
    (tmp_path / "mq2008").mkdir()
    monkeypatch.setenv("AFFINERANK_DATA", str(tmp_path))
    with pytest.warns(AffineRankWarning, match="mslr-sample is not in it"):
        plan = plan_for("real", relevant_above=1.0)
    assert [(d.name, d.source, d.relevant_above) for d in plan.data] == [
        ("mq2008", "mq2008", 1.0)
    ]
    assert plan.data[0].below(tmp_path).source == str(tmp_path / "mq2008")
    assert {cell.data for cell in cells_of(plan)} == {"mq2008"}
    world = shipped_plan("figure1").data[0]
    assert world.below(tmp_path) == world
    names = [data.name for data in plan_for("field").data]  # worlds, and a set
    assert names == ["yahoo-like", "mslr-like", "mq2008"]


GRID = 'estimators = ["full-information", "naive", "affine"]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs = 2", "runns = 2", "no key 'runns'; did you mean 'runs'?"),
        ("estimators =", "estimator =", "no key 'estimator'; did you mean"),
        ("epochs = 2", "epoch = 2", "mlp: there is no key 'epoch'"),
        ('"mlp"', '"mlpp"', "no ranker 'mlpp'; did you mean 'mlp'?"),
        ('name = "mlp"', "", "rankers[0] must be a name or a table with a name"),
        ("source =", "sauce =", "data[0]: there is no key 'sauce'; did you mean"),
        ("runs = 2", "runs = 'two'", "runs must be a whole number, got 'two'"),
        ("runs = 2", "runs = 0", "runs must be 1 or more, got 0"),
        ("runs = 2", "seed = -1", "seed must be 0 or more, got -1"),
        ("[1e3, 1e4]", "1e3", "clicks must be a list, got 1000.0"),
        ("[1e3, 1e4]", "[1e3, 0]", "clicks must be above 0 and finite"),
        ("[1e3, 1e4]", "[]", "clicks must name one or more"),
        ("[1e3, 1e4]", "'largest'", "clicks[0] must be a number, got 'largest'"),
        (
            "[1e3, 1e4]",
            "[[[1e3]]]",
            "clicks[0] must be a number, got [[1000.0]]",
        ),
        ("[1e3, 1e4]", "[" * 5000, "nested more than 64 deep"),
        ("[1e3, 1e4]", "[nan]", "not TOML: expected finite numbers, got nan"),
        ("[1e3, 1e4]", "[0x" + "f" * 300 + "]", "clicks[0] must be a number"),
        ("runs = 2", "runs = 2147483648", "runs must be 1 to 10000, got 2147483648"),
        ("runs = 2", "runs = " + "9" * 299, "runs must be 1 to 10000, got 999"),
        ("runs = 2", "a" + ".a" * 100_000 + " = 1", "a key has more than 16 parts"),
        (
            "runs = 2",
            "runs = 10000\npolicies = ["
            + ", ".join(f"'fixed(top_k={k})'" for k in range(1, 60))
            + "]",
            "a plan may have 1,000,000 cells at most, got ",
        ),
        ("epochs = 2", "epochs = 1000000000000000000", "epochs must be 1 to 1000000"),
        ("hidden = [8]", "hidden = [1000000000]", "hidden layers must take at most"),
        ('"naive"', '"nave"', "there is no estimator 'nave'; did you mean 'naive'?"),
        ('"naive"', '"naive(clip=1)"', "naive: there is no key 'clip'"),
        ("0.65", "1.65", "trust: eps_minus_1 must be from 0 to 1"),
        ('"trust(', '"thrust(', "no click model 'thrust'; did you mean 'trust'?"),
        ("eta=1.0", "etta=1.0", "trust: there is no key 'etta'; did you mean 'eta'?"),
        ("hidden = [8]", "hidden = [0]", "hidden layers need 1 unit or more"),
        ('name = "own"', "", "the key 'name' is missing"),
        ("epochs = 2", "epochs = 2\nprecision = 'half'", "precision must be float32"),
        ("runs = 2", "figures = ['figure9']", "no figure 'figure9'; did you mean"),
        ("runs = 2", "production = 'per-set'", "no production 'per-set'; did you mean"),
        ("[[grids]]", "folds = 2\n[[grids]]", "folds must be 1, or 3 or more, got 2"),
        ("runs = 2", "runs = 2\nruns = 3", "not TOML"),
        ("runs = 2", "policies = ['fixd']", "no policy 'fixd'; did you mean 'fixed'?"),
        ("runs = 2", "policies = ['swap(share=2)']", "share of sessions must be"),
        ("runs = 2", "policies = ['fixed(top_k=0)']", "top_k must be 1 or more, got 0"),
        ("runs = 2", "policies = []", "policies must name one or more"),
        (
            GRID,
            'estimators = ["ips"]\nclick_model_from = ["softmax"]',
            "grids[0]: ips has to know examination, and users estimated by softmax",
        ),
        (
            GRID,
            'estimators = ["affine"]\nclick_model_from = ["soft-minmax"]',
            "no method 'soft-minmax'; did you mean 'soft-min-max'?",
        ),
        (
            GRID,
            'estimators = ["affine(clip=10/n)"]',
            "clip must be a number or a rule",
        ),
        (
            GRID,
            'estimators = ["affine"]\nclips = ["10/n"]',
            "grids[0]: there is no key 'clips'; did you mean 'clicks'?",
        ),
        (
            GRID,
            'estimators = ["affine"]\ndata = ["tinny"]',
            "no data set 'tinny'; did you mean 'tiny'?",
        ),
        (
            "epochs = 2",
            'epochs = 2\n[[rankers]]\nname = "mlp"',
            "each of rankers needs a name of its own",
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
    assert str(caught.value).startswith(str(path))


def test_an_unknown_plan_or_profile_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'figure1'"):
        shipped_plan("figur1")
    with pytest.raises(ConfigError, match="did you mean 'laptop'"):
        shipped_plan("figure1", "labtop")


def test_what_does_not_depend_on_clicks_is_measured_once_a_run() -> None:
    cells = cells_of(parse_plan(tomllib.loads(OWN), "own"))
    assert len(cells) == len(set(cells)) == 2 + 2 * 2 * 2
    assert [c.run for c in cells if c.estimator == "full-information"] == [0, 1]


def test_what_an_estimator_does_not_need_makes_no_cells_of_its_own() -> None:
    plan = own(
        estimators='["full-information", "naive", "affine", "affine(clip=0.1)"]',
        click_model_from='["true", "mixture"]',
    )
    cells = cells_of(plan)
    assert sum(c.estimator == "naive" for c in cells) == 4
    assert {c.click_model_from for c in cells if c.estimator == "naive"} == {"true"}
    assert {c.click_model_from for c in cells if c.estimator == "full-information"} == {
        None
    }
    for name in ("affine", "affine(clip=0.1)"):
        assert sum(c.estimator == name for c in cells) == 8


def test_every_coordinate_can_be_in_a_plan() -> None:
    plan = own(
        estimators='["production", "full-information", "affine"]',
        policies='["fixed", "fixed(top_k=5)", "swap(share=0.3)"]',
        click_models='["trust", "trust(eta=2)"]',
        rankers='["mlp", "mlp(loss=softmax)", "lightgbm(trees=20)"]',
    )
    cells = cells_of(plan)
    assert len(cells) == 2 + 2 * 3 + 2 * 2 * 2 * 3 * 3
    production = [c for c in cells if c.estimator == "production"]
    assert {
        (c.click_model, c.policy, c.click_model_from, c.ranker) for c in production
    } == {(None, None, None, None)}
    for group in groups_of(plan):
        rankers = {c.ranker for c in group.cells if c.ranker is not None}
        assert rankers == {group.ranker}
    data = plan.data[0]
    assert plan.ranker_settings("mlp(loss=softmax)", data, "cpu").loss == "softmax"
    assert plan.ranker_settings("mlp(loss=softmax)", data, "cpu").hidden == (8,)
    assert plan.ranker_settings("lightgbm(trees=20)", data, "cpu").trees == 20


def test_a_data_sets_learning_rate_is_for_rankers_that_take_it() -> None:
    plan = own()
    data = replace(plan.data[0], learning_rate=0.007)
    assert plan.ranker_settings("mlp", data, "cpu").learning_rate == 0.007
    given = replace(plan, rankers=(EntrySpec("mlp", (("learning_rate", 0.5),)),))
    assert given.ranker_settings("mlp", data, "cpu").learning_rate == 0.5
    own_rate = plan.ranker_settings("lightgbm", data, "cpu").learning_rate
    assert (
        own_rate == type(plan.ranker_settings("lightgbm", data, "cpu"))().learning_rate
    )


def test_a_grid_of_the_most_clicks_takes_the_plans() -> None:
    plan = own(most_clicks="true")
    assert plan.grids[0].clicks == (1e4,)
    assert parse_plan(tomllib.loads(plan.to_toml()), "again") == plan


@pytest.mark.parametrize(
    ("coordinate", "text", "same", "title"),
    [
        ("click_model", "trust", "trust", "η = 1, ε⁻₁ = 0.65"),
        ("click_model", "trust(eps_minus_1=.30)", "trust(eps_minus_1=0.3)", None),
        (
            "click_model",
            "trust(eta=0.12345678)",
            "trust(eta=0.12345678)",
            "η = 0.123457, ε⁻₁ = 0.65",
        ),
        ("policy", "fixed( top_k=5 )", "fixed(top_k=5)", "Fixed ranking, top_k 5"),
        ("policy", "swap(share=0.50)", "swap(share=0.5)", "Adjacent swaps, share 0.5"),
        ("estimator", "affine(clip=none)", "affine", "Affine"),
        ("estimator", "production", "production", "Production"),
        ("click_model_from", "true", "true", "True values"),
        (
            "click_model_from",
            "softmax(fresh=True)",
            "softmax(fresh=true)",
            "Softmax, new networks",
        ),
        ("ranker", "mlp(hidden=64,32, epochs=2)", "mlp(hidden=64,32, epochs=2)", None),
    ],
)
def test_coordinates_are_written_in_one_way(
    coordinate: str, text: str, same: str, title: str | None
) -> None:
    found = canonical(coordinate, text)
    assert found == same
    assert canonical(coordinate, found) == found
    assert title in (None, title_of(coordinate, found))


def test_groups_hold_every_cell_once_and_are_of_one_kind() -> None:
    plan = shipped_plan("all", "paper")
    groups = groups_of(plan)
    cells = [cell for group in groups for cell in group.cells]
    assert sorted(map(repr, cells)) == sorted(map(repr, cells_of(plan)))
    joint = {"soft-min-max", "softmax", "sigmoid"}
    for group in groups:
        assert {cell.data for cell in group.cells} == {group.data}
        click_model_from = {cell.click_model_from for cell in group.cells}
        assert len(click_model_from & joint) <= 1
        assert not click_model_from & joint or len(click_model_from) == 1
        assert len(group.cells) <= plan.group_networks


def test_a_cells_clicks_depend_on_its_coordinates_alone() -> None:
    model = "trust(eta=1, eps_minus_1=0.65)"
    cell = Cell("tiny", model, "fixed", 1e4, "affine", "true", "mlp", 1)
    same = replace(
        cell, estimator="naive", click_model_from="mixture", ranker="lightgbm"
    )

    def drawn(of: Cell, *, held_out: bool = False) -> float:
        return click_rng(of, 0, held_out=held_out).random()

    assert drawn(cell) == drawn(same)
    others = [
        replace(cell, data="other"),
        replace(cell, click_model="trust(eta=2, eps_minus_1=0.65)"),
        replace(cell, click_model="trust(eta=1, eps_minus_1=0.35)"),
        replace(cell, policy="fixed(top_k=5)"),
        replace(cell, policy="swap"),
        replace(cell, clicks=2e4),
        replace(cell, run=0),
    ]
    values = [drawn(cell), drawn(cell, held_out=True), *map(drawn, others)]
    assert len(set(values)) == len(values)


def test_the_papers_clicks_are_those_of_committed_runs() -> None:
    cell = Cell(
        "yahoo-like",
        "trust(eta=1, eps_minus_1=0.65)",
        "fixed",
        2e4,
        "affine",
        "true",
        "mlp",
        1,
    )
    assert click_rng(cell, 0).random() == COMMITTED_DRAWS[0]
    assert click_rng(cell, 0, held_out=True).random() == COMMITTED_DRAWS[1]


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
    assert {c.data for c in cells_of(plan) if c.click_model_from == "softmax"} == {
        "yahoo"
    }


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
