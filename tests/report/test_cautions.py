"""Every rule by itself: it speaks where it should, names who, and is silent where there is nothing
to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy import stats

from cuvee.data.metrics import ACCURACY, RMSE
from cuvee.names import AlphaMethod
from cuvee.report import cautions as rules
from cuvee.report.cautions import worries
from cuvee.report.scoring import scores
from cuvee.report.summary import summary
from cuvee.run.judge import Judged
from cuvee.run.scores import METHODS, chance
from cuvee.run.scores import metrics as scores_of
from report_builders import findings, nothing_known, rescored, with_constant


def calm(M=12, N=4):
    """Findings that give no reason to worry."""
    f = findings(M, N)
    alpha = np.full((M, N + 1), 1.0 / (N + 1))
    scores = f.scores.copy()
    scores[:, 0] = scores[:, 1:].max(1) + 0.01
    return rescored(replace(f, alpha=alpha), scores)


def with_row(values, i, row):
    values = np.array(values, dtype=float)
    values[i] = row
    return values


def test_nothing_to_worry_about():
    assert worries(calm()) == []


def test_models_that_were_not_solved():
    f = calm(3)
    assert list(rules.unsolved(f)) == []
    (said,) = rules.unsolved(replace(f, model_status=("solved", "ill-conditioned", "solved")))
    assert said.startswith("Target target 2 got a model that is not solved (ill-conditioned)")
    (said,) = rules.unsolved(
        replace(f, model_status=("absent class", "from the future", "iteration limit"))
    )
    assert "3 targets (target 1, target 2 and target 3)" in said and "from the future" in said


def test_mixtures_that_did_not_settle():
    f = calm(3)
    averaged = replace(f, alpha_status=("converged", "step limit", "converged"))
    # an average by cross-validated loss, and no option to act on it
    assert list(rules.unmixed(averaged)) == []
    (said,) = rules.unmixed(replace(averaged, tried=(None,) * 3))
    assert said.startswith("The weights of target 2 had not settled") and "step limit" in said
    (said,) = rules.unmixed(replace(f, alpha_status=("converged", "diverged", "converged")))
    assert said.startswith("The weights of target 2 had not settled") and "diverged" in said
    missing = replace(
        f, alpha=with_row(f.alpha, 1, np.nan), alpha_status=("converged", "diverged", "closed form")
    )
    (said,) = rules.unmixed(missing)
    assert said.startswith("Target target 2 got no mixture at all")


def test_scores_that_rest_on_few_rows():
    f = calm(3)
    assert list(rules.few_tests(f)) == []
    assert list(rules.few_tests(replace(f, tested={"no": 90, "yes": 5}))) == []
    few = replace(f, test_rows=np.array([8.0, 8, 8]), tested={"no": 21, "yes": 3}, about={})
    (said,) = rules.few_tests(few)
    assert said == (
        "The scores rest on 24 test rows of 3 targets, with 3 of class 'yes' among them: they can "
        "be far from the truth. Label more rows, or keep more of them for scores with --test."
    )
    assert worries(few)[0] == said
    many = replace(f, test_rows=np.array([50.0, 0, 50]), tested={"no": 98, "yes": 2})
    (said,) = rules.few_tests(many)
    assert "100 test rows of 2 targets, with 2 of class 'yes'" in said
    (said,) = rules.few_tests(replace(few, tested={}))  # a quantity
    assert "24 test rows of 3 targets: they" in said
    (said,) = rules.few_tests(replace(few, about={"options": {"labelled": 20}}))
    assert said.endswith("or learn from fewer of them with --labelled.")
    assert list(rules.few_tests(replace(few, test_rows=np.zeros(3)))) == []  # said elsewhere


def test_means_over_some_of_the_targets_say_so():
    f = with_constant(calm(), accuracy=0.98)  # the first target has no AUC
    (said,) = rules.unlearnt(f)
    assert "balanced accuracy (0.500) and AUC (0." in said and ") (11 of 12 targets)," in said
    assert "mean AUC (11 of 12 targets)" in scores(f)["means"]["head"]
    fair = with_constant(calm(), accuracy=0.8, balanced=0.6)
    fair.also["balanced accuracy"][3] = np.nan
    (said,) = rules.flattered(fair)
    assert "cuvee has 0.600 (11 of 12 targets), so look" in said


def test_models_that_predict_no_better_than_one_answer():
    assert list(rules.unlearnt(calm())) == [] and list(rules.flattered(calm())) == []
    assert worries(with_constant(calm())) == []
    (said,) = rules.unlearnt(with_constant(calm(), accuracy=0.98))
    assert (
        "no better than that of always answering a target's most frequent class, 0.980: most "
        "labels are of" in said
    )
    assert "look at balanced accuracy (0.500) and AUC (0." in said
    (said,) = rules.unlearnt(with_constant(calm(), accuracy=0.98, balanced=0.7))
    assert "balanced accuracy (0.700)" in said
    numbers = findings(8, 4, regression=True)
    assert list(rules.unlearnt(with_constant(numbers, accuracy=9.0))) == []
    (said,) = rules.unlearnt(with_constant(numbers, accuracy=0.1))
    assert (
        "always answering the mean of a target's own labels, 0.1: the columns say little about "
        "“readmitted”" in said
    )


def test_an_accuracy_that_owes_much_to_one_class():
    (said,) = rules.flattered(with_constant(calm(), accuracy=0.8, balanced=0.6))
    assert (
        "is misleading, because always answering the most frequent class has 0.800" in said
        and "has 0.600, so look" in said
    )
    assert list(rules.flattered(with_constant(calm(), accuracy=0.8, balanced=0.85))) == []
    assert list(rules.flattered(with_constant(calm(), accuracy=0.6, balanced=0.6))) == []
    # said by the other rule
    assert list(rules.flattered(with_constant(calm(), accuracy=0.98, balanced=0.6))) == []


def test_one_answer_for_all_is_no_rival_among_mixtures():
    f = with_constant(calm(), accuracy=0.98)
    (best,) = [m for m in f.methods if f"better than “{m}”" in " ".join(rules.chance(f))] or [
        "nobody"
    ]
    assert best != "majority class"
    assert "the best baseline, “majority class”" in summary(f)[-2]


@pytest.mark.parametrize(
    ("gain", "wanted"),
    [
        ((0.02, 0.01, 0.03), None),
        ((0.02, -0.01, 0.05), "may be chance"),
        ((0.02, np.nan, np.nan), "may be chance"),
        ((-0.02, -0.05, 0.01), " test rows no difference in accuracy between cuvee and"),
        ((0.0, 0.0, 0.0), "no difference in accuracy between cuvee and"),
        ((-0.02, -0.03, -0.01), "does worse than"),
    ],
)
def test_a_comparison_that_says_little(gain, wanted):
    f = calm()
    said = list(rules.chance(replace(f, gain=np.tile(gain, (5, 1)))))
    assert (said == []) if wanted is None else (len(said) == 1 and wanted in said[0])


@pytest.mark.parametrize("gain", [(0.0, -0.05, 0.05), (0.01, -0.05, 0.07)])
def test_log_loss_speaks_where_accuracies_are_alike(gain):
    f = with_constant(calm())
    scores = f.scores.copy()
    scores[:, :5] = scores[:, :1]  # all models give the same answers
    f = replace(rescored(f, scores), gain=np.tile(gain, (6, 1)))
    f.also["log loss"][:] = [0.277, 0.290, 0.29, 0.284, 0.3, 0.5]
    (said,) = rules.chance(f)
    assert "serves as well" not in said and "“pooled_own”" in said  # the best of equals
    assert ", but cuvee has the better log loss, 0.277 against 0.284: " in said
    f.also["log loss"][:, 3] = 0.27
    (said,) = rules.chance(f)
    assert "“pooled_own”, which is simpler, has the better log loss, 0.27 against 0.277" in said
    f.also["log loss"][:, 3] = 0.277
    assert ", and their log loss is the same, 0.277: " in "".join(rules.chance(f))


def ahead(f, *wins, chance=1e-6):
    """The same where baselines are .2 better than cuvee on some targets, (target, method) each."""
    better, scores = 0.2 if f.higher_is_better else -0.2, f.scores.copy()
    likely = np.ones(scores.shape[:2])
    for i, k in wins:
        scores[i, k] = scores[i, 0] + better
        likely[i, k] = chance
    return replace(rescored(f, scores), chance=likely, test_rows=np.full(len(scores), 40.0))


@pytest.mark.parametrize("regression", [False, True])
def test_targets_on_which_a_baseline_does_clearly_better(regression):
    f = findings(6, 3, regression=regression)
    scores = f.scores.copy()
    scores[:, 0] = scores[:, 1:].min(1) if regression else scores[:, 1:].max(1)
    f = replace(f, scores=scores)
    assert list(rules.behind(ahead(f))) == []
    assert list(rules.behind(replace(ahead(f, (1, 2)), chance=None))) == []  # an older version's
    (said,) = rules.behind(ahead(f, (1, 2)))
    assert said.startswith(
        f"A simple baseline does clearly better than cuvee on target 2 ({f.methods[2]} "
    )
    assert " on 40 test rows): row by row that is more than chance, with 24 comparisons" in said
    (said,) = rules.behind(ahead(f, (1, 2), (4, 3), (0, 1), (3, 4), (5, 2)))
    assert "and 2 more targets" in said


def test_a_baseline_on_four_rows_or_by_one_lucky_comparison_of_many_is_not_clearly_better():
    f = ahead(findings(6, 3), (1, 2))
    few = replace(f, test_rows=with_row(f.test_rows, 1, 19))
    assert list(rules.behind(few)) == []
    assert list(rules.behind(replace(few, test_rows=with_row(f.test_rows, 1, 20)))) != []
    # 24 comparisons: one in 480 at most may be chance
    assert list(rules.behind(ahead(findings(6, 3), (1, 2), chance=0.0022))) == []
    assert list(rules.behind(ahead(findings(6, 3), (1, 2), chance=0.0020))) != []


@pytest.mark.parametrize("classify", [True, False])
def test_without_a_difference_a_baseline_is_rarely_called_better(classify):
    """In 200 runs of 75 targets with 4 to 60 test rows each, whose models are all alike."""
    rng, told = np.random.default_rng(5), 0
    f = findings(75, 3, regression=not classify)
    for _ in range(200):
        rows = rng.integers(4, 60, 75)
        each = rng.random((75, 5, 60)) < 0.3 if classify else rng.normal(size=(75, 5, 60)) ** 2
        each = np.where(np.arange(60) < rows[:, None, None], each, np.nan)
        differ = each - each[:, :1]
        error, paired = (np.nanstd(x, -1, ddof=1) / np.sqrt(rows)[:, None] for x in (each, differ))
        judged = Judged(np.nanmean(each, -1), error, paired)
        metrics = scores_of(judged, rows, ACCURACY if classify else RMSE)
        run = replace(
            f,
            scores=np.array(metrics["scores"], float),
            chance=np.array(metrics["chance"], float),
            test_rows=rows.astype(float),
        )
        told += bool(list(rules.behind(run)))
    assert told <= 16  # .05 of 200, and three standard errors


@pytest.mark.parametrize("classify", [True, False])
def test_the_pairs_of_a_target_are_tested_as_scipy_does(classify):
    rng = np.random.default_rng(2)
    each = rng.random((4, 3, 30)) < 0.4 if classify else rng.normal(size=(4, 3, 30)) ** 2
    each = each.astype(float)
    each[3, 1] = each[3, 0]
    differ = each - each[:, :1]
    error, paired = (x.std(-1, ddof=1) / np.sqrt(30) for x in (each, differ))
    likely = chance(
        Judged(each.mean(-1), error, paired), np.full(4, 30), ACCURACY if classify else RMSE
    )
    for i in range(4):
        for k in (1, 2):
            if classify:
                only = int((differ[i, k] > 0).sum()), int((differ[i, k] < 0).sum())
                wanted = stats.binomtest(only[0], sum(only)).pvalue if sum(only) else 1.0
            else:
                wanted = stats.ttest_rel(each[i, k], each[i, 0]).pvalue if (i, k) != (3, 1) else 1.0
            assert likely[i, k] == pytest.approx(wanted)
    assert (likely[:, 0] == 1.0).all()


def test_it_is_said_with_which_command_a_baseline_is_used():
    for f in (ahead(findings(6, 3), (1, 3)), ahead(findings(6, 3, regression=True), (1, 3))):
        about = f.about | {"options": f.about["options"] | {"levels": True}}
        (said,) = rules.behind(replace(f, about=about))
        more = "" if f.higher_is_better else " --no-levels"
        how = f"(the same command with --method pooled_own{more} and another --out)"
        assert f"Use it there {how}, or label more rows." in said
    (said,) = rules.behind(ahead(findings(6, 3), (1, 3), (2, 1), (4, 3)))
    assert "with --method pooled_own or uniform and another --out" in said
    f = calm()
    (said,) = rules.chance(replace(f, gain=np.tile((-0.1, -0.2, -0.05), (5, 1))))
    best = said.split("“")[1].split("”")[0]
    assert f"--method {best} and another --out" in said and "test rows, which is more" in said
    few = replace(f, gain=np.tile((-0.1, -0.2, -0.05), (5, 1)), test_rows=np.full(12, 1.0))
    assert "more than chance" not in "".join(rules.chance(few))


def test_baselines_are_called_as_on_the_command_line():
    assert {*METHODS[1:]} <= {*get_args(AlphaMethod)}


def test_a_target_that_a_baseline_does_better_on_is_told_before_doubts_about_means():
    f = ahead(with_constant(calm(6), accuracy=0.5), (1, 2))
    f = replace(f, gain=np.tile((0.0, -0.1, 0.1), (6, 1)))
    said = worries(f)
    assert said[0].startswith("A simple baseline does clearly better than cuvee on target 2")
    assert list(rules.chance(f)) and len(said) >= 2


def test_of_equal_baselines_the_one_in_the_table_is_named():
    f = ahead(with_constant(calm(6), accuracy=0.5), (1, 2), (1, 5))
    (said,) = rules.behind(f)
    assert "target 2 (majority class " in said and "--method" not in said


def test_targets_that_rely_on_themselves():
    f = calm(3)
    own = np.eye(5)[-1]
    (said,) = rules.self_reliant(replace(f, alpha=with_row(f.alpha, 0, own)))
    assert said.startswith("Target target 1 gave 90% or more of the weight to own rows")
    without = findings(3, 4, own=False)
    assert list(rules.self_reliant(replace(without, alpha=np.tile(np.eye(4)[-1], (3, 1))))) == []


def test_too_few_rows():
    f = calm(6)
    assert list(rules.few_rows(f)) == [] and list(rules.unscored(f)) == []
    (said,) = rules.few_rows(replace(f, learn_rows=np.array([9.0, 9, 9, 9, 9, 10])))
    assert "5 targets (target 1, target 2, target 3 and 2 more)" in said and "fewer than 10" in said
    scores = f.scores.copy()
    scores[0] = np.nan
    (said,) = rules.unscored(replace(f, scores=scores))
    assert said.startswith("Target target 1 had no test rows")
    (said,) = rules.unscored(replace(f, test_rows=np.array([1.0, 0, 3, 3, 3, 3])))
    assert said.startswith("Target target 2 had no test rows")


def test_models_about_which_nothing_is_proven():
    f = calm(3)
    (said,) = rules.unproven(replace(f, distance=np.array([np.inf, 1e-3, 1e-3])))
    assert said.startswith("Nothing is proven about the model of target 1")
    # a network: the page says so above
    assert list(rules.unproven(replace(f, distance=np.full(3, np.inf)))) == []


def test_a_source_that_carries_everyone():
    f = calm(4)
    heavy = np.tile(f.alpha[0], (4, 1))
    heavy[:2] = 0.95 * np.eye(5)[1] + 0.01
    (said,) = rules.leaning(replace(f, alpha=heavy))
    assert said.startswith("Source source 2 carries 90% or more of the weight for 2 of 4 targets")
    heavy[0] = f.alpha[0]
    assert list(rules.leaning(replace(f, alpha=heavy))) == []
    assert list(rules.leaning(replace(findings(2, 3), alpha=np.tile(np.eye(4)[0], (2, 1))))) == []


def test_sources_that_nobody_uses():
    f = calm(3)
    alpha = f.alpha.copy()
    alpha[:, 1] = 0.009
    (said,) = rules.unused(replace(f, alpha=alpha))
    assert said.startswith("1 source (source 2) is used by no target")
    alpha[:, 1] = [0.0, np.nan, 0.02]
    assert list(rules.unused(replace(f, alpha=alpha))) == []
    alpha[:, 1] = np.nan  # it applies to nobody
    assert list(rules.unused(replace(f, alpha=alpha))) == []


def test_nothing_known_is_worrying_and_each_worry_is_a_sentence():
    said = worries(nothing_known())
    assert len(said) >= 3 and all(
        s.endswith(".") and (s[0].isupper() or s[0].isdigit()) for s in said
    )
