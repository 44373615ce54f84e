"""How much of which text should a language model learn from, so that it writes good documentation?
Six kinds of real text lie on every machine that has cuvee: the Python manual, Python code, the
docstrings of SciPy, C++ headers of torch, licences and READMEs. Small language models (six-grams of
characters, interpolated) learn from different mixtures of them, each from the same number of
characters; a surface is fitted to their losses on documentation that none of them has seen. The
mixture that it proposes is trained, at the proxies' size and at four times as many characters, and
compared with equal shares and with shares by size. It takes about a minute and no network.
"""

import ast
import importlib.metadata
import pydoc_data.topics
import re
import sysconfig
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
import sklearn
import torch

import cuvee

BUDGET, LARGE = 300_000, 1_200_000  # characters that a proxy and that the final model learn from
PIECE, MOST, HELD_OUT = 500, 2_000_000, 20_000  # characters
ORDER, LETTERS = 6, 128
PROXIES, REPETITIONS = 64, 4  # a text may be repeated so often in the final model
WANTED = ("pandas docs", "scikit-learn docs", "numpy docs")  # the losses that count
Texts = dict[str, np.ndarray]  # by name: pieces (n, PIECE) of letters


def docstrings(folder: Path, most: int = MOST) -> str:
    """Return the docstrings below a folder's modules, one after another."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        if "test" not in str(path.relative_to(folder)):
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            docs += [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
            if sum(map(len, docs)) > 2 * most:
                break
    return "\n\n".join(doc for doc in docs if len(doc) > 200)


def licences() -> str:
    """Return each licence text of the installed packages once."""
    legal = re.compile(r"(licen[sc]e|copying|notice)[^/]*(\.txt|\.md|\.rst)?$", re.IGNORECASE)
    texts = set()
    for package in importlib.metadata.distributions():
        for file in package.files or ():
            if legal.search(file.name) and file.suffix not in (".py", ".pyc"):
                try:
                    texts.add(file.read_text())
                except (OSError, UnicodeDecodeError):
                    continue
    return "\n\n".join(sorted(texts))


def readmes() -> str:
    """Return what the installed packages say of themselves."""
    packages = importlib.metadata.distributions()
    bodies = {(p.read_text("METADATA") or "").partition("\n\n")[2] for p in packages}
    return "\n\n".join(body for body in sorted(bodies) if len(body) > 500)


def joined(folder: Path, pattern: str) -> str:
    """Return the files of a folder, one after another."""
    return "\n".join(p.read_text("utf-8", "replace") for p in sorted(folder.glob(pattern)))


def pieces(text: str) -> np.ndarray:
    """Return a text as pieces (n, PIECE) of letters; what is not ASCII becomes a question mark."""
    letters = np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8)
    return letters[: len(letters) // PIECE * PIECE].reshape(-1, PIECE)


def read() -> tuple[Texts, Texts]:
    """Return the texts to learn from, by domain, and those to be judged on, by metric."""
    torch_headers = Path(torch.__file__).parent / "include" / "ATen" / "native"
    domains = {
        "manual": "\n\n".join(pydoc_data.topics.topics.values()),
        "code": joined(Path(sysconfig.get_paths()["stdlib"]), "*.py"),
        "science": docstrings(Path(scipy.__file__).parent),
        "headers": joined(torch_headers, "**/*.h"),
        "licences": licences(),
        "readmes": readmes(),
    }
    wanted = {
        "pandas docs": docstrings(Path(pd.__file__).parent / "core", MOST // 4),
        "scikit-learn docs": docstrings(Path(sklearn.__file__).parent, MOST // 4),
        "numpy docs": docstrings(Path(np.__file__).parent, MOST // 4),
    }
    rng, held_out = np.random.default_rng(0), HELD_OUT // PIECE
    shuffled = {name: rng.permutation(pieces(text)) for name, text in domains.items()}
    train = {name: texts[held_out:][: MOST // PIECE] for name, texts in shuffled.items()}
    judged = {name: rng.permutation(pieces(text))[:held_out] for name, text in wanted.items()}
    return train, judged | {f"unseen {name}": x[:held_out] for name, x in shuffled.items()}


def mixed(domains: Texts, alpha: np.ndarray, budget: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a training text (budget,): shares α of the domains, each repeated once it is used up."""
    parts = []
    for share, texts in zip(alpha, domains.values(), strict=True):
        n = round(share * budget / PIECE)
        epochs = [rng.permutation(len(texts)) for _ in range(-(-n // len(texts)))]
        if epochs:
            parts.append(texts[np.concatenate(epochs)[:n]].ravel())
    return np.concatenate(parts)


def grams(text: np.ndarray, order: int) -> np.ndarray:
    """Return a number (n − ORDER + 1,) for each letter with the order − 1 letters before it."""
    n = len(text) - ORDER + 1
    number = np.zeros(n, dtype=np.int64)
    for back in range(order - 1, -1, -1):
        start = ORDER - 1 - back
        number = number * LETTERS + text[start : start + n]
    return number


def trained_losses(text: np.ndarray, judged: Texts) -> np.ndarray:
    """Return the bits per character (metrics,) of a model that learnt from the text.

    Each order leans on the one below by as much as its context was followed by something new
    (Witten and Bell 1991).
    """
    tests = [texts.ravel() for texts in judged.values()]
    chances = [np.full(len(t) - ORDER + 1, 1.0 / LETTERS) for t in tests]
    for order in range(1, ORDER + 1):
        seen, times = np.unique(grams(text, order), return_counts=True)
        contexts, first = np.unique(seen // LETTERS, return_index=True)
        total, different = np.add.reduceat(times, first), np.diff(first, append=len(seen))
        for k, test in enumerate(tests):
            asked = grams(test, order)
            at = np.searchsorted(seen, asked).clip(max=len(seen) - 1)
            count = np.where(seen[at] == asked, times[at], 0)
            at = np.searchsorted(contexts, asked // LETTERS).clip(max=len(contexts) - 1)
            known = contexts[at] == asked // LETTERS
            leaned = (count + different[at] * chances[k]) / (total[at] + different[at])
            chances[k] = np.where(known, leaned, chances[k])
    return np.array([-np.log2(chance).mean() for chance in chances])


def designs(n: int, n_domains: int, rng: np.random.Generator) -> np.ndarray:
    """Draw mixtures (n, domains) of which many leave domains out."""
    alpha = rng.dirichlet(np.full(n_domains, 0.7), size=n)
    alpha[alpha < 0.02] = 0.0
    return alpha / alpha.sum(1, keepdims=True)


def main() -> None:
    domains, judged = read()
    names, sizes = list(domains), np.array([texts.size for texts in domains.values()])
    rng = np.random.default_rng(0)

    def losses(alpha: np.ndarray, budget: int) -> np.ndarray:
        return trained_losses(mixed(domains, alpha, budget, rng), judged)

    alpha = designs(PROXIES, len(names), rng)
    metrics = np.array([losses(a, BUDGET) for a in alpha])  # (PROXIES, metrics)
    surface = cuvee.fit_surface(
        pd.DataFrame(alpha, columns=names), pd.DataFrame(metrics, columns=list(judged))
    )
    for fit in surface.fits:
        print(f"{fit.metric}: {fit.explained:.0%} explained, rank correlation {fit.rank:.2f}")
    limits = cuvee.Constraints(
        tokens=dict(zip(names, sizes.tolist(), strict=True)), budget=LARGE, repeat=REPETITIONS
    )
    proposal = surface.best(minimise=list(WANTED), constraints=limits)
    print(proposal)
    mixtures = {
        "equal shares": np.full(len(names), 1.0 / len(names)),
        "shares by size": sizes / sizes.sum(),
        "proposal": proposal.alpha,
    }
    wanted = [list(judged).index(name) for name in WANTED]
    rows = {}
    for name, mixture in mixtures.items():
        row = {domain: f"{share:.0%}" for domain, share in zip(names, mixture, strict=True)}
        for size, budget in (("proxy", BUDGET), ("large", LARGE)):
            runs = [losses(mixture, budget)[wanted].mean() for _ in range(3)]
            row[f"{size}, bits"] = f"{np.mean(runs):.3f} ± {np.std(runs):.3f}"
        rows[name] = row
    print(pd.DataFrame(rows).T.to_string())


if __name__ == "__main__":
    main()
