"""An α with names goes by its names through every public door, or is refused with both lists of
names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import cuvee
from builders import make_problem
from cuvee import OWN, Domain, Logistic, MixtureError, OptionError, Problem, Ridge, simplex
from cuvee.inputs.alpha import ordered_alpha
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_builders import rewritten

RIDGE = Ridge(0.1)
PROBLEM = make_problem((9, 12, 8), (6, 7, 5))
SOURCES = tuple(s.name for s in PROBLEM.sources)
TARGETS = tuple(t.name for t in PROBLEM.targets)
WIDE = simplex.sample(3, 4, seed=3)  # a row per target, the own sample last
NARROW = simplex.sample(3, 3, seed=4)
# not the minimisers, so that certificates have something to say
W = cuvee.solve(PROBLEM, RIDGE, WIDE).w + 0.1

ATLAS = cuvee.learn(PROBLEM, RIDGE, n_labels=16, n_calibration=64, tol=1e-6)
ONLINE = cuvee.OnlineMap(PROBLEM, RIDGE, label_budget=1.0)
for mixture in simplex.sample(8, 3, seed=5):
    ONLINE.learn_one(mixture)


def columns_of(alpha):
    return (*SOURCES, OWN)[: alpha.shape[1]]


def mixtures(alpha, columns=None, targets=TARGETS):
    """As `cuvee.estimate` would return it."""
    unknown = np.full(len(alpha), np.nan)
    status = (cuvee.Status.CLOSED_FORM,) * len(alpha)
    return cuvee.Mixtures(
        alpha, columns or columns_of(alpha), tuple(targets), unknown, status, "given", unknown
    )


def frame(alpha, columns=None, targets=TARGETS):
    """Targets in the index."""
    return pd.DataFrame(alpha, index=list(targets), columns=list(columns or columns_of(alpha)))


def with_a_column(alpha, columns=None, targets=TARGETS):
    return frame(alpha, columns, targets).rename_axis("target").reset_index()


def in_arrow(table):
    return pa.Table.from_arrays(
        [pa.array(table.iloc[:, j]) for j in range(table.shape[1])], list(table.columns)
    )


class Columns:
    """A table that holds its columns by name and has no index, as polars' do."""

    def __init__(self, table):
        self.table, self.columns = table, list(table.columns)

    def __len__(self):
        return len(self.table)

    def __getitem__(self, name):
        return self.table[name].to_numpy()


FORMS = {
    "Mixtures": mixtures,
    "frame with an index": frame,
    "frame with a column": with_a_column,
    "Arrow table": lambda *given: in_arrow(with_a_column(*given)),
    "columns by name": lambda *given: Columns(with_a_column(*given)),
    "list of rows": lambda *given: [row for _, row in frame(*given).iterrows()],
}

WITH_TARGETS = {  # what each door answers for rows that are the problem's targets
    "solve": lambda alpha: cuvee.solve(PROBLEM, RIDGE, alpha).w,
    "certify": lambda alpha: cuvee.certify(PROBLEM, RIDGE, alpha, W).distance,
    "sensitivity": lambda alpha: cuvee.sensitivity(PROBLEM, RIDGE, alpha, W),
}
ROW_BY_ROW = {  # what each door answers row by row, in the order of the rows
    "solve sources": lambda alpha: cuvee.solve(PROBLEM.sources, RIDGE, alpha).w,
    "a learnt map": lambda alpha: ATLAS(alpha).w,
    "an online map": lambda alpha: ONLINE(alpha).w,
    "predict of an online map": lambda alpha: ONLINE.predict(alpha),
}


@st.composite
def turned(draw, alpha):
    """The same named weights with columns and rows in any order: (form, α, order of the rows)."""
    columns, rows = (draw(st.permutations(range(n))) for n in reversed(alpha.shape))
    form = FORMS[draw(st.sampled_from(list(FORMS)))]
    names = columns_of(alpha)
    return form(
        alpha[rows][:, columns], [names[j] for j in columns], [TARGETS[i] for i in rows]
    ), rows


