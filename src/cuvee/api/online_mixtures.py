"""`OnlineMixtures`: α for targets that arrive one by one, with `cuvee.estimate` as the costly
oracle.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.api.bound import Bound
from cuvee.api.checks import check_whole
from cuvee.api.mixtures import estimate
from cuvee.api.online_labels import bind_sources
from cuvee.api.online_panel import solve_panel, statistics
from cuvee.errors import CuveeWarning, InputError, OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis
from cuvee.inputs.alpha import ordered_alpha
from cuvee.mixture import registry
from cuvee.mixture.objective import DISCREPANCIES, Discrepancy
from cuvee.names import Searching
from cuvee.numerics.parallel import workers
from cuvee.online.accounts import Accounts, in_short
from cuvee.online.mixtures import Forecast, MixtureLearner, MixtureLedger, Sources, Statistics
from cuvee.online.policy import affordable
from cuvee.outputs import files
from cuvee.problem import Domain, Problem, digest
from cuvee.results import OWN, Floats, Mixtures, Status
from cuvee.simplex import check_alpha

Oracle = Searching
WHAT, FORMAT = "a cuvee online mixer", 2
UNCHECKED = (1,)  # formats without a checksum


@dataclass(frozen=True)
class Settings:
    """What the user chose."""

    label_budget: float
    tol: float
    level: float
    method: Oracle
    discrepancy: Discrepancy
    C: float | None
    adversaries: int | None
    steps: int | None
    folds: int | None
    seed: int

    def __post_init__(self) -> None:
        check_number("label_budget", self.label_budget, least=0.0, most=1.0)
        check_number("tol", self.tol, above=0.0)
        check_number("level", self.level, above=0.0, most=0.999)
        check_choice("method", self.method, registry.names(searching=True))
        check_choice("discrepancy", self.discrepancy, DISCREPANCIES)
        if self.C is not None:
            check_number("C", self.C, above=0.0)
        for name, least in (("adversaries", 1), ("steps", 1), ("folds", 2), ("seed", 0)):
            value = getattr(self, name)
            if value is not None or name == "seed":
                check_whole(name, value, least)
                # plain, whatever kind of integer came: JSON is to hold it
                object.__setattr__(self, name, int(value))
        given = [name for name in ("C", "folds") if getattr(self, name) is not None]
        registry.check_taken(self.method, given)

    def oracle(self) -> dict[str, Any]:
        """Return the options that `cuvee.estimate` is called with."""
        return {
            k: v for k, v in asdict(self).items() if k not in ("label_budget", "tol", "level")
        } | {"own": True}


@dataclass(frozen=True)
class _Round:
    """The round that is under way."""

    key: str  # of the target's content
    statistics: Statistics
    forecast: Forecast


class OnlineMixtures:
    """Mixture weights for targets that arrive one by one, from few calls of `cuvee.estimate`.

    All that is asked of a new target are its sample's losses under the sources' own models: α is
    predicted at once. What is uncertain is its distance to the answer `cuvee.estimate` would give,
    half of Σ_j |α̂_j − α_j| ∈ [0, 1]: `uncertainty_one` states a bound that holds with probability
    `level` for a target exchangeable with those answered. Nothing is proven of a stream that
    drifts, and nothing of the accuracy of the models, which may even be better than the oracle's;
    with fewer than level/(1 − level) answers the bound is 1, which says nothing.

    Args:
        data: sources, or a problem, whose targets play no part.
        hypothesis: `Ridge`, `Logistic`, `Poisson` or `Network`.
        label_budget: p in [0, 1]: `wants_label` keeps labels ≤ ⌈p · rounds⌉ at every round; the
            first round asks.
        tol: a label is wanted where the uncertainty is above this.
        level: of the uncertainty.
        method, discrepancy, C, adversaries, steps, folds: of `cuvee.estimate`, with each target's
            own sample joining.
        seed: of `cuvee.estimate` and of a network's training.
        device: a torch device, for `cuvee.estimate`.

    Example:
        >>> import cuvee
        >>> from cuvee.data.synthetic import grouped_classes
        >>> problem = grouped_classes(0, n_targets=10)
        >>> mixer = cuvee.OnlineMixtures(problem.sources, cuvee.Logistic(1e-2), label_budget=0.2)
        >>> for target in problem.targets:
        ...     alpha = mixer.predict_one(target)
        ...     if mixer.wants_label(target):
        ...         alpha = mixer.learn_one(target)
        >>> alpha.shape, mixer.ledger.labels
        ((10,), 2)
    """

    def __init__(
        self,
        data: Problem | Sequence[Domain],
        hypothesis: Hypothesis,
        *,
        label_budget: float = 0.2,
        tol: float = 0.1,
        level: float = 0.8,
        method: Oracle = "path",
        discrepancy: Discrepancy = "mixture",
        C: float | None = None,
        adversaries: int | None = None,
        steps: int | None = None,
        folds: int | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        settings = Settings(
            label_budget, tol, level, method, discrepancy, C, adversaries, steps, folds, seed
        )
        self.settings = settings
        with workers():
            self._bound = bind_sources(data, hypothesis, device, None, settings.seed)
        if any(s.name == OWN for s in self._bound.problem.sources):
            raise OptionError(
                f"a source is named {OWN!r}, which is the own sample's column: rename it"
            )
        if label_budget == 0.0:
            warnings.warn(
                "label_budget=0 never learns: every α is the default's", CuveeWarning, stacklevel=2
            )
        with workers():
            panel = solve_panel(self._bound)
        self._start(*panel)

    def _start(self, w: Tensor, sources: Sources) -> None:
        """Set the state before the first round."""
        self._w, self._learner = w, MixtureLearner(sources, self.settings.level)
        self._keys: dict[str, int] = {}  # of targets answered for -> which answer
        self._round: _Round | None = None
        self._accounts = Accounts()

    def __repr__(self) -> str:
        return f"OnlineMixtures of {self._bound.problem.n_sources} sources: {self.ledger}"

    @property
    def ledger(self) -> MixtureLedger:
        """Return the rounds, the labels paid, and how well each answer had been predicted."""
        errors, bounds = (self._learner.of(name).copy() for name in ("error", "bound"))
        books = self._accounts
        labels_at = books.labels_at.values.copy()
        return MixtureLedger(
            books.rounds, books.paid, books.failed, errors, bounds, labels_at, tuple(books.notes)
        )

    # ---- a round ---------------------------------------------------------------------------------

    @workers()
    def predict_one(self, target: Domain) -> Floats:
        """Begin a round and return α (N+1,) for the next target; there is always an answer.

        It is the oracle's if the oracle gave one for this target.
        """
        return self._alpha(self._begin(target))

    @workers()
    def uncertainty_one(self, target: Domain) -> float:
        """Return a bound on the distance of this round's α to the oracle's answer.

        It is 0 where that answer is known.
        """
        now = self._current(target)
        return 0.0 if now.key in self._keys else float(now.forecast.bound[0])

    @workers()
    def wants_label(self, target: Domain) -> bool:
        """Return whether the round's target is worth a label.

        It is where it is uncertain by more than the tolerance, and the budget allows to ask.
        """
        uncertain = self.uncertainty_one(target) > self.settings.tol
        return uncertain and affordable(
            self.settings.label_budget, self._accounts.rounds, self._accounts.paid
        )

    @workers()
    def learn_one(self, target: Domain, alpha: Any = None) -> Floats:
        """Ask the oracle for the round's target, learn from its answer and return it: α (N+1,).

        A target that was answered for is not paid for again. An oracle that fails is paid for and
        noted in the ledger; the prediction is returned. `alpha` is an answer had elsewhere: a row
        of `cuvee.estimate` for many targets; a row of a data frame is matched by name.
        """
        given = None if alpha is None else self._answer(alpha)
        now = self._current(target)
        if now.key in self._keys:
            return self._alpha(now)
        answer, why = self._ask(target) if given is None else (given, "")
        self._accounts.pay()
        if answer is None:
            self._accounts.fail(f"no answer for {target.name!r}: {why}")
        else:
            self._keys[now.key] = len(self._learner)
            self._learner.learn(now.statistics, now.forecast, answer)
        return self._alpha(now)

    def _answer(self, alpha: Any) -> Floats:
        """Return an answer had elsewhere (N+1,), checked, in the order of the sources."""
        problem = self._bound.problem
        named = ordered_alpha(alpha, problem.source_names)
        return check_alpha(np.asarray(named)[None], problem.n_sources + 1)[0]

    def _ask(self, target: Domain) -> tuple[Floats | None, str]:
        """Return the oracle's answer (N+1,), or None and why there is none."""
        try:
            problem = self._bound.problem.with_targets([target])  # warned of when the round began
            options = self.settings.oracle()
            mix: Mixtures = estimate(
                problem, self._bound.hypothesis, device=self._bound.device, **options
            )
            if mix.status[0] is not Status.DIVERGED and np.isfinite(mix.alpha).all():
                return mix.alpha[0], ""
            return None, f"{mix.status[0]}: {mix.status[0].sentence}"
        except Exception as error:  # whatever it was, the round has its prediction
            return None, in_short(error)

    def _begin(self, target: Domain) -> _Round:
        seen = self._statistics([target])
        self._round = _Round(digest(target), seen, self._learner.predict(seen))
        self._accounts.begin(len(self._learner))
        return self._round

    def _current(self, target: Domain) -> _Round:
        now = self._round
        same = now is not None and isinstance(target, Domain) and now.key == digest(target)
        return now if now is not None and same else self._begin(target)

    def _alpha(self, now: _Round) -> Floats:
        known = self._keys.get(now.key)
        return (now.forecast.alpha[0] if known is None else self._learner.of("alpha")[known]).copy()

    # ---- many targets ----------------------------------------------------------------------------

    @workers()
    def predict(self, targets: Sequence[Domain]) -> Floats:
        """Return α (M, N+1) for many targets, as `predict_one` would say now, without a round."""
        alpha = self._learner.predict(self._statistics(targets)).alpha
        for row, target in zip(alpha, targets if self._keys else (), strict=False):
            if (known := self._keys.get(digest(target))) is not None:
                row[:] = self._learner.of("alpha")[known]
        return alpha

    def _statistics(self, targets: Sequence[Domain]) -> Statistics:
        problem = self._bound.problem.with_targets(targets, warn=True)
        self._bound.hypothesis.bind(problem.facts)  # every label is checked here
        return statistics(
            problem.targets, self._bound.space, self._w, float(self._learner.sources.variance)
        )

    # ---- files -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the state between two rounds to a safetensors file, whole or not at all.

        `load` reads it.
        """
        self.checkpoint(path, {})

    @classmethod
    def load(
        cls,
        path: str | Path,
        data: Problem | Sequence[Domain],
        hypothesis: Hypothesis,
        *,
        device: str = "cpu",
    ) -> OnlineMixtures:
        """Return a mixer that `save` wrote, which goes on as if nothing had happened."""
        bound = bind_sources(data, hypothesis, device, None)
        mixer = cls.__new__(cls)
        mixer._read(Path(path), bound)
        return mixer

    def checkpoint(self, path: str | Path, stream: dict[str, Any]) -> None:
        """Write what `save` writes, with notes on the stream that the mixer stands in."""
        arrays = {f"sources.{name}": value for name, value in vars(self._learner.sources).items()}
        arrays |= {f"answers.{name}": value for name, value in self._learner.state().items()}
        counted, accounts = self._accounts.state()
        arrays |= {f"accounts.{name}": value for name, value in counted.items()}
        header = {
            "what": WHAT,
            "format": FORMAT,
            "settings": asdict(self.settings),
            "fingerprint": self._bound.fingerprint,
            "accounts": accounts,
            "keys": list(self._keys),
            "stream": stream,
        }
        files.write(
            Path(path),
            {"w": self._w} | {name: torch.as_tensor(a) for name, a in arrays.items()},
            header,
        )

    @workers()
    def restore(self, path: str | Path) -> None:
        """Go back to a state that `save` or `checkpoint` wrote, of a mixer made like this one."""
        other = OnlineMixtures.__new__(OnlineMixtures)
        other._read(Path(path), self._bound)
        if other.settings != self.settings:
            raise InputError(
                f"{path} was made with {other.settings}, this mixer with {self.settings}"
            )
        vars(self).update(vars(other))

    def _read(self, path: Path, bound: Bound) -> None:
        tensors, header = files.read(path, "cpu", WHAT, FORMAT, UNCHECKED)
        arrays = {name: t.numpy() for name, t in tensors.items()}
        with files.understood(path, WHAT):
            self.settings, self._bound = Settings(**header["settings"]), bound
            if header["fingerprint"] != bound.fingerprint:
                raise InputError(
                    f"{path} was learnt from other sources or another hypothesis: give the same"
                )
            self._start(torch.tensor(arrays["w"]), Sources(**files.part(arrays, "sources.")))
            self._learner.restore(files.part(arrays, "answers."))
            self._accounts = Accounts.restored(files.part(arrays, "accounts."), header["accounts"])
            self._keys = {str(key): i for i, key in enumerate(header["keys"])}
            if len(self._keys) != len(self._learner):
                raise ValueError("answers and their targets do not match")
