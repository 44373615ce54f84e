"""`run_online`: the loop a user would write, cut and resumed at any moment, and what is
said of it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import cuvee
from cuvee import CuveeWarning, InputError, OnlineMap, OptionError, run_online, simplex
from online_builders import VARIANTS, N, faulty, load, make, run, sources, state

pytestmark = pytest.mark.sample(4)

ALPHAS = simplex.sample(60, N, 1)
OPTIONS = [
    {"name": "ridge", "variant": "paper", "label_budget": 0.4, "seed": 3},
    {
        "name": "ridge",
        "variant": "paper_repaired",
        "label_budget": 0.4,
        "policy": "budget",
        "radius": 0.2,
        "evaluate": True,
    },
    {"name": "ridge", "variant": "first_order", "label_budget": 0.4, "radius": lambda t: 0.5 / t},
    {"name": "binary", "variant": "curved", "label_budget": 0.3, "tol": 1e-3, "evaluate": True},
]
each_kind = pytest.mark.parametrize("options", OPTIONS, ids=lambda o: o["variant"])


def go(stream, online, **options):
    return run_online(stream, online, progress=False, **options)


class Cut(Exception):
    pass


def cut_at(n, stream=ALPHAS, error=Cut):
    for position, item in enumerate(stream):
        if position == n:
            raise error("the line went dead")
        yield item


@cache
def end_of(variant: str) -> bytes:
    """The checkpoint of a run that was never cut."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "whole")
        go(ALPHAS, make(**OPTIONS[VARIANTS.index(variant)]), checkpoint=path, every=7)
        return path.read_bytes()


# ---- a run ---------------------------------------------------------------------------------------


@each_kind
def test_it_is_the_loop_written_by_hand(options, tmp_path):
    online, by_hand = make(**options), make(**options)
    seen = []
    ledger = go(ALPHAS, online, each=lambda position, w: seen.append((position, w)))
    w, flips, _ = run(by_hand, ALPHAS)
    assert [position for position, _ in seen] == list(range(1, 61))
    np.testing.assert_array_equal([w for _, w in seen], w)
    assert state(online, tmp_path) == state(by_hand, tmp_path)
    assert str(ledger) == str(by_hand.ledger) and ledger.rounds == 60
    np.testing.assert_array_equal(np.diff(ledger.labels_at, prepend=online.settings.centre), flips)
    np.testing.assert_array_equal(ledger.losses, by_hand.ledger.losses)


STREAMS = {
    "an array": lambda: ALPHAS,
    "a list of lists": ALPHAS.tolist,
    "a generator": lambda: (alpha for alpha in ALPHAS),
    "an iterator": lambda: iter(ALPHAS),
    "a tensor": lambda: torch.as_tensor(ALPHAS),
    "tensors with gradients": lambda: [torch.tensor(alpha, requires_grad=True) for alpha in ALPHAS],
    "a data frame": lambda: pd.DataFrame(ALPHAS, columns=["s0", "s1", "s2"]),
    "rows of a data frame": lambda: (row for _, row in pd.DataFrame(ALPHAS).iterrows()),
    "one buffer": lambda: _reused(np.empty(N)),
    "one tensor": lambda: _reused(torch.empty(N, dtype=torch.float64)),
}


def _reused(buffer):
    for alpha in ALPHAS:
        buffer[:] = torch.as_tensor(alpha) if isinstance(buffer, torch.Tensor) else alpha
        yield buffer


@pytest.mark.parametrize("name", list(STREAMS))
def test_streams_of_every_kind(name, tmp_path):
    options = {"variant": "curved", "label_budget": 0.3, "evaluate": True}
    online, other = make("ridge", **options), make("ridge", **options)
    checkpoint = tmp_path / "c"
    ledger = go(STREAMS[name](), online, checkpoint=checkpoint, every=20)
    go(ALPHAS, other)
    assert ledger.rounds == 60 and ledger.notes == ()
    assert state(online, tmp_path) == state(other, tmp_path)
    resumed = make("ridge", **options)
    assert go(STREAMS[name](), resumed, checkpoint=checkpoint).rounds == 60  # all of it was done
    assert state(resumed, tmp_path) == state(online, tmp_path)


