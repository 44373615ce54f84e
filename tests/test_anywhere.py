"""The runner behind `make test-anywhere`: what it sets, what it reads, and how it ends."""

from __future__ import annotations

from collections import Counter

import pytest

import anywhere


def test_closing_lines_are_read():
    assert anywhere.counts("34 failed, 4944 passed, 4 skipped in 349.17s (0:05:49)") == Counter(
        failed=34, passed=4944, skipped=4
    )
    assert anywhere.counts("12 passed in 0.10s")["passed"] == 12
    assert not anywhere.counts("pytest said nothing")


def test_a_setting_is_set_and_no_other(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    monkeypatch.setenv("CUVEE_DATA", "kept")
    environment = anywhere.environment({"CUVEE_UNALIGNED": "1"})
    assert environment["CUVEE_UNALIGNED"] == "1" and environment["OMP_NUM_THREADS"] == "1"
    assert "MKL_CBWR" not in environment and environment["CUVEE_DATA"] == "kept"
    assert anywhere.environment({"OMP_NUM_THREADS": "2"})["OMP_NUM_THREADS"] == "2"


def test_the_few_change_all_that_the_others_change():
    assert {name for setting in anywhere.FEW.values() for name in setting} == set(anywhere.ALL)
    assert all((anywhere.ROOT / path).exists() for path in (*anywhere.NUMERIC, *anywhere.PART))


@pytest.mark.parametrize("fails", [False, True])
def test_one_setting_that_fails_fails_all(fails, monkeypatch, capsys):
    ended = {"MKL as with AVX2": (1, Counter(failed=2, passed=8))} if fails else {}
    given = []

    def run(name, setting, paths, options):
        given.append(options)
        return ended.get(name, (0, Counter(passed=10)))

    monkeypatch.setattr(anywhere, "run", run)
    assert anywhere.main(["-x"]) == fails and given[0] == ["-x"]
    *before, last = capsys.readouterr().out.splitlines()
    assert last.startswith("2 failed, 98 passed in " if fails else "100 passed in ")
    assert before == (["failed: MKL as with AVX2"] if fails else [])
    assert anywhere.main(["--few"]) == 0 and capsys.readouterr().out.startswith("20 passed in ")
