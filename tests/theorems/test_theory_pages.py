"""The theory pages show what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from repo import test_documentation as documentation

PAGES = sorted((documentation.ROOT / "docs" / "theory").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_do_what_they_show(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert documentation.blocks(page), "every page has an example"
    documentation.test_blocks_do_what_they_show(page, tmp_path, monkeypatch)
