"""Scales share a shape; what is not known at the large one is said."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from mix_builders import law, mixtures, noisy


def two_scales(large, overlap):
    small = mixtures(40, 4)
    other = np.concatenate([small[:overlap], mixtures(large, 4, seed=9)[: large - overlap]])
    alpha = np.concatenate([small, other])
    y = noisy(alpha, noise=0.03)
    y[40:] = 0.5 + 0.6 * y[40:]
    return alpha, y, ["60"] * 40 + ["190"] * large


@pytest.fixture(scope="module")
def surface():
    alpha, y, scale = two_scales(12, 6)
    return cuvee.fit_surface(alpha, y, scale=scale, candidates=["law", "bent_law"])


def test_level_and_slope_of_the_large_scale_are_found(surface):
    fresh = mixtures(80, 4, seed=5)
    truth = law(fresh)
    spread = truth.std(0)
    np.testing.assert_allclose(
        surface.predict(fresh, scale=60).mean, truth, atol=0.5 * spread.max()
    )
    error = surface.predict(fresh).mean - (0.5 + 0.6 * truth)
    assert np.abs(error).mean() < 0.2 * 0.6 * spread.mean()


def test_transfer_is_measured_on_mixtures_run_at_both(surface):
    [transfer] = surface.transfers
    assert (transfer.small, transfer.large, transfer.mixtures) == ("60", "190", 6)
    assert (transfer.rank > 0.8).all() and (transfer.level > 0).all()
    assert not any("is not known" in note for note in surface.notes)


def test_what_is_not_known_is_said():
    alpha, y, scale = two_scales(2, 0)
    surface = cuvee.fit_surface(alpha, y, scale=scale, candidates=["law"])
    text = " ".join(surface.notes)
    assert "Scale 190 has 2 runs: its level rests on them" in text
    assert "0 mixtures were run at both scale 60 and scale 190" in text
    p = surface.predict(mixtures(20, 4, seed=2))
    q = surface.predict(mixtures(20, 4, seed=2), scale="60")
    wide, narrow = ((x.mean_high - x.mean_low).mean(0) for x in (p, q))
    assert (wide > narrow).all()  # though differences are smaller there


def test_scales_are_ordered_by_size_and_only_some_are_refused():
    alpha, y, scale = two_scales(12, 6)
    surface = cuvee.fit_surface(alpha, y, scale=[float(s) for s in scale], candidates=["law"])
    assert surface.scales == ("60", "190")
    with pytest.raises(cuvee.InputError, match="give the scale of all runs or of none"):
        surface.with_runs(alpha, y)
    with pytest.raises(cuvee.InputError, match="scale has 2 values for 52 runs"):
        cuvee.fit_surface(alpha, y, scale=["a", "b"])


def test_effects_are_unsure_where_the_slope_of_the_scale_is():
    """The steps are small for the shape, so that the slope is most of what is not known."""
    alpha, y, scale = two_scales(2, 2)
    surface = cuvee.fit_surface(alpha, y, scale=scale, candidates=["law"])
    s, known = surface.sensitivity(), surface.levels.covariance[1][:, 1, 1].sqrt().numpy()
    factor = surface.calibration.quantile.numpy() * known / surface.spreads()
    half = (s.high - s.low) / 2
    assert (half >= factor * np.abs(s.change) - 1e-12).all()
    assert (factor > 0.2).all()  # the slope rests on two runs
