"""The package's source files, each parsed once for all tests that read them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import fedpact

PACKAGE = Path(fedpact.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def syntax_tree(path: Path) -> ast.Module:
    """What is written in a file."""
    return ast.parse(path.read_text(encoding="utf-8"))
