"""The notebook prints what stands below its cells."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

NOTEBOOK = json.loads((Path(__file__).parents[2] / "examples" / "research.ipynb").read_text(encoding="utf-8"))


def test_cells_print_what_is_stored() -> None:
    names: dict[str, object] = {}
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        stored = "".join(line for output in cell["outputs"] for line in output["text"])
        assert printed.getvalue() == stored
