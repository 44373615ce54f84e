"""Run `python -m cuvee` as the command `cuvee`."""

from cuvee.cli import entry

if __name__ == "__main__":
    entry()
