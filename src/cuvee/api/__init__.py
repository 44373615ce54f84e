"""The public functions, thin: validate once, put the pieces together, hand back one result type."""

from cuvee.api.mixtures import OWN, estimate
from cuvee.api.models import certify, sensitivity, solve

__all__ = ["OWN", "certify", "estimate", "sensitivity", "solve"]
