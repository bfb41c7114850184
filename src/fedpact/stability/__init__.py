"""Who stays: members that would do better elsewhere leave, and what is left."""

from fedpact.stability.participation import StableFederation, stable_federation

__all__ = ["StableFederation", "stable_federation"]
