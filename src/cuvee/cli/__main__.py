"""`python -m cuvee.cli`."""

from cuvee.cli import entry

if __name__ == "__main__":
    entry()
