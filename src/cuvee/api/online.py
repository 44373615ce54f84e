"""`OnlineMap`: α -> w for targets that arrive one by one, by Algorithm 4 and what became of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from cuvee.api import online_labels, online_state
from cuvee.api.bound import Bound
from cuvee.api.learning import check_sources
from cuvee.api.model_map import as_solution
from cuvee.api.online_labels import bind_sources
from cuvee.api.online_settings import (
    Asked,
    PolicyName,
    Prior,
    Settings,
    Variant,
    policy_of,
    prior_of,
    radius_of,
)
from cuvee.api.online_state import State
from cuvee.errors import (
    CuveeWarning,
    InputError,
    MixtureError,
    OptionError,
    check_choice,
    check_number,
)
from cuvee.hypothesis.base import Hypothesis
from cuvee.inputs.alpha import ordered_alpha
from cuvee.learn import correct
from cuvee.learn.correct import Trust
from cuvee.learn.settings import label_tol
from cuvee.numerics.parallel import workers
from cuvee.online.accounts import in_short
from cuvee.online.ledger import Ledger
from cuvee.online.regressor import Radius, Round
from cuvee.problem import Domain, Problem
from cuvee.results import Floats, Status
from cuvee.simplex import check_alpha
from cuvee.solution import Model, Solution, check_w

TOGETHER = 256  # rounds that are evaluated at a time


class OnlineMap:
    """Models for mixtures that arrive one by one, learnt from as few solves as it takes.

    Args:
        data: sources, or a problem.
        hypothesis: `Ridge`, `Logistic`, `Poisson` or `Network`.
        variant: "paper" is Algorithm 4 as printed, its new centre at t; "paper_repaired" averages
            labelled rounds only; "first_order" has centres that carry dw*/dα; "curved" puts a
            centre at every label, and a curvature that all labels share between them. "auto" is
            "curved", for a network "paper_repaired".
        label_budget: p in [0, 1], the share of rounds that may be paid for.
        policy: "coin" asks with probability p, as the paper does; "budget" where no label is within
            the radius; "certificate" where one pass over the data shows ‖∇‖∞ > tol. The last two
            keep labels ≤ ⌈p · rounds⌉ at every round from the first on. "auto" is the certificate
            for "curved", the budget for "first_order", else the coin.
        tol: on ‖∇‖∞, of the certificate; in the units of the loss, so y of a regression is best
            near unit scale.
        radius: ε_t: "paper" is t^(−1/(1+N)), a number is constant, a function takes t = 1, 2, …
        prior: what is said while the nearest ball has no label: "paper" is (1/P)·1, "zero" is 0, or
            a model (P,); "centre" pays for one label, of the uniform mixture, before the first
            round, and lets the nearest ball that has a label speak. "auto" is "paper" for the
            paper's variants and "centre" for the others.
        K: labels by K steps of gradient descent from 0, as in the paper, instead of the exact
            solver.
        evaluate: also solve every mixture, many at a time, to account for the loss ‖ŵ_t −
            w*(α_t)‖². For studies.
        seed: of the coin.
        device, memory: as in `cuvee.solve`.

    Example:
        >>> import cuvee
        >>> from cuvee.data.synthetic import shifted_sources
        >>> from cuvee.simplex import sample
        >>> sources = shifted_sources(3, 100, 4)
        >>> online = cuvee.OnlineMap(sources, cuvee.Logistic(1e-2), evaluate=True)
        >>> for alpha in sample(100, 3):
        ...     w = online.predict_one(alpha)
        ...     if online.wants_label(alpha):
        ...         _ = online.learn_one(alpha)
        >>> online.ledger.labels <= 10, online.ledger.average_loss < 0.1
        (True, True)
    """

    def __init__(
        self,
        data: Problem | Sequence[Domain],
        hypothesis: Hypothesis,
        *,
        variant: Variant = "auto",
        label_budget: float = 0.1,
        policy: PolicyName = "auto",
        tol: float = 3e-3,
        radius: float | Literal["paper"] | Radius = "paper",
        prior: Prior | Any = "auto",
        K: int | None = None,
        evaluate: bool = False,
        seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> None:
        with workers():
            bound = bind_sources(data, hypothesis, device, memory)
        check_sources(bound.problem)
        schedule = radius_of(radius, bound.problem.n_sources)
        asked = Asked(
            variant=variant,
            label_budget=label_budget,
            policy=policy,
            tol=tol,
            radius=radius,
            prior=prior,
            K=K,
            evaluate=evaluate,
            seed=seed,
        )
        settings = asked.settled(bound.space)
        if settings.label_budget == 0.0:
            warnings.warn(
                "label_budget=0 never learns: every answer is the prior", CuveeWarning, stacklevel=2
            )
        prior = prior_of(prior, settings, bound.space.n_params)
        self._go_on(State.first(settings, schedule, prior, bound), bound)
        if settings.centre and settings.label_budget > 0.0:
            with workers():
                self._learn(bound, self._state.regressor.centre())

    def _go_on(self, state: State, bound: Bound | None) -> None:
        """Take over a state; the next round begins after it."""
        self._state, self._bound = state, bound
        self._policy = policy_of(state.settings)
        self._round: Round | None = None  # that a label would belong to

    @property
    def settings(self) -> Settings:
        """Return the options, each as it was settled."""
        return self._state.settings

    def __repr__(self) -> str:
        s, N = self.settings, self._state.n_sources
        so_far = self._state.accounts.ledger(N, np.zeros(0))
        return f"OnlineMap of {N} sources, variant {s.variant!r}, labels by {s.policy}: {so_far}"

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the names (N,) of the sources in the order of α's columns.

        They are () for a file of an earlier version that was loaded without data.
        """
        return self._state.sources

    # ---- a round ---------------------------------------------------------------------------------

    @workers()
    def predict_one(self, alpha: Any) -> Floats:
        """Begin a round and return ŵ_t (P,) for the next mixture α_t (N,).

        There is always an answer.

        A row of a data frame is matched by name here, in `wants_label` and in `learn_one`.
        """
        return self._begin(self._mixture(alpha)).w.copy()

    @workers()
    def wants_label(self, alpha: Any) -> bool:
        """Return whether the round of α_t, begun by `predict_one` or else here, is worth a label.

        A mixture that has no minimiser, for a class is absent, is worth none, except to a coin.
        """
        if self.settings.policy == "certificate":
            self._data("a certificate")
        now = self._current(alpha)
        wanted = self._policy.wants(now, self._state.accounts.paid, lambda: self._gradient(now))
        # a coin knows nothing
        if wanted and self._bound is not None and self.settings.policy != "coin":
            wanted = online_labels.has_minimiser(self._bound, now.alpha)
        return wanted

    @workers()
    def learn_one(self, alpha: Any) -> Model:
        """Pay for w*(α_t), learn from it and return it.

        A solve that fails is noted in the ledger, and ŵ_t is returned.
        """
        bound = self._data("learning")
        now = self._current(alpha)
        w, status = self._learn(bound, now)
        self._round = None
        return self.model(now.w if w is None else w, status)

    def model(self, w: Floats, status: Status = Status.OFF_TOLERANCE) -> Model:
        """Return w (P,), as `predict_one` gives it, as a model that predicts rows."""
        bound = self._data("a model")
        return Model(bound.space, check_w([w], 1, bound.space.n_params)[0], status, bound.features)

    def _learn(self, bound: Bound, now: Round) -> tuple[Floats | None, Status]:
        """Solve the round's mixture and learn from it; return w*, or None, and the status.

        Nothing is entered before there is a result: what interrupts a solve leaves the round as it
        was.
        """
        try:
            w, slopes, status = online_labels.label(
                bound,
                now.alpha,
                now.w,
                tol=label_tol(self.settings.tol),
                slopes=self._state.regressor.balls.slopes,
                K=self.settings.K,
            )
            why = status.sentence
        # whatever it was, the round has its answer and the stream goes on
        except Exception as error:
            w, slopes, status, why = None, None, Status.DIVERGED, in_short(error)
        self._state.accounts.pay()
        if w is None:
            self._state.accounts.fail(f"the label failed, {status}: {why}")
        else:
            self._state.regressor.learn(now, w, slopes)
            self._state.accounts.learnt(len(self._state.regressor.S))
        return w, status

    def _begin(self, alpha: Floats) -> Round:
        now = self._state.regressor.observe(alpha)
        w = self._projected(now.w[None])[0]
        self._round = now = replace(now, w=w)
        self._state.accounts.begin(len(self._state.regressor.S))
        if self.settings.evaluate:
            self._state.waiting.append((alpha, w))
            if len(self._state.waiting) >= TOGETHER:
                self._state.accounts.evaluate(self._evaluated())
                self._state.waiting.clear()
        return now

    def _current(self, alpha: Any) -> Round:
        given, now = self._mixture(alpha), self._round
        return now if now is not None and np.array_equal(now.alpha, given) else self._begin(given)

    def _gradient(self, now: Round) -> float:
        self._state.accounts.looks += 1
        try:
            return online_labels.gradient(self._data("a certificate"), now.alpha, now.w)
        except Exception as error:  # nothing is known of ŵ then, which is what a label is for
            self._state.accounts.note(f"round {now.t}: no certificate: {in_short(error)}")
            return inf

    # ---- accounts --------------------------------------------------------------------------------

    @property
    @workers()
    def ledger(self) -> Ledger:
        """Return the rounds, the labels paid and the centres.

        With `evaluate` it also has the loss of every round and the regret against w*.

        Reading it then solves the rounds since they were last evaluated, 255 at most.
        """
        return self._state.accounts.ledger(self._state.n_sources, self._evaluated())

    def _evaluated(self) -> Floats:
        """Return the losses of the rounds that wait for evaluation."""
        if not self._state.waiting:
            return np.zeros(0)
        alpha, w = (np.stack(part) for part in zip(*self._state.waiting, strict=True))
        return online_labels.losses(
            self._data("evaluation"), alpha, w, label_tol(self.settings.tol)
        )

    def predict(self, alpha: Any) -> Floats:
        """Return what the map says now of mixtures (M, N), without a round or the data: (M, P).

        `Mixtures` and data frames are matched by the names of their columns, as in `cuvee.solve`.
        """
        return self._projected(self._state.regressor.predict(self._mixtures(alpha)))

    # ---- as a model map --------------------------------------------------------------------------

    @workers()
    def __call__(
        self, alpha: Any, *, trust: Trust = "certified", tol: float | None = None
    ) -> Solution:
        """Return what the map says now of mixtures (M, N), without a round.

        Args:
            alpha: (M, N); `Mixtures` and data frames, without own samples, are matched by the names
                of their columns.
            trust: "predicted" proves nothing; "certified" is one pass over the data per row;
                "corrected" also solves those rows that are not within the tolerance.
            tol: on ‖∇‖∞, by default that of the certificate.
        """
        check_choice("trust", trust, get_args(Trust))
        if tol is not None:
            check_number("tol", tol, above=0.0)
        bound, tol = self._data("a Solution"), self.settings.tol if tol is None else float(tol)
        if trust != "predicted" and not bound.space.convex:
            raise OptionError(
                "nothing can be proven of a network: ask for trust='predicted', or cuvee.solve"
            )
        a = self._mixtures(alpha)
        mixtures = torch.as_tensor(a, device=bound.device)
        answer = correct.nothing(torch.as_tensor(self.predict(a), device=bound.device))
        rows = torch.arange(len(a), device=bound.device)
        if trust == "certified" and len(a):
            correct.look(answer, rows, bound.oracle, mixtures, tol)
        elif trust == "corrected" and len(a):
            correct.correct(answer, rows, bound.oracle, mixtures, None, tol)
        return as_solution(bound, a, [answer], "")

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
        data: Problem | Sequence[Domain] | None = None,
        hypothesis: Hypothesis | None = None,
        *,
        radius: Radius | None = None,
        device: str = "cpu",
        memory: int | None = None,
    ) -> OnlineMap:
        """Return a map that `save` wrote, which goes on as if nothing had happened.

        Without the data it predicts; labels and certificates need them, and evaluation ends. A
        `radius` that was a function has to be given again.
        """
        if (data is None) != (hypothesis is None):
            raise OptionError("give both the data and the hypothesis, or neither to predict only")
        bound = None
        if data is not None and hypothesis is not None:
            bound = bind_sources(data, hypothesis, device, memory)
        online = cls.__new__(cls)
        online._go_on(online_state.read(Path(path), bound, radius), bound)
        return online

    def checkpoint(self, path: str | Path, stream: dict[str, Any]) -> None:
        """Write what `save` writes, with notes on the stream that the map stands in."""
        self._state.write(Path(path), stream)

    @workers()
    def restore(self, path: str | Path) -> None:
        """Go back to a state that `save` or `checkpoint` wrote, of a map made like this one."""
        mine = self._state
        radius = mine.regressor.radius if mine.settings.radius == "given" else None
        state = online_state.read(Path(path), self._bound, radius)
        if state.settings != mine.settings:
            raise InputError(
                f"{path} was made with {state.settings}, this map with {mine.settings}"
            )
        if not np.array_equal(state.regressor.prior, mine.regressor.prior):
            raise InputError(f"{path} was made with another prior than this map")
        self._go_on(state, self._bound)

    # ---- small things ----------------------------------------------------------------------------

    def _data(self, what: str) -> Bound:
        if self._bound is None:
            raise OptionError(f"{what} needs the data: OnlineMap.load(path, data, hypothesis)")
        return self._bound

    def _projected(self, w: Floats) -> Floats:
        """Return w (M, P) projected onto W."""
        if self._bound is None or self._bound.space.radius is None:
            return w
        return np.asarray(self._bound.space.project(torch.as_tensor(w)))

    def _mixtures(self, alpha: Any) -> Floats:
        """Return many α (M, N), checked, with their columns in the order of the sources."""
        ordered = ordered_alpha(alpha, self.sources or None, own=False)
        return check_alpha(ordered, self._state.n_sources)

    def _mixture(self, alpha: Any) -> Floats:
        """Return one α (N,), checked, in the order of the sources."""
        alpha, N = ordered_alpha(alpha, self.sources or None, own=False), self._state.n_sources
        try:
            shape = np.shape(alpha)
        except ValueError:
            shape = ("ragged",)
        if shape != (N,):
            raise MixtureError(f"alpha must be one mixture of {N} weights; got shape {shape}")
        one = alpha[None] if isinstance(alpha, torch.Tensor) else [alpha]
        return check_alpha(one, N)[0].copy()
