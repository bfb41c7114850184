"""What all tests share: how many examples hypothesis draws, and a place for what JAX compiles."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from random_cases import ALL_CASES, cases

# By default the same few examples every time: a failure is then the change's. With all cases others every time.
settings.register_profile(
    "fedpact",
    max_examples=cases(33, few=10),
    derandomize=not ALL_CASES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedpact")


# Run in the background of a script, processes are started deaf to interrupts, and so would be those that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Let JAX keep what it compiles, for the other processes of this run and for the next."""
    if hasattr(config, "cache"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
