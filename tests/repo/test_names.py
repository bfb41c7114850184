"""One idea, one name: no class name means two things, and a deal has one shape."""

from __future__ import annotations

import ast
from collections import Counter

from sources import FILES, syntax_tree


def class_names() -> list[str]:
    """The public classes of all modules."""
    classes = (node.name for path in FILES for node in syntax_tree(path).body if isinstance(node, ast.ClassDef))
    return [name for name in classes if not name.startswith("_")]


def test_no_class_name_means_two_things() -> None:
    assert [name for name, count in Counter(class_names()).items() if count > 1] == []
