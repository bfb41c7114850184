"""What all tests share: how many examples hypothesis draws."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from random_cases import ALL_CASES, cases

# By default the same few examples every time: a failure is then the change's. With all cases others every time.
settings.register_profile(
    "fedpact",
    max_examples=cases(100),
    derandomize=not ALL_CASES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedpact")