@pytest.mark.parametrize("alpha", [WIDE, NARROW], ids=["own", "sources"])
@pytest.mark.parametrize("door", WITH_TARGETS)
def test_any_order_of_names_is_the_same_alpha(door, alpha):
    wanted = WITH_TARGETS[door](alpha)

    @settings(max_examples=20, deadline=None)
    @given(turned(alpha))
    def check(case):
        np.testing.assert_allclose(WITH_TARGETS[door](case[0]), wanted, rtol=1e-9, atol=1e-12)

    check()


@pytest.mark.parametrize("door", ROW_BY_ROW)
def test_any_order_of_columns_is_the_same_alpha(door):
    """These rows belong to no target of the problem: they are answered as they come."""
    wanted = ROW_BY_ROW[door](NARROW)

    @settings(max_examples=20, deadline=None)
    @given(turned(NARROW))
    def check(case):
        np.testing.assert_allclose(ROW_BY_ROW[door](case[0]), wanted[case[1]], rtol=1e-6, atol=1e-8)

    check()


@settings(max_examples=20, deadline=None)
@given(turned(WIDE))
def test_a_map_gives_own_samples_to_the_targets_that_rows_name(case):
    wanted = cuvee.solve(PROBLEM, RIDGE, WIDE).w
    np.testing.assert_allclose(ATLAS(case[0]).w, wanted, atol=1e-5)
    backwards = ATLAS(case[0], targets=PROBLEM.targets[::-1])
    np.testing.assert_allclose(backwards.w, wanted[::-1], atol=1e-5)


def test_the_problem_of_a_new_user():
    """Weights made for sources [a, b, c], used with the same sources in another order."""
    rng = np.random.default_rng(0)

    def domain(name, slope, rows=80):
        X = rng.normal(size=(rows, 3))
        return Domain(name, X, (X @ slope > 0).astype(int))

    a, b, c = domain("a", [9, 0, 0]), domain("b", [0, 9, 0]), domain("c", [-9, 0, 0])
    t, later = domain("t", [9, 0, 0], 20), domain("later", [9, 0, 0], 500)
    mix = cuvee.estimate(Problem([a, b, c], [t]), Logistic(1e-3), method="agp")
    assert mix.top("t", 1)[0][0] == "a"
    for sources in ([a, b, c], [c, b, a]):
        sol = cuvee.solve(Problem(sources, [t]), Logistic(1e-3), mix)
        assert (sol.predict(later.X)[0] == later.y).mean() > 0.8  # by position it is 0.2
    own = replace(mix, alpha=np.array([[0.5, 0.0, 0.0, 0.5]]), columns=(*mix.columns, OWN))
    with pytest.raises(MixtureError, match=r"the sources are 'a', 'b', 'x'\. Give every source"):
        cuvee.solve(Problem([a, b, replace(c, name="x")], [t]), Logistic(1e-3), own)
    with pytest.raises(
        MixtureError, match=r"'c'.*its columns are 'a', 'b', 'c'; the sources are 'a', 'b', 'x'"
    ):
        cuvee.solve(Problem([a, b, replace(c, name="x")], [t]), Logistic(1e-3), mix)


BAD_NAMES = {
    "another source": (
        (*SOURCES[:2], "x"),
        TARGETS,
        "no column for source 's2'.*'x'.*columns are 's0', 's1', 'x'",
    ),
    "a source too many": (
        (*SOURCES, "x"),
        TARGETS,
        "a column 'x' that is not a source.*sources are 's0', 's1', 's2'",
    ),
    "a source too few": (SOURCES[:2], TARGETS, "no column for source 's2'.*weight 0"),
    "a source twice": (("s0", "s1", "s1"), TARGETS, "two columns for source 's1'"),
}


