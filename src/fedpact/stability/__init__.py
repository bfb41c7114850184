"""Who stays: members that would do better elsewhere leave, and what is left.

May use: utils, federation, shapley, programs, certificates, deals, mechanisms.
"""

from fedpact.stability.participation import StableFederation, stable_federation

__all__ = ["StableFederation", "stable_federation"]
