"""Bad input on every command: exit code 2, one sentence, nothing on stdout, nothing written."""

from __future__ import annotations

import pytest

ROLES = ("visits.csv", "--domain", "hospital", "--label", "readmitted")
ALPHA = ("--alpha", "alpha.csv", "--out", "x.safetensors")
READERS = {
    "adapt": ("--targets", "new", "--out", "x"),
    "weights": ("--targets", "new", "--out", "x.csv"),
    "solve": ALPHA,
    "learn": ("--out", "x.safetensors"),
    "plan": ("--n-targets", "10"),
    "online": ("--stream", "alpha.csv", "--out", "x.safetensors", "--checkpoint", "c.safetensors"),
}
BAD_TABLES = [
    (
        ("visits.csv", "--domain", "hospitl", "--label", "readmitted"),
        "no column 'hospitl'; did you mean 'hospital'?",
    ),
    (
        ("visits.csv", "--domain", "hospital", "--label", "readmited"),
        "no column 'readmited'; did you mean 'readmitted'?",
    ),
    (("visists.csv", "--domain", "hospital"), "visists.csv does not exist"),
    (("foreign.bin", "--domain", "hospital"), "foreign.bin is not text"),
    ((*ROLES, "--features", "agee"), "no column 'agee'; did you mean 'age'?"),
    ((*ROLES, "--drop", "agee"), "no column 'agee'; did you mean 'age'?"),
    ((*ROLES, "--hypothesis", "forest"), "hypothesis must be"),
    ((*ROLES, "--hypothesis", "ridge"), "ridge predicts a quantity"),
    ((*ROLES, "--hypothesis", "no.such:thing"), "no.such:thing"),
    ((*ROLES, "--task", "clustering"), "task must be one of"),
    ((*ROLES, "--l2", "-1"), "l2 must be"),
    ((*ROLES, "--l2", "much"), "'--l2'"),
    ((*ROLES, "--seed", "-1"), "seed must be"),
    ((*ROLES, "--bogus"), "no such option"),
]
NO_TARGET = "no domain matches 'nwe'; did you mean 'new'?"
OTHERS = [
    (("adapt", *ROLES, "--targets", "nwe", "--out", "x"), NO_TARGET),
    (("weights", *ROLES, "--targets", "nwe"), NO_TARGET),
    (("learn", *ROLES, "--targets", "nwe", "--out", "x.safetensors"), NO_TARGET),
    (("plan", *ROLES, "--targets", "nwe", "--n-targets", "3"), NO_TARGET),
    (("learn", *ROLES, "--targets", "each", "--out", "x.safetensors"), "leave --targets out"),
    (("adapt", *ROLES, "--targets", "new"), "missing option '--out'"),
    (("adapt", *ROLES, "--targets", "new", "--out", "visits.csv"), "visits.csv"),
    (("adapt", *ROLES, "--targets", "new", "--out", "full"), "full"),
    (("adapt", *ROLES, "--targets", "new", "--out", "x", "--test", "2"), "test must be"),
    (("adapt", *ROLES, "--targets", "new", "--out", "x", "--labelled", "1"), "labelled must be"),
    (("adapt", *ROLES, "--targets", "new", "--out", "x", "--alpha", "off.csv"), "alpha"),
    (("adapt", *ROLES, "--targets", "new", "--out", "x", "--alpha", "wrong.csv"), "alpha"),
    (
        ("adapt", *ROLES, "--targets", "new", "--out", "x", "--method", "magic"),
        "method must be one of",
    ),
    (("weights", *ROLES, "--targets", "new", "--method", "magic"), "method must be one of"),
    (("weights", *ROLES, "--targets", "new", "--C", "0"), "C must be"),
    (("weights", *ROLES, "--targets", "new", "--out", "gone/a.csv"), "there is no folder"),
    (("weights", *ROLES, "--targets", "new", "--out", "full"), "it is a folder"),
    (("weights", *ROLES, "--targets", "new", "--no-own"), "needs the target's own sample"),
    (
        ("solve", *ROLES, "--alpha", "off.csv", "--out", "x.safetensors"),
        "off.csv: row 0 of alpha does not sum to 1",
    ),
    (
        ("solve", *ROLES, "--alpha", "minus.csv", "--out", "x.safetensors"),
        "minus.csv: row 0 of alpha has a negative",
    ),
    (
        ("solve", *ROLES, "--alpha", "wrong.csv", "--out", "x.safetensors"),
        "no domain 'nroth' in the table; did you mean",
    ),
    (
        ("solve", *ROLES, "--alpha", "words.csv", "--out", "x.safetensors"),
        "words.csv: line 2 holds no weights",
    ),
    (
        ("solve", *ROLES, "--alpha", "ragged.csv", "--out", "x.safetensors"),
        "ragged.csv: line 2 has 3 cells",
    ),
    (
        ("solve", *ROLES, "--alpha", "twice.csv", "--out", "x.safetensors"),
        "two columns are named 'north'",
    ),
    (("solve", *ROLES, "--alpha", "empty.csv", "--out", "x.safetensors"), "empty.csv holds no"),
    (("solve", *ROLES, "--alpha", "own.csv", "--out", "x.safetensors"), "add a column 'target'"),
    (
        ("solve", *ROLES, "--alpha", "nobody.csv", "--out", "x.safetensors"),
        "no domain 'x' in the table",
    ),
    (
        ("solve", *ROLES, "--alpha", "foreign.bin", "--out", "x.safetensors"),
        "foreign.bin is not UTF-8; save the weights",
    ),
    (
        ("solve", *ROLES, "--alpha", "gone.csv", "--out", "x.safetensors"),
        "gone.csv cannot be read: No such file",
    ),
    (("sample", "visits.txt"), "FILE visits.txt: the name must end in .csv or .parquet"),
    (("solve", *ROLES, "--alpha", "-", "--out", "x.safetensors"), "stdin holds no"),
    (("solve", *ROLES, "--alpha", "alpha.csv", "--out", "x.csv"), "must end in .safetensors"),
    (("solve", *ROLES, *ALPHA, "--tol", "0"), "tol must be"),
    (("solve", *ROLES, *ALPHA, "--map", "gone.safetensors"), "gone.safetensors cannot be read"),
    (("solve", *ROLES, *ALPHA, "--map", "visits.csv"), "visits.csv cannot be read"),
    (("learn", *ROLES, "--out", "x.safetensors", "--labels", "1"), "n_labels must be"),
    (
        ("learn", *ROLES, "--out", "x.safetensors", "--method", "magic"),
        "method must be one of 'auto', 'network', 'ntf'",
    ),
    (
        ("learn", *ROLES, "--out", "x.safetensors", "--mixtures", "wrong.csv"),
        "'nroth' that is not a source: its columns are",
    ),
    (
        ("learn", *ROLES, "--out", "x.safetensors", "--mixtures", "alpha.csv"),
        "no column for source",
    ),
    (("plan", *ROLES, "--n-targets", "-3"), "n_targets must be"),
    (
        ("plan", *ROLES, "--n-targets", "3", "--picture", "gone/x.png"),
        "--picture gone/x.png: there is no folder",
    ),
    (("online", *ROLES, "--stream", "off.csv"), "does not sum to 1"),
    (("online", *ROLES, "--stream", "alpha.csv", "--variant", "magic"), "variant must be one of"),
    (("online", *ROLES, "--stream", "alpha.csv", "--budget", "2"), "label_budget must be"),
    (
        ("online", *ROLES, "--stream", "alpha.csv", "--checkpoint", "gone/x"),
        "--checkpoint gone/x: there is no folder",
    ),
    (("resume", "gone"), "there is no folder gone"),
    (("resume", "full"), "full holds no run"),
    (("report", "full"), "full holds no run"),
    (("predict", "full", "visits.csv"), "full holds no run"),
    (("predict", "full", "visits.csv", "--out", "x.xlsx"), "must end in .csv or .parquet"),
    (("predict", "full", "visits.csv", "--out", "visits.csv"), "there is such a file already"),
    (("demo", "--seed", "-1"), "--seed must be at least 0"),
    (("demo", "--picture", "gone/x.png"), "there is no folder"),
    (("demo", "--picture", "taken.png"), "--picture taken.png: there is such a file already"),
    (("demo", "--out", "taken"), "--picture taken.png: there is such a file already"),
    (
        ("plan", *ROLES, "--n-targets", "3", "--picture", "taken.png"),
        "--picture taken.png: there is such a file already; give another name, or --force",
    ),
    (("plan", *ROLES, "--n-targets", "3", "--picture", "x.txt"), "must end in .png"),
    (
        ("online", *ROLES, "--stream", "alpha.csv", "--picture", "taken.png"),
        "--picture taken.png: there is such a file already; give another name, or --force",
    ),
    (
        ("online", *ROLES, "--stream", "alpha.csv", "--checkpoint", "foreign.bin"),
        "foreign.bin cannot be read as",
    ),
    (("bench", "nothing"), "no benchmark named 'nothing'"),
    (("bogus",), "no such command 'bogus'"),
]


