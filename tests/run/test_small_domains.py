"""Domains with too few labels, classes that no source has, and domains to leave out: noted, and the
run goes on.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from cuvee.data.prepare import prepare
from cuvee.data.roles import SMALL
from cuvee.errors import InputError
from cuvee.run import adapt, open_run, resume
from cuvee.run.folder import PREPARED
from run_builders import options, table

BASE = table(4, 12)


def with_huts(n=3, label="cost", frame=BASE):
    """The table with n domains of one labelled row, the first rows of site 3."""
    rows = np.flatnonzero(frame.site == "site 3")[:n]
    names = dict(zip(rows.tolist(), (f"hut {i}" for i in range(n)), strict=True))
    return frame.assign(site=[names.get(i, site) for i, site in enumerate(frame.site)])


def first_group(of):
    return of.group(of.members[0])


def prepared(frame, tmp_path, **asked):
    return prepare(frame, options(**asked), tmp_path / "scratch")


@pytest.mark.parametrize("stream", [False, True])
def test_small_sources_are_one_source(tmp_path, stream):
    frame = with_huts()
    frame.to_csv(tmp_path / "huts.csv", index=False)
    run = adapt(
        tmp_path / "huts.csv", tmp_path / "run", options=options(targets="site 0", stream=stream)
    )
    note = (
        "3 domains ('hut 0', 'hut 1', 'hut 2') have fewer than 2 labelled rows: they are pooled "
        "into one source, "
    )
    assert f"{note}'{SMALL}'" in run.notes
    assert run.columns == ("site 1", "site 2", "site 3", SMALL, "(own sample)")
    said = json.loads((run.path / PREPARED).read_bytes())
    assert said["sources"][-1] == {"name": SMALL, "rows": 3} and said["pooled"] == [
        "hut 0",
        "hut 1",
        "hut 2",
    ]
    assert (
        SMALL in (run.path / "report.html").read_text()
        and "pooled into one source" in run.report().read_text()
    )
    pooled = frame.assign(site=np.where(frame.site.str.startswith("hut"), "huts", frame.site))
    # in the same order
    pooled = pd.concat([pooled[pooled.site != "huts"], pooled[pooled.site == "huts"]])
    pooled.to_csv(tmp_path / "pooled.csv", index=False)
    same = adapt(
        tmp_path / "pooled.csv", tmp_path / "same", options=options(targets="site 0", stream=stream)
    )
    np.testing.assert_allclose(run.w, same.w, atol=1e-9)
    with pytest.raises(
        InputError, match="row 0 is of domain 'hut 0', which is not a target of these models"
    ):
        run.predict(frame[frame.site == "hut 0"])


def test_small_sources_that_cannot_be_pooled_are_left_out(tmp_path):
    one = prepared(with_huts(1), tmp_path, targets="site 0")
    assert one.sources == ("site 1", "site 2", "site 3") and not one.pooled
    assert "domain 'hut 0' has fewer than 2 labelled rows: it is left out" in one.notes
    taken = with_huts().replace({"site": {"site 2": SMALL}})
    kept = prepared(taken, tmp_path, targets="site 0")
    assert kept.sources == ("site 1", SMALL, "site 3") and kept.sizes[SMALL] == 12
    assert any("rename it to have them pooled" in note for note in kept.notes)
    bare = BASE.assign(cost=BASE.cost.where(BASE.site != "site 3"))
    assert (
        "domain 'site 3' has no labelled row: it is not a source"
        in prepared(bare, tmp_path, targets="site 0").notes
    )


@pytest.mark.parametrize("label", ["cost", "sick"])
def test_every_domain_in_turn_passes_over_those_with_too_few_labels(tmp_path, label):
    frame = with_huts(8)  # leaves 4 rows to site 3
    run = adapt(frame, tmp_path / "run", options=options(label, targets="each"))
    assert run.targets == ("site 0", "site 1", "site 2")
    assert run.columns == ("site 0", "site 1", "site 2", "site 3", SMALL, "(own sample)")
    assert any("9 domains ('hut 0'" in note and "they get no model" in note for note in run.notes)
    assert "3 of them in turn targets of the others" in run.summary()
    assert np.isfinite(run.alpha[0, 1:]).all() and np.isnan(run.alpha[0, 0])


def test_a_pool_has_no_say_in_levels(tmp_path):
    """Rows of many domains lie at many levels: taking them for noise would hide the levels of all
    others.
    """
    rng = np.random.default_rng(0)
    site = np.repeat([f"site {i}" for i in range(8)], 12)
    huts = np.array([f"hut {i}" for i in range(40)])
    names = np.concatenate([site, huts])
    level = {name: 20.0 * rng.normal() for name in dict.fromkeys(names)}
    age = rng.normal(size=len(names))
    cost = age + np.array([level[n] for n in names]) + rng.normal(size=len(names))
    frame = pd.DataFrame({"age": age, "site": names, "cost": cost, "sick": "no"})
    asked = {"targets": "site 0", "levels": True}
    offset = first_group(prepared(frame, tmp_path, **asked)).offset
    alone = first_group(prepared(frame[:96], tmp_path, **asked)).offset
    np.testing.assert_allclose(offset, alone, atol=0.05)
    rows = first_group(prepared(frame, tmp_path, **asked)).problem.sources[-1]
    assert rows.name == SMALL and rows.y.std() > 10.0  # each still lies at its own level


def test_rows_of_classes_that_no_source_has_are_left_out(tmp_path):
    frame = BASE.assign(sick=np.where(BASE.index == 3, "maybe", BASE.sick))
    run = adapt(frame, tmp_path / "run", options=options("sick", targets="site 0,site 1"))
    assert (
        "target 'site 0' has 1 row of class 'maybe' (first at row 3), which no source has: left out"
        in run.notes
    )
    same = adapt(
        frame.drop(index=3), tmp_path / "same", options=options("sick", targets="site 0,site 1")
    )
    np.testing.assert_allclose(run.w, same.w, atol=1e-9)
    assert run.predict(frame, target="site 0").columns.tolist() == ["prediction", "p(no)", "p(yes)"]


def test_in_turn_every_target_has_the_classes_of_its_own_sources(tmp_path):
    # site 0 alone knows "maybe"
    frame = BASE.assign(sick=np.where(BASE.index < 4, "maybe", BASE.sick))
    run = adapt(frame, tmp_path / "run", options=options("sick", targets="each"))
    assert run.targets == tuple(f"site {i}" for i in range(4))
    assert any("4 rows of class 'maybe'" in note for note in run.notes)
    said = open_run(tmp_path / "run").predict(frame)
    chances = said[["p(maybe)", "p(no)", "p(yes)"]].to_numpy()
    np.testing.assert_allclose(chances.sum(1), 1.0)
    ours = (frame.site == "site 0").to_numpy()
    assert (chances[ours, 0] == 0.0).all() and (chances[~ours, 0] > 0.0).all()
    assert (said.prediction[ours] != "maybe").all()


def test_targets_that_nobody_can_teach_get_no_model(tmp_path):
    # site 0 alone has both classes
    alone = BASE.assign(sick=np.where(BASE.site == "site 0", BASE.sick, "no"))
    run = adapt(alone, tmp_path / "run", options=options("sick", targets="each"))
    assert run.targets == ("site 1", "site 2", "site 3")
    assert "target 'site 0' gets no model: every row of its sources is of class 'no'" in run.notes
    strange = BASE.assign(sick=np.where(BASE.index < 9, "maybe", BASE.sick))
    run = adapt(strange, tmp_path / "other", options=options("sick", targets="site 0,site 1"))
    assert run.targets == ("site 1",)
    with pytest.raises(
        InputError, match="no target is left: target 'site 0' has 9 rows of class 'maybe'"
    ):
        adapt(strange, tmp_path / "none", options=options("sick", targets="site 0"))


@pytest.mark.parametrize("stream", [False, True])
def test_excluded_domains_are_as_good_as_absent(tmp_path, stream):
    # a category that nobody else has
    odd = BASE.assign(sex=np.where(BASE.site == "site 2", "unheard of", BASE.sex))
    odd.to_csv(tmp_path / "odd.csv", index=False)
    asked = options(targets="site 0", exclude=("site 2",), stream=stream)
    run = adapt(tmp_path / "odd.csv", tmp_path / "run", options=asked)
    BASE[BASE.site != "site 2"].to_csv(tmp_path / "fewer.csv", index=False)
    same = adapt(
        tmp_path / "fewer.csv", tmp_path / "same", options=options(targets="site 0", stream=stream)
    )
    assert run.columns == ("site 1", "site 3", "(own sample)")
    np.testing.assert_allclose(run.w, same.w, atol=1e-9)
    in_turn = prepared(BASE, tmp_path, targets="each", exclude=("site 2",))
    assert in_turn.targets == ("site 0", "site 1", "site 3")


def test_a_cut_run_with_small_sources_goes_on(tmp_path):
    class Cut(Exception):
        pass

    def stop(what, done, total):
        if what == "solving models":
            raise Cut

    frame, asked = with_huts(), options(targets="site 0,site 1", exclude=("site 2",))
    with pytest.raises(Cut):
        adapt(frame, tmp_path / "run", options=asked, progress=stop)
    run = resume(tmp_path / "run", source=frame)
    whole = adapt(frame, tmp_path / "whole", options=asked)
    assert run.finished and run.columns == whole.columns
    np.testing.assert_array_equal(run.w, whole.w)
