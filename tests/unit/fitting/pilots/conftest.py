"""Pilots of tests are short: starting workers would take longer than they do."""

import pytest

from fedpact.utils import threads


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_count", 1)
