"""Imports go one way, and `import fedpact` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sources import FILES, PACKAGE, syntax_tree

# Lowest first. A module may import from lower lines only; those of one line do not know each other.
LAYERS = [
    ["utils"],
    ["federation"],
    ["scenario", "shapley"],
    ["solvers", "certificates"],
    ["deals"],
    ["mechanisms"],
    ["comparison"],
    ["negotiation"],
    ["fitting"],
    ["__init__"],
    ["training"],
    ["flower"],
    ["report"],
    ["paper", "explorer"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Pictures, notebooks and pages are methods of what they show; they are imported when asked for, and may look back.
ON_REQUEST = {"report"}

HEAVY = (
    "jax",
    "flwr",
    "scipy.stats",
    "scipy.optimize",
    "matplotlib",
    "pandas",
    "starlette",
    "uvicorn",
    "rich",
    "jinja2",
    "typer",
    "hypothesis",
    "joblib",
    "sklearn",
    "distributed",
    "ray",
    "torch",
)


def part_of(path: Path) -> str:
    """The module or package directly under fedpact that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, lazily: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import below a node, and whether it stands inside a function; not those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, lazily
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from imports(node, lazily or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def arrows(path: Path) -> list[tuple[str, bool]]:
    """What a file imports from fedpact, and whether it does so inside a function."""
    found = []
    for node, lazily in imports(syntax_tree(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "fedpact" else [node.module]
            )
        else:
            names = [alias.name for alias in node.names]
        found += [(target(name), lazily) for name in names if name.split(".")[0] == "fedpact"]
    return found


def target(name: str) -> str:
    """The part of fedpact that a dotted name belongs to; names such as fedpact.Outcome belong to the root."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LEVEL else "__init__"


def test_every_part_has_a_place() -> None:
    assert {part_of(path) for path in FILES} <= set(LEVEL)


def test_no_arrow_goes_backwards() -> None:
    backwards = [
        f"{path.relative_to(PACKAGE)} imports {there}"
        for path in FILES
        for there, lazily in arrows(path)
        if there != part_of(path) and not (lazily and there in ON_REQUEST) and LEVEL[there] >= LEVEL[part_of(path)]
    ]
    assert backwards == []


def dotted(path: Path) -> str:
    """The name under which a file is imported."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_modules_do_not_import_in_circles() -> None:
    modules = {dotted(path): path for path in FILES}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in syntax_tree(path).body:  # what runs on import
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= {entry if entry in modules else str(node.module) for entry in full}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for imported in graph[name]:
                visit(imported, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_importing_fedpact_loads_nothing_heavy() -> None:
    code = f"import sys, fedpact; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert result.stdout.strip() == "[]"
