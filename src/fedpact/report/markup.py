"""HTML from Jinja2 templates; every text that is not HTML already is escaped.

So a name from a file can never become markup. Templates lie in the folder `templates` of a package; every package may
use those of `fedpact.report`. Small pieces that have no template are made with `Markup.format`, which escapes too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fedpact.report.numbers import cents_text, given_text, money_text, number_text, percent
from fedpact.utils.words import count_text

if TYPE_CHECKING:
    from jinja2 import Environment

# Characters that no HTML page may hold: control characters but for white space, and halves of surrogate pairs.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
MAX_MENTION_LENGTH = 40


def render(template: str, *, package: str = "fedpact.report", **context: Any) -> Markup:
    """A template of a package filled in."""
    text = _environment(package).get_template(template).render(context)
    return Markup(FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def style_sheet() -> Markup:
    """The style sheet of all pages."""
    return Markup(files("fedpact.report").joinpath("style.css").read_text(encoding="utf-8"))


def name_tag(text: str) -> Markup:
    """An agent's name: set apart from the text around it, whichever way it is written, and cut by the style sheet."""
    return Markup('<bdi class="name" title="{0}">{0}</bdi>').format(text)


def mention(text: str) -> Markup:
    """An agent's name in a sentence, cut if it is very long."""
    if len(text) <= MAX_MENTION_LENGTH:
        return Markup("<bdi>{}</bdi>").format(text)
    return Markup('<bdi title="{}">{}…</bdi>').format(text, text[: MAX_MENTION_LENGTH - 1].rstrip())


def mention_list(names: Sequence[str], most: int = 6) -> Markup:
    """Names in a sentence, the first few of them if they are many."""
    most = len(names) if len(names) == most + 1 else most  # "1 more" takes no less room than a name
    shown = [mention(text) for text in names[:most]]
    if len(names) > most:
        shown.append(Markup(f"{len(names) - most:,} more"))
    last = shown[-2:]
    return Markup(", ").join([*shown[:-2], Markup(" and ").join(last)] if last else [])


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only for pages

    packages = dict.fromkeys([package, "fedpact.report"])
    made = Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = (cents_text, count_text, given_text, money_text, number_text, percent)
    for function in (name_tag, mention, mention_list, *numbers):
        made.globals[function.__name__] = function
    return made