@pytest.mark.parametrize(
    "empty", [[], np.zeros((0, N)), iter(())], ids=["list", "array", "iterator"]
)
def test_an_empty_stream(empty, tmp_path):
    online = make("ridge", variant="paper")
    ledger = go(empty, online, checkpoint=tmp_path / "c", picture=tmp_path / "p.png")
    assert ledger.rounds == 0 and (tmp_path / "p.png").is_file()
    assert go(ALPHAS, make("ridge", variant="paper"), checkpoint=tmp_path / "c").rounds == 60


NO_STREAMS = [None, 3, "abc", b"abc", ALPHAS[0], {"a": 1}, np.zeros((2, 2, N)), np.array(1.0), make]


@pytest.mark.parametrize("stream", NO_STREAMS, ids=lambda s: repr(s)[:20])
def test_what_is_no_stream(stream, tmp_path):
    online = make("ridge")
    before = state(online, tmp_path)
    with pytest.raises(OptionError, match="stream"):
        go(stream, online)
    assert state(online, tmp_path) == before


def test_what_is_no_learner():
    for online in (None, ALPHAS, OnlineMap, "x"):
        with pytest.raises(OptionError, match="OnlineMap"):
            go(ALPHAS, online)
    with pytest.raises(OptionError):
        go(make("ridge"), ALPHAS)


@pytest.mark.parametrize("every", [0, -1, 1.5, True, None, "often"])
def test_how_often_is_a_whole_number(every):
    with pytest.raises(OptionError, match="every"):
        go(ALPHAS, make("ridge"), every=every)


def test_progress_is_told(capfd):
    told = []
    run_online(ALPHAS, make("ridge"), progress=lambda *said: told.append(said))
    assert told == [("rounds", done, 60) for done in range(61)]
    told.clear()
    run_online(iter(ALPHAS), make("ridge"), progress=lambda *said: told.append(said))
    assert [done for _, done, _ in told] == list(range(61)) and {total for *_, total in told} == {0}
    assert capfd.readouterr() == ("", "")
    run_online(ALPHAS, make("ridge"))
    out, err = capfd.readouterr()
    assert out == "" and "60/60" in err
    run_online(iter(ALPHAS), make("ridge"))
    assert "60" in capfd.readouterr().err
    run_online(ALPHAS, make("ridge"), progress=False)
    assert capfd.readouterr() == ("", "")


# ---- items that are no mixtures ------------------------------------------------------------------

