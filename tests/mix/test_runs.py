"""Tables of runs are checked once; errors name the run and the column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.errors import InputError
from cuvee.mix.runs import read_runs
from cuvee.mix.tables import read_table
from mix_builders import mixtures, noisy

ALPHA = mixtures(8, 3)
RATIOS = pd.DataFrame(ALPHA, columns=["a", "b", "c"]).assign(run=[f"r{i}" for i in range(8)])
METRICS = pd.DataFrame(noisy(ALPHA), columns=["x", "y"]).assign(run=[f"r{i}" for i in range(8)])


def changed(frame, row, column, value):
    frame = frame.astype({column: object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("ratios", "metrics", "words"),
    [
        (changed(RATIOS, 2, "a", -0.1), METRICS, "run 'r2' has the share -0.1 of 'a'"),
        (RATIOS.assign(a=0.9), METRICS, "the shares of run 'r0' sum to"),
        (
            RATIOS.assign(**{n: RATIOS[n] * 100 for n in "abc"}),
            METRICS,
            "are these percentages\\? divide them by 100",
        ),
        (changed(RATIOS, 1, "b", "lots"), METRICS, "column 'b' of alpha holds 'lots' for run 'r1'"),
        (RATIOS.assign(run="r1"), METRICS, "alpha has two rows for run 'r1' in column 'run'"),
        (
            RATIOS.drop(columns="run").iloc[:5],
            METRICS.drop(columns="run"),
            "alpha has 5 rows and metrics 8",
        ),
        (
            RATIOS.drop(columns="run"),
            METRICS,
            "metrics names its runs in column 'run', and alpha has no column that does: add it to",
        ),
        (RATIOS, METRICS[["x", "y"]].to_numpy(), "alpha names its runs in column 'run', and met"),
        (RATIOS, METRICS.assign(run=range(8)), "no run is in both tables: alpha names runs such"),
        (RATIOS, METRICS.assign(x=np.nan), "the metric 'x' has 8 gaps: leave it out"),
        (RATIOS, METRICS.assign(x=METRICS.x * 1e300), "'x' of run 'r0' is .*e\\+300, too large"),
    ],
)
def test_what_is_wrong_is_named(ratios, metrics, words):
    with pytest.raises(InputError, match=words):
        read_runs(ratios, metrics)


def test_rounded_ratios_are_scaled_and_that_is_said():
    rounded = RATIOS.copy()
    rounded.loc[4, ["a", "b", "c"]] = 0.333
    runs = read_runs(rounded, METRICS)
    np.testing.assert_allclose(runs.alpha.sum(1), 1)
    [note] = runs.notes
    assert note.startswith("The shares of 1 run sum to 1 only within rounding, such as 0.999 for")
    assert note.endswith("run 'r4': they are scaled.")


def test_runs_of_one_table_alone_are_said():
    runs = read_runs(RATIOS, METRICS.iloc[2:])
    assert len(runs) == 6 and "Runs 'r0', 'r1' of alpha have no row in metrics" in runs.notes[0]


def test_decimal_commas_are_read(tmp_path):
    path = tmp_path / "ratios.csv"
    RATIOS.to_csv(path, sep=";", decimal=",", index=False)
    frame, notes = read_table(path)
    np.testing.assert_allclose(frame[["a", "b", "c"]].to_numpy(), ALPHA)
    assert any("decimal commas" in note for note in notes)


def test_runs_that_can_tell_nothing_are_refused():
    with pytest.raises(InputError, match="the runs have one domain, 'web': a mixture needs at le"):
        cuvee.fit_surface(pd.DataFrame({"web": np.ones(8)}), METRICS[["x", "y"]])
    with pytest.raises(InputError, match="all 8 runs have the same mixture, which tells nothing"):
        cuvee.fit_surface(np.full((8, 3), 1 / 3), METRICS.drop(columns="run"))


def test_two_different_mixtures_are_enough():
    alpha = np.repeat([[1.0, 0.0], [0.5, 0.5]], 4, axis=0)
    surface = cuvee.fit_surface(alpha, noisy(alpha))
    assert np.isfinite(surface.predict(alpha).high).all()
    assert np.isfinite(surface.best().alpha).all()


@pytest.mark.parametrize("name", ["run", "run_id", "index", "scale"])
def test_a_domain_is_not_called_like_a_column_of_all_tables(name):
    runs = read_runs(RATIOS, METRICS)
    with pytest.raises(InputError, match=f"a domain cannot be called '{name}': in tables that"):
        runs.with_domain(name)


def test_columns_that_could_name_runs_are_left_out_and_that_is_said():
    runs = read_runs(RATIOS.assign(run_id=range(8)), METRICS.assign(index=range(8)))
    assert runs.domains == ("a", "b", "c") and runs.names == ("x", "y")
    text = " ".join(runs.notes)
    assert "Column 'run_id' of alpha is left out, as column 'run' names the runs: no dom" in text
    assert "Column 'index' of metrics is left out" in text


@pytest.mark.parametrize(
    ("ratios", "metrics", "words"),
    [
        (RATIOS.rename(columns={"b": "run_id"}), METRICS, "'run_id' was not counted, as no dom"),
        (RATIOS.rename(columns={"b": " "}), METRICS, "column 2 of alpha has no name"),
        (RATIOS, METRICS.rename(columns={"x": "Unnamed: 0"}), "column 1 of metrics has no name"),
    ],
)
def test_columns_do_not_silently_become_domains_or_metrics(ratios, metrics, words):
    with pytest.raises(InputError, match=words):
        read_runs(ratios, metrics)


def test_a_plan_that_was_run_is_a_table_of_ratios(tmp_path):
    plan = cuvee.first_runs(["web", "reason"], 6).to_frame()
    plan.to_csv(tmp_path / "plan.csv", index=False)
    frame, notes = read_table(tmp_path / "plan.csv")
    runs = read_runs(frame, pd.DataFrame({"run": plan.run, "loss": range(6)}))
    assert runs.domains == ("web", "reason") and runs.labels[:2] == ("first 1", "first 2")
    assert notes == () and runs.notes == ()


def test_next_runs_are_numbered_past_those_that_are_known():
    metrics = METRICS.assign(run=[*METRICS.run[:6], "next 3", "next 12"])
    surface = cuvee.fit_surface(RATIOS.assign(run=metrics.run), metrics, candidates=["law"])
    assert list(surface.next_runs(2).to_frame().run) == ["next 13", "next 14"]


def test_runs_that_are_there_already_are_refused_and_nameless_ones_are_new():
    surface = cuvee.fit_surface(RATIOS, METRICS, candidates=["law"])
    with pytest.raises(InputError, match="has a run 'r0' already \\(2 such runs\\): give those"):
        surface.with_runs(RATIOS.iloc[:2], METRICS.iloc[:2])
    more = surface.with_runs(ALPHA[:2], noisy(ALPHA)[:2])
    assert more.runs.labels[-2:] == ("run 9", "run 10")


def test_a_file_with_two_columns_of_one_name_is_refused_in_words(tmp_path):
    (tmp_path / "r.csv").write_text("run,web,web\na,0.5,0.5\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"r\.csv has two columns named 'web': keep one, or ren"):
        read_table(tmp_path / "r.csv")


@pytest.mark.parametrize(
    ("n", "words"),
    [(1, "there is 1 run in both tables, and at least 4 are"), (3, "there are 3 runs in both")],
)
def test_too_few_runs_are_no_fault_of_a_metric(n, words):
    with pytest.raises(InputError, match=words):
        read_runs(RATIOS.iloc[:n], METRICS.iloc[:n])


def test_a_missing_share_is_no_run_that_failed():
    runs = read_runs(changed(RATIOS, 2, "a", np.nan), changed(METRICS, 4, "x", np.nan))
    assert runs.notes == (
        "Run 'r2' has no share of 'a' and is left out.",
        "Run 'r4' has no value of 'x' and is left out.",
    )
    runs = read_runs(RATIOS, changed(changed(METRICS, 4, "x", np.nan), 5, "x", np.nan))
    assert runs.notes == (
        "Runs 'r4', 'r5' have no value of some metric and are left out; 'r4' has none of 'x'.",
    )


def test_numbers_of_tokens_are_recognised():
    counts = RATIOS.assign(**{name: RATIOS[name] * 1e9 for name in "abc"})
    with pytest.raises(InputError, match=r"numbers of tokens\? divide each row by its sum"):
        read_runs(counts, METRICS)


def test_text_in_a_metric_cannot_be_declared(tmp_path):
    changed(METRICS, 2, "x", "diverged").to_csv(tmp_path / "m.csv", index=False)
    with pytest.raises(InputError, match="leave it empty, or leave the column out") as error:
        read_table(tmp_path / "m.csv")
    assert "--text" not in str(error.value)
