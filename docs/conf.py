"""How the documentation is built; the command line, scenario and paper pages are generated from the code."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert as mathml
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

import fedpact
from fedpact.cli.app import app as command_line
from fedpact.paper.page import files_of, page_markdown, write_files
from fedpact.paper.results import ALL, choose_results, reproduce
from fedpact.report.words import GLOSSARY
from fedpact.scenario import EXAMPLES, schema, template

project = "fedpact"
author = "The fedpact developers"
release = fedpact.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_block", "colon_fence", "deflist"]
html_math_renderer = "mathml"  # browsers set it themselves, in the colours of the page: no script, no network
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme = "furo"
html_title = "fedpact"
exclude_patterns = ["_build"]
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
suppress_warnings = ["ref.python"]  # types such as (rounds, n_agents) in docstrings are no links

GENERATED = Path(__file__).parent / "_generated"

BUILT_IN = ", ".join(f"`{name}`" for name in EXAMPLES)
CLI_HEAD = f"""# Command line

`fedpact COMMAND --help` prints these pages. SCENARIO is a `.toml` or `.json` file, or a built-in federation
({BUILT_IN}; the first is the default). With `--json` a command prints one JSON object whose keys are the attribute
names of the Python objects, plus `mechanism` and `agents`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a claim fails (`check`, `paper --check`) |
| 2 | bad input |
| 3 | not converged |
| 4 | an error in fedpact itself: please report it; `FEDPACT_TRACEBACK=1` in the environment shows where |
| 130 | interrupted |
"""


def _help_of(*command: str) -> str:
    shown = CliRunner().invoke(command_line, [*command, "--help"], env={"COLUMNS": "88", "NO_COLOR": "1"}).output
    return "\n".join(line.rstrip() for line in shown.strip().splitlines())


def _generate_paper() -> None:
    """Printed against computed: what `fedpact paper` writes, without the results that take minutes."""
    results = [reproduce(name) for name in choose_results([ALL]) if name != "theorems"]
    for result in results:
        write_files(GENERATED, files_of(result))
    (GENERATED / "paper.md").write_text(page_markdown(results), encoding="utf-8")


def _generate() -> None:
    GENERATED.mkdir(exist_ok=True)
    pages = [CLI_HEAD]
    root = get_command(command_line)
    for name in root.commands:
        pages.append(f"\n## fedpact {name}\n\n```text\n{_help_of(name)}\n```\n")
        for part in getattr(root.get_command(Context(root), name), "commands", ()):
            pages.append(f"\n### fedpact {name} {part}\n\n```text\n{_help_of(name, part)}\n```\n")
    (GENERATED / "cli.md").write_text("".join(pages), encoding="utf-8")
    (GENERATED / "template.toml").write_text(template(3), encoding="utf-8")
    _generate_paper()
    (GENERATED / "glossary.md").write_text(
        "".join(f"**{word}**\n: {meaning}\n\n" for word, meaning in GLOSSARY.items()), encoding="utf-8"
    )
    (GENERATED / "schema.json").write_text(json.dumps(schema(), indent=2), encoding="utf-8")


def _write_inline_formula(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _write_formula(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{mathml(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (_write_inline_formula, None), (_write_formula, None))


_generate()
