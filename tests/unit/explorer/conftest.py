"""Questions as a page asks them."""

from __future__ import annotations

import pytest

from fedpact.explorer.draft import draft_of
from fedpact.explorer.questions import Questions
from old_hospitals import hospitals


@pytest.fixture(scope="session")
def answers():
    return Questions()


@pytest.fixture
def ask():
    """A question about five hospitals, with some fields typed over."""

    def question(texts=None, **more):
        record = draft_of(hospitals()).record()
        record["texts"] |= texts or {}
        return {"draft": record, **more}

    return question