BAD = {
    "None": None,
    "text": "abc",
    "NaN": [np.nan, 0.5, 0.5],
    "a sum of 1.1": [0.2, 0.4, 0.5],
    "too few": [0.5, 0.5],
    "ragged": [1, [2], 3],
    "a dict": {"a": 1},
    "objects": np.array([None, "x", 3], dtype=object),
    "a batch": ALPHAS,
    "a source": sources("ridge")[0],
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_items_are_passed_over_and_noted(name, tmp_path):
    alphas = ALPHAS[:24]
    options = {"variant": "curved", "label_budget": 0.3}
    good, online = make("ridge", **options), make("ridge", **options)
    run(good, alphas)
    stream = [*alphas[:10], BAD[name], *alphas[10:], BAD[name]]
    seen = []
    ledger = go(
        stream,
        online,
        checkpoint=tmp_path / "c",
        every=11,
        each=lambda position, w: seen.append(position),
    )
    assert state(online, tmp_path) == state(good, tmp_path)
    assert (
        ledger.rounds == 24
        and len(ledger.notes) == 2
        and "item 11" in ledger.notes[0]
        and "26" in ledger.notes[1]
    )
    assert seen == [p for p in range(1, 27) if p not in (11, 26)]
    cut = make("ridge", **options)
    with pytest.raises(Cut):
        go(cut_at(16, stream), cut, checkpoint=tmp_path / "d", every=11)
    again = make("ridge", **options)
    resumed = go(stream, again, checkpoint=tmp_path / "d", every=11)
    assert resumed.notes == ledger.notes
    assert (tmp_path / "d").read_bytes() == (tmp_path / "c").read_bytes()


def test_a_stream_without_one_good_item_is_said_to_be_so():
    with pytest.warns(CuveeWarning, match="not one item"):
        ledger = go([None, "x"], make("ridge"))
    assert ledger.rounds == 0 and len(ledger.notes) == 2


def test_notes_do_not_grow_for_ever(tmp_path):
    stream = [*ALPHAS[:5], *[None] * 1_500]
    ledger = go(stream, make("ridge"), checkpoint=tmp_path / "c", every=10_000)
    assert (
        ledger.rounds == 5
        and len(ledger.notes) <= 1_001
        and (tmp_path / "c").stat().st_size < 300_000
    )


@pytest.mark.parametrize("junk", [None, "far", np.nan])
def test_settings_that_fail_are_no_bad_items(junk):
    online = make("ridge", variant="first_order", radius=lambda t: 0.1 if t < 5 else junk)
    with pytest.raises(OptionError, match=r"radius\(5\)"):
        go(ALPHAS, online)
    assert online.ledger.rounds == 4


def test_labels_that_fail_do_not_stop_a_stream(tmp_path):
    online = make("ridge", variant="paper_repaired", label_budget=0.5, evaluate=True)
    faulty(online).error = RuntimeError("LAPACK")
    ledger = go(ALPHAS, online, checkpoint=tmp_path / "c", picture=tmp_path / "p.png")
    assert (
        ledger.rounds == 60
        and ledger.failed == ledger.labels > 10
        and (tmp_path / "p.png").is_file()
    )
    np.testing.assert_array_equal(online.predict_one(ALPHAS[0]), 0.25)


# ---- cut and resumed -----------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("n", [0, 7, 33, 60])
def test_a_stream_that_raises_loses_nothing(options, n, tmp_path):
    checkpoint = tmp_path / "c"
    if n < 60:
        with pytest.raises(Cut):
            go(cut_at(n), make(**options), checkpoint=checkpoint, every=7)
        radius = options.get("radius") if callable(options.get("radius")) else None
        assert load(checkpoint, options["name"], radius=radius).ledger.rounds == n
    seen = []
    online = make(**options)
    ledger = go(
        ALPHAS,
        online,
        checkpoint=checkpoint,
        every=7,
        each=lambda position, w: seen.append(position),
    )
    assert seen == list(range(n + 1 if n < 60 else 1, 61))
    assert checkpoint.read_bytes() == end_of(options["variant"]) and ledger.rounds == 60


@pytest.mark.parametrize("where", ["each", "progress", "learn", "predict"])
def test_what_raises_in_a_round_leaves_the_last_checkpoint(where, tmp_path, monkeypatch):
    options = OPTIONS[3]
    checkpoint, online = tmp_path / "c", make(**options)

    def stop(position, *_):
        if position >= 24:
            raise KeyboardInterrupt

    told = {"each": stop} if where == "each" else {}
    progress = (lambda what, done, total: stop(done)) if where == "progress" else False
    if where in ("learn", "predict"):
        inner = getattr(OnlineMap, f"{where}_one")

        def interrupted(self, alpha):
            stop(self.ledger.rounds + (where == "predict"))
            return inner(self, alpha)

        monkeypatch.setattr(OnlineMap, f"{where}_one", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_online(ALPHAS, online, checkpoint=checkpoint, every=7, progress=progress, **told)
    # not every round learns
    assert load(checkpoint).ledger.rounds in ((21, 28, 35) if where == "learn" else (21,))
    monkeypatch.undo()
    go(ALPHAS, make(**options), checkpoint=checkpoint, every=7)
    assert checkpoint.read_bytes() == end_of(options["variant"])


def _in_another_process(options, checkpoint, every, bad):
    torch.set_num_threads(1)
    go(_with_bad(bad), make(**options), checkpoint=checkpoint, every=every)
    os._exit(0)


def _with_bad(bad):
    return [*ALPHAS[:20], None, *ALPHAS[20:]] if bad else list(ALPHAS)


@each_kind
@pytest.mark.parametrize("every", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_ends_the_same(options, every, tmp_path):
    """SIGKILL, again and again, also while a checkpoint is written; `every` is no part of the
    state.
    """
    rng = np.random.default_rng(VARIANTS.index(options["variant"]) + every)
    whole, checkpoint = tmp_path / "whole", tmp_path / "c"
    began = time.perf_counter()
    go(_with_bad(every == 1), make(**options), checkpoint=whole, every=every)
    takes = time.perf_counter() - began
    kills, done = 0, False
    while not done:
        process = multiprocessing.get_context("fork").Process(
            target=_in_another_process, args=(options, checkpoint, every, every == 1)
        )
        process.start()
        process.join(rng.uniform(0.1, 0.5) * takes if kills < 5 else None)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        done, kills = process.exitcode == 0, kills + 1
        assert process.exitcode in (0, -signal.SIGKILL)
        if checkpoint.is_file():  # whole, at every moment
            run_to = make(**options)
            run_to.restore(checkpoint)
    assert kills > 1
    assert checkpoint.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    "other",
    [
        ALPHAS[::-1],
        ALPHAS[:10],
        np.vstack([ALPHAS[:5], ALPHAS[4:]]),
        [],
        np.vstack([ALPHAS[:29], ALPHAS[31:]]),
    ],
    ids=["reversed", "shorter", "one twice", "empty", "others later"],
)
def test_another_stream_is_refused(other, tmp_path):
    checkpoint = tmp_path / "c"
    with pytest.raises(Cut):
        go(cut_at(30), make("ridge"), checkpoint=checkpoint)
    before, online = checkpoint.read_bytes(), make("ridge")
    fresh = state(online, tmp_path)
    with pytest.raises(InputError, match=r"30 items of another stream.*another name"):
        go(other, online, checkpoint=checkpoint)
    assert checkpoint.read_bytes() == before and state(online, tmp_path) == fresh


def test_a_stream_that_is_new_after_the_cut_will_do(tmp_path):
    with pytest.raises(Cut):
        go(cut_at(30), make("ridge"), checkpoint=tmp_path / "c")
    other = np.vstack([ALPHAS[:30], ALPHAS[:5]])
    assert go(other, make("ridge"), checkpoint=tmp_path / "c").rounds == 35


def test_other_settings_and_data_are_refused(tmp_path):
    checkpoint = tmp_path / "c"
    go(ALPHAS[:5], make("ridge"), checkpoint=checkpoint)
    before = checkpoint.read_bytes()
    for online in (
        make("ridge", seed=1),
        make("ridge", variant="paper"),
        make("ridge", prior="zero"),
        make("binary"),
    ):
        with pytest.raises(InputError):
            go(ALPHAS, online, checkpoint=checkpoint)
        assert online.ledger.rounds == 0 and checkpoint.read_bytes() == before


def test_a_checkpoint_that_is_none(tmp_path):
    online = make("ridge")
    run(online, ALPHAS[:5])
    online.save(tmp_path / "saved")
    with pytest.raises(InputError, match="written by save"):
        go(ALPHAS, make("ridge"), checkpoint=tmp_path / "saved")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").touch()
    atlas = cuvee.learn(sources("ridge"), online._bound.hypothesis, n_labels=24, n_calibration=0)
    atlas.save(tmp_path / "atlas")
    for name in ("text", "empty", "atlas"):
        content = (tmp_path / name).read_bytes()
        with pytest.raises(InputError):
            go(ALPHAS, make("ridge"), checkpoint=tmp_path / name)
        assert (tmp_path / name).read_bytes() == content  # it may have been something else
    for path in (tmp_path, tmp_path / "not" / "there"):
        with pytest.raises(OptionError, match="checkpoint"):
            go(ALPHAS, make("ridge"), checkpoint=path)
        with pytest.raises(OptionError, match="picture"):
            go(ALPHAS, make("ridge"), picture=path)


def test_a_checkpoint_is_a_map_that_can_be_loaded(tmp_path):
    online = make("ridge", label_budget=0.3)
    go(ALPHAS, online, checkpoint=tmp_path / "c")
    loaded = load(tmp_path / "c", "ridge")
    np.testing.assert_array_equal(loaded.predict_one(ALPHAS[0]), online.predict_one(ALPHAS[0]))
    assert go(ALPHAS, loaded).rounds == 121  # no checkpoint: it just goes on


def test_the_map_at_hand_may_have_seen_more(tmp_path):
    """What counts is the checkpoint, not what the map did before."""
    online = make("ridge", label_budget=0.3)
    with pytest.raises(Cut):
        go(cut_at(30), online, checkpoint=tmp_path / "c")
    run(online, ALPHAS[50:])
    go(ALPHAS, online, checkpoint=tmp_path / "c")
    other = make("ridge", label_budget=0.3)
    go(ALPHAS, other)
    assert state(online, tmp_path) == state(other, tmp_path)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    checkpoint, online = tmp_path / "c", make("ridge")
    go(ALPHAS[:20], online, checkpoint=checkpoint)
    before = checkpoint.read_bytes()

    def full(path, content):
        path.open("wb").write(b"half of it")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(InputError, match="No space left"):
            go(ALPHAS, make("ridge"), checkpoint=checkpoint, every=5)
    assert checkpoint.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["c"]
    assert go(ALPHAS, make("ridge"), checkpoint=checkpoint).rounds == 60


def test_a_disk_that_is_really_full(tmp_path):
    resource = pytest.importorskip("resource")
    checkpoint, online = tmp_path / "c", make("ridge", label_budget=0.5)
    go(ALPHAS, online, checkpoint=checkpoint)
    before, limits = checkpoint.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(InputError, match="cannot be written"):
            online.save(checkpoint)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert checkpoint.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["c"]


# ---- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluate", [True, False])
@pytest.mark.parametrize("rounds", [0, 1, 60])
def test_a_picture_is_drawn(rounds, evaluate, tmp_path):
    path = tmp_path / ("p.png" if evaluate else "no ending")
    go(ALPHAS[:rounds], make("ridge", evaluate=evaluate), picture=path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_pictures_of_long_and_perfect_streams(tmp_path):
    online = make(
        "ridge", variant="paper_repaired", label_budget=0.1, evaluate=True, prior="zero", radius=2.0
    )
    # a logarithmic axis, losses of about 0
    go(np.tile(ALPHAS[0], (1_010, 1)), online, picture=tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1_000


def test_streams_larger_than_memory_are_never_held():
    held = []

    def endless():
        for n in range(500):
            held.append(n)
            yield ALPHAS[n % 60]

    behind = []
    go(
        endless(),
        make("ridge", variant="paper_repaired", label_budget=0.01),
        each=lambda p, w: behind.append(len(held) - p),
    )
    assert set(behind) == {0}


def test_a_run_cut_before_its_first_checkpoint_starts_where_it_did(tmp_path):
    """With the same object, as in a notebook: what it had learnt until it was cut is not learnt
    twice.
    """
    online, undisturbed = make(label_budget=0.3), make(label_budget=0.3)
    run_online(ALPHAS, undisturbed, progress=False)

    def cut(position, w):
        if position == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_online(ALPHAS, online, checkpoint=tmp_path / "c", each=cut, progress=False)
    run_online(ALPHAS, online, checkpoint=tmp_path / "c", progress=False)
    assert state(online, tmp_path) == state(undisturbed, tmp_path)


def test_a_resume_that_finds_only_bad_items_left_does_not_warn(tmp_path):
    """Those before were used: the warning is for a stream that was none."""

    def breaks_off():
        yield from ALPHAS[:3]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run_online(breaks_off(), make(), checkpoint=tmp_path / "c", progress=False)
    ledger = run_online([*ALPHAS[:3], None], make(), checkpoint=tmp_path / "c", progress=False)
    assert ledger.rounds == 3 and "item 4" in ledger.notes[-1]