@pytest.mark.parametrize("case", BAD_NAMES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", [*WITH_TARGETS, *ROW_BY_ROW])
def test_names_of_other_sources_are_refused(door, form, case):
    columns, targets, sentence = BAD_NAMES[case]
    alpha = FORMS[form](simplex.sample(3, len(columns)), columns, targets)
    with pytest.raises(MixtureError, match=sentence):
        (WITH_TARGETS | ROW_BY_ROW)[door](alpha)


@pytest.mark.parametrize("alpha", [WIDE, NARROW], ids=["own", "sources"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", WITH_TARGETS)
def test_names_of_other_targets_are_refused(door, form, alpha):
    for targets, sentence in {
        (
            "t0",
            "t1",
            "u",
        ): "no row for target 't2'.*rows are 't0', 't1', 'u'; the targets are 't0', 't1', 't2'",
        ("t0", "t1", "t1"): "two rows for target 't1'",
    }.items():
        with pytest.raises(MixtureError, match=sentence):
            WITH_TARGETS[door](FORMS[form](alpha, None, targets))
    with pytest.raises(MixtureError, match="no row for target 't2'"):
        WITH_TARGETS[door](FORMS[form](alpha[:2], None, TARGETS[:2]))


def test_rows_of_others_are_answered_as_they_come():
    """Names that say nothing of the problem's targets, where no own sample is weighed."""
    wanted = cuvee.solve(PROBLEM, RIDGE, NARROW).w
    customers = ["c7", "c3", "c5"]
    np.testing.assert_allclose(
        cuvee.solve(PROBLEM, RIDGE, frame(NARROW, None, customers)).w, wanted
    )
    np.testing.assert_allclose(
        cuvee.solve(PROBLEM.sources, RIDGE, mixtures(NARROW, None, customers)).w, wanted
    )
    np.testing.assert_allclose(ATLAS(mixtures(NARROW, None, customers)).w, wanted, atol=1e-5)
    # whose rows would these own samples be?
    with pytest.raises(MixtureError, match="rows are 'c7', 'c3', 'c5'"):
        cuvee.solve(PROBLEM, RIDGE, frame(WIDE, None, customers))
    with pytest.raises(MixtureError, match="rows are 'c7', 'c3', 'c5'"):
        ATLAS(frame(WIDE, None, customers))


def test_long_lists_of_names_are_shortened():
    many = [f"site {i}" for i in range(300)]
    with pytest.raises(MixtureError) as caught:
        ordered_alpha(pd.DataFrame(np.eye(300), columns=[*many[:-1], "x"]), many)
    said = str(caught.value)
    assert "'site 299'" in said and "'x'" in said and "… and 292 more" in said and len(said) < 600


# ---- positions -----------------------------------------------------------------------------------


def test_what_has_no_names_goes_by_position():
    wanted = cuvee.solve(PROBLEM, RIDGE, WIDE).w
    plain = pd.DataFrame(WIDE)
    # rows 0, 2 and 4 of another frame: numbers, and no names
    filtered = pd.DataFrame(np.repeat(WIDE, 2, 0))[::2]
    for alpha in (WIDE, WIDE.tolist(), plain, filtered, plain.set_axis(columns_of(WIDE), axis=1)):
        np.testing.assert_array_equal(cuvee.solve(PROBLEM, RIDGE, alpha).w, wanted)
    by_target = plain.assign(target=TARGETS)[::-1]  # rows by name, columns by position
    np.testing.assert_array_equal(cuvee.solve(PROBLEM, RIDGE, by_target).w, wanted)


def test_sources_that_are_numbers():
    sources = ["7", "3", "12"]
    table = pd.DataFrame([[0.1, 0.2, 0.7]], columns=[3, 7, 12])  # as `pivot` leaves them
    np.testing.assert_array_equal(ordered_alpha(table, sources), [[0.2, 0.1, 0.7]])
    rows = pd.DataFrame(np.eye(3)[:2], columns=[3, 7, 12], index=[9, 4])
    np.testing.assert_array_equal(ordered_alpha(rows, sources, ["4", "9"]), [[1, 0, 0], [0, 1, 0]])
    numbered = pd.DataFrame([[0.1, 0.2, 0.7]])
    np.testing.assert_array_equal(ordered_alpha(numbered, ["0", "1", "2"]), numbered)
    with pytest.raises(MixtureError, match=r"columns are numbered 0, 1, 2.*'2', '0', '1'.*text"):
        ordered_alpha(numbered, ["2", "0", "1"])
    with pytest.raises(MixtureError, match=r"rows are numbered 0, 1.*'1', '0'"):
        ordered_alpha(pd.concat([numbered] * 2, ignore_index=True), ["a", "b", "c"], ["1", "0"])


def test_a_source_named_target_is_a_source():
    table = pd.DataFrame([[0.3, 0.7]], columns=["target", "a"])
    np.testing.assert_array_equal(ordered_alpha(table, ["a", "target"], ["t"]), [[0.7, 0.3]])


def test_own_samples_where_they_have_no_place():
    for call in (lambda alpha: cuvee.solve(PROBLEM.sources, RIDGE, alpha), ONLINE, ONLINE.predict):
        for form in ("Mixtures", "frame with an index"):
            with pytest.raises(MixtureError, match=r"'\(own sample\)'.*leave it out"):
                call(FORMS[form](WIDE))


def test_wrong_weights_with_right_names_are_still_refused():
    for form in FORMS:
        # the row as it was given, not as it is matched
        for targets in (TARGETS, TARGETS[::-1], ("t1", "t2", "t0")):
            with pytest.raises(MixtureError, match="row 1 of alpha does not sum to 1"):
                cuvee.solve(
                    PROBLEM, RIDGE, FORMS[form](NARROW * [[1.0], [1.1], [1.0]], None, targets)
                )
    with pytest.raises(MixtureError, match="numeric"):
        cuvee.solve(PROBLEM, RIDGE, frame(NARROW).astype(object).replace(NARROW[0, 0], "much"))
    absent = frame(NARROW).astype(object).where(NARROW.max() > NARROW, pd.NA)
    with pytest.raises(MixtureError, match="numeric"):
        cuvee.solve(PROBLEM, RIDGE, absent)
    assert cuvee.solve(PROBLEM, RIDGE, frame(NARROW)[:0].set_axis([], axis=0)).w.shape[0] == 0


# ---- one at a time, samples ----------------------------------------------------------------------


def test_rounds_of_an_online_map_go_by_name():
    one, other = (cuvee.OnlineMap(PROBLEM, RIDGE, label_budget=0.5) for _ in range(2))
    for alpha in simplex.sample(12, 3, seed=6):
        row = pd.Series(alpha, index=SOURCES)[["s2", "s0", "s1"]]
        np.testing.assert_array_equal(other.predict_one(row), one.predict_one(alpha))
        assert other.wants_label(row) == one.wants_label(alpha)
        np.testing.assert_array_equal(other.learn_one(row).w, one.learn_one(alpha).w)
    assert str(one.ledger) == str(other.ledger) and one.ledger.rounds == 12
    with pytest.raises(
        MixtureError, match=r"no column for source 's2'.*columns are 's0', 's1', 'x'"
    ):
        one.predict_one(pd.Series(NARROW[0], index=["s0", "s1", "x"]))


def test_streams_go_by_name(tmp_path):
    alphas = simplex.sample(20, 3, seed=7)
    backwards = pd.DataFrame(alphas, columns=SOURCES)[["s2", "s1", "s0"]]
    streams = {
        "frame": backwards,
        "with targets": backwards.assign(target=[f"c{i}" for i in range(20)]),
        "rows": [row for _, row in backwards.iterrows()],
        "Mixtures": mixtures(backwards.to_numpy(), tuple(backwards), [f"c{i}" for i in range(20)]),
    }
    plain = cuvee.OnlineMap(PROBLEM, RIDGE)
    cuvee.run_online(alphas, plain, progress=False)
    for name, stream in streams.items():
        online = cuvee.OnlineMap(PROBLEM, RIDGE)
        ledger = cuvee.run_online(stream, online, progress=False, checkpoint=tmp_path / name)
        assert ledger.rounds == 20 and ledger.notes == ()
        np.testing.assert_array_equal(online.predict(NARROW), plain.predict(NARROW))
    with pytest.raises(MixtureError, match="no column for source 's0'"):
        cuvee.run_online(backwards.rename(columns={"s0": "x"}), plain, progress=False)
    one_bad = backwards.copy()
    one_bad.iloc[3, 0] = np.nan
    ledger = cuvee.run_online(one_bad, cuvee.OnlineMap(PROBLEM, RIDGE), progress=False)
    assert ledger.rounds == 19 and "item 4 was passed over" in ledger.notes[0]


def test_an_online_map_without_its_data_knows_its_sources(tmp_path):
    ONLINE.save(tmp_path / "map")
    named = frame(NARROW)[["s1", "s2", "s0"]]
    alone = cuvee.OnlineMap.load(tmp_path / "map")
    assert alone.sources == SOURCES == ONLINE.sources
    np.testing.assert_array_equal(alone.predict(named), ONLINE.predict(NARROW))
    alone.save(tmp_path / "again")
    np.testing.assert_array_equal(
        cuvee.OnlineMap.load(tmp_path / "again").predict(named), ONLINE.predict(NARROW)
    )
    with pytest.raises(MixtureError, match="no column for source 's0'"):
        alone.predict(named.rename(columns={"s0": "x"}))
    # A file of an earlier version has no names: it goes by position, as it always did.
    old = cuvee.OnlineMap.load(
        rewritten(tmp_path / "map", lambda header, tensors: header.pop("sources"))
    )
    assert old.sources == ()
    np.testing.assert_array_equal(
        old.predict(frame(NARROW, ["x", "y", "z"])), ONLINE.predict(NARROW)
    )
    bound = cuvee.OnlineMap.load(tmp_path / "changed", PROBLEM, RIDGE)
    np.testing.assert_array_equal(bound.predict(named), ONLINE.predict(NARROW))


def test_a_saved_map_knows_its_sources(tmp_path):
    ATLAS.save(tmp_path / "map")
    atlas = cuvee.load_map(tmp_path / "map", PROBLEM, RIDGE)
    np.testing.assert_array_equal(atlas(frame(NARROW)[["s1", "s2", "s0"]]).w, ATLAS(NARROW).w)


def test_samples_to_learn_from_go_by_name():
    sample = simplex.sample(60, 3, seed=8)
    names = [f"c{i}" for i in range(60)]
    wanted = cuvee.learn(PROBLEM.sources, RIDGE, mixtures=sample).labels.alpha
    backwards = pd.DataFrame(sample, columns=SOURCES, index=names)[["s2", "s1", "s0"]]
    half = backwards / 2
    for form in (
        backwards,
        mixtures(backwards.to_numpy(), tuple(backwards), names),
        pd.concat([half, half.sum(axis=1).rename(OWN)], axis=1).rename_axis("target").reset_index(),
    ):
        found = cuvee.learn(PROBLEM.sources, RIDGE, mixtures=form).labels.alpha
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    other = backwards.rename(columns={"s0": "x"})
    with pytest.raises(MixtureError, match="no column for source 's0'"):
        cuvee.learn(PROBLEM.sources, RIDGE, mixtures=other)
    with pytest.raises(MixtureError, match="no column for source 's0'"):
        cuvee.plan(PROBLEM.sources, RIDGE, n_targets=10, mixtures=other)


def test_an_answer_had_elsewhere_goes_by_name():
    answers = []
    for answer in (WIDE[0], frame(WIDE).loc["t0", [OWN, "s2", "s0", "s1"]]):
        mixer = cuvee.OnlineMixtures(PROBLEM.sources, RIDGE)
        answers.append(mixer.learn_one(PROBLEM.targets[0], alpha=answer))
    np.testing.assert_array_equal(*answers)
    with pytest.raises(MixtureError, match="no column for source 's2'"):
        mixer.learn_one(PROBLEM.targets[1], alpha=frame(WIDE, ["s0", "s1", "x", OWN]).loc["t1"])


def test_streams_of_targets_have_no_names_of_sources():
    with pytest.warns(cuvee.CuveeWarning, match="not one item"):
        cuvee.run_online(
            frame(NARROW), cuvee.OnlineMixtures(PROBLEM.sources, RIDGE), progress=False
        )
    with pytest.raises(OptionError, match="stream"):
        cuvee.run_online({"s0": 1.0}, ONLINE, progress=False)


def test_tensors_of_every_float_are_weights_and_models():
    for dtype in (torch.bfloat16, torch.float16):
        alpha = torch.tensor([[0.5, 0.25, 0.25]], dtype=dtype)
        solution = cuvee.solve(PROBLEM.sources, RIDGE, alpha)
        w = torch.as_tensor(solution.w).to(dtype)
        assert cuvee.certify(PROBLEM.sources, RIDGE, alpha, w).certified.all()