@pytest.fixture
def crowded(folder):
    """The folder with all kinds of wrong things in it."""
    (folder / "full").mkdir()
    (folder / "full" / "something").write_text("of somebody")
    (folder / "foreign.bin").write_bytes(bytes(range(256)) * 8)
    (folder / "taken.png").write_bytes(b"of somebody")
    for name, text in {
        "alpha": "target,north,east\nnew,0.5,0.5\n",
        "off": "target,north,east\nnew,0.5,0.6\n",
        "minus": "target,north,east\nnew,-0.5,1.5\n",
        "wrong": "target,nroth,east\nnew,0.5,0.5\n",
        "words": "target,north,east\nnew,half,half\n",
        "ragged": "target,north,east,south\nnew,0.5,0.5\n",
        "twice": "target,north,north\nnew,0.5,0.5\n",
        "own": "north,(own sample)\n0.5,0.5\n",
        "nobody": "target,north,(own sample)\nx,0.5,0.5\n",
        "empty": "",
    }.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def everything(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def check_refused(cli, folder, words, sentence):
    before = everything(folder)
    ended = cli(*words)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("cuvee: ") and ended.err.count("\n") == 1, ended.err
    assert sentence in ended.err
    assert everything(folder) == before


@pytest.mark.parametrize("command", READERS)
def test_a_table_that_cannot_be_read(cli, crowded, command):
    for table, sentence in BAD_TABLES:
        check_refused(cli, crowded, (command, *table, *READERS[command]), sentence)


@pytest.mark.parametrize(
    ("words", "sentence"), OTHERS, ids=lambda w: " ".join(w) if isinstance(w, tuple) else ""
)
def test_refused_in_one_sentence(cli, crowded, words, sentence):
    check_refused(cli, crowded, words, sentence)
