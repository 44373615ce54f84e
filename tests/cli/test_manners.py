"""How commands end, and what they say on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

import cuvee.run
from cuvee.cli.output import print_json
from cuvee.cli.reference import commands
from cuvee.errors import CuveeWarning
from cuvee.outputs.progress import Bar

ROOT = Path(__file__).resolve().parents[2]
ADAPT = ("adapt", "visits.csv", "--targets", "new", "--out", "run")


def raising(error):
    def adapt(*_, **__):
        raise error

    return adapt


def test_what_is_unexpected_is_one_sentence_and_exit_code_1(cli, folder, monkeypatch):
    monkeypatch.setattr(cuvee.run, "adapt", raising(RuntimeError("it\nbroke")))
    ended = cli(*ADAPT)
    assert ended == (1, "", "cuvee: unexpected RuntimeError: it broke; run again with --debug\n")


@pytest.mark.parametrize("error", [RuntimeError("it broke"), cuvee.InputError("it is bad")])
def test_debug_shows_the_traceback_wherever_it_stands(folder, monkeypatch, error):
    monkeypatch.setattr(cuvee.run, "adapt", raising(error))
    for words in (("--debug", *ADAPT), (*ADAPT, "--debug")):
        monkeypatch.setattr(sys, "argv", ["cuvee", *words])
        with pytest.raises(type(error)):
            cuvee.cli.main()


def test_ctrl_c_says_how_to_go_on(cli, folder, monkeypatch):
    monkeypatch.setattr(cuvee.run, "adapt", raising(KeyboardInterrupt()))
    assert cli(*ADAPT) == (130, "", "cuvee: stopped; nothing was written\n")
    (folder / "run").mkdir()
    (folder / "run" / "manifest.json").write_text("{}")
    assert cli(*ADAPT) == (130, "", "cuvee: stopped; go on with: cuvee resume run\n")


def test_ctrl_c_while_a_command_loads_its_libraries(cli, folder, monkeypatch):
    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == "cuvee.cli.alpha":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "cuvee.cli.alpha", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert cli("weights", "visits.csv", "--targets", "new") == (130, "", "cuvee: stopped\n")


def test_ctrl_c_while_torch_loads(tmp_path):
    """As the script that pip writes starts it, with a torch that takes for ever."""
    (tmp_path / "torch.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(60)\n"
    )
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = pyproject["project"]["scripts"]["cuvee"].partition(":")
    program = [sys.executable, "-c", f"from {module} import {function}; {function}()", "sample"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"}

    def as_in_a_terminal():
        """Undo what a shell without a terminal does to programs in its background."""
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with subprocess.Popen(
        program,
        stdout=-1,
        stderr=-1,
        text=True,
        env=environment,
        cwd=tmp_path,
        preexec_fn=as_in_a_terminal,
    ) as child:
        assert child.stdout.readline() == "loading\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (130, "cuvee: stopped; nothing was written\n")


def test_warnings_are_notes_of_one_line(cli, folder, monkeypatch):
    def adapt(*_, **__):
        warnings.warn("strange,\n but allowed", CuveeWarning, stacklevel=2)
        warnings.warn("something of another library", UserWarning, stacklevel=2)
        raise KeyboardInterrupt

    monkeypatch.setattr(cuvee.run, "adapt", adapt)
    assert cli(*ADAPT).err.splitlines()[0] == "cuvee: note: strange, but allowed"
    assert cli(*ADAPT, "--quiet").err == "cuvee: stopped; nothing was written\n"


def test_a_reader_that_goes_away_is_no_error(folder):
    words = ["weights", "visits.csv", "--domain", "hospital", "--label", "cost", "--targets", "new"]
    words += ["--method", "uniform", "--quiet"]
    read, write = os.pipe()
    os.close(read)
    program = [sys.executable, "-m", "cuvee.cli", *words]
    ended = subprocess.run(program, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize(
    "words",
    [
        (
            "weights",
            "visits.csv",
            "--domain",
            "hospital",
            "--label",
            "cost",
            "--targets",
            "new",
            "--method",
            "uniform",
        ),
        ("--version",),
        ("plan", "--help"),
    ],
)
def test_a_full_disk_behind_stdout_is_one_sentence(folder, monkeypatch, capfd, words):
    monkeypatch.setattr(sys, "argv", ["cuvee", *words, *(["--quiet"] if len(words) > 2 else [])])
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it fails as well
    monkeypatch.setattr(sys, "stdout", full)
    code = None
    try:
        cuvee.cli.main()
    except SystemExit as ended:
        code = ended.code
    with suppress(OSError):
        full.close()
    said = (
        "cuvee: stdout cannot be written (No space left on device); make room, or send it "
        "elsewhere\n"
    )
    assert (code, capfd.readouterr().err) == (74, said)


def test_version_and_help(cli, folder):
    assert cli("--version") == (0, f"cuvee {cuvee.__version__}\n", "")
    shown = cli("--help")
    assert shown.code == 0 and all(name.split()[0] in shown.out for name in commands())
    assert cli().code == 2


def test_python_m_cuvee_is_the_command():
    program = [sys.executable, "-m", "cuvee", "--version"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, f"cuvee {cuvee.__version__}\n"), ended.stderr


@pytest.mark.parametrize("command", commands())
def test_every_help_has_a_purpose_and_an_example(cli, folder, command):
    shown = cli(*command.split(), "--help")
    assert shown.code == 0 and f"Example: cuvee {command}" in shown.out
    assert commands()[command].help.splitlines()[0].endswith((".", "CSV."))


def test_json_has_no_word_for_infinity(capsys):
    print_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": ("α",)})
    assert capsys.readouterr().out == '{"a": null, "b": [null, 1.5], "c": ["α"]}\n'


def test_no_terminal_no_bar(capsys):
    with Bar(patience=0.0) as bar:
        bar("working", 1, 2)
    assert capsys.readouterr().err == ""


def test_a_bar_appears_when_it_takes_long(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for patience, wanted in ((60.0, False), (0.0, True)):
        with Bar(patience=patience) as bar:
            bar("working", 1, 2)
            bar._timer.join(0.2)
        assert ("working" in capsys.readouterr().err) == wanted
