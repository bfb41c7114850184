"""What commands read: scenarios, mechanisms and deals by name or file; and the files they may write, checked first."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedpact.deals import Deal, is_ledger, load_deal
from fedpact.deals.deal import TRAINS_ALONE
from fedpact.deals.deal_file import holds_deal
from fedpact.mechanisms import MECHANISMS, Mechanism, resolve_mechanism
from fedpact.scenario import EXAMPLES, Money, Scenario, example, load_scenario
from fedpact.scenario.members_words import weight_questions
from fedpact.utils.errors import DealFails, InvalidInput, MissingExtra, NoFairDeal, error_context
from fedpact.utils.files import check_writable, choose_format, replace_files
from fedpact.utils.words import printable

if TYPE_CHECKING:
    from fedpact.negotiation.check import CheckedDeal, CheckedLedger

DEFAULT_EXAMPLE = "hospitals"
DEFAULT_MECHANISM = "externality"
MECHANISM_NAMES = f"{', '.join(MECHANISMS)}, one that a package registers, or package.module:Class"
PICTURES = (".png", ".svg", ".pdf")
OWN_PAGE = b'<meta name="generator" content="fedpact">'
LENGTH_OF_HEAD = 1000  # bytes of a page that say what wrote it

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A .toml or .json file, or a built-in federation (hospitals, if none is named).",
        metavar="[SCENARIO]",
        show_default=False,
    ),
]
DealArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A deal: a file of `fedpact compare -o`, of `fedpact negotiate` or of the explorer, or a ledger. By "
        "default the deal that `fedpact compare` recommends."
    ),
]
MechanismOption = Annotated[str, typer.Option("--mechanism", "-m", help=f"One of {MECHANISM_NAMES}.")]
DealMechanism = Annotated[
    str | None,
    typer.Option(
        "--mechanism",
        "-m",
        help=f"The rules: {MECHANISM_NAMES}. By default those of the file, or what is recommended. Of a file with "
        "several deals, which one.",
        show_default=False,
    ),
]
Unchecked = Annotated[
    bool,
    typer.Option("--unchecked", help="Take the deal as it stands: neither its numbers nor its scenario is checked."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")]
Numbers = Annotated[Path, typer.Option("--output", "-o", help="The numbers, as .csv.")]
Picture = Annotated[Path | None, typer.Option("--plot", help="A picture, as .png, .svg or .pdf.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same numbers.", min=0)]

_files_from: Path | None = None


def allow_files_from(folder: Path | None) -> None:
    """Let scenarios name files in a folder of the user's choice too, until the end of the command."""
    global _files_from  # noqa: PLW0603 - set once, before a command runs
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"--files-from must be a folder, got {str(folder)!r}")
    _files_from = folder


def read_scenario(given: str) -> Scenario:
    """The scenario of a file, or a built-in one by name."""
    if given in EXAMPLES:
        return example(given)
    if not Path(given).suffix and not os.path.exists(given):
        raise InvalidInput(
            f"there is no file {given!r:.300} and no built-in federation of that name; "
            f"built in are {', '.join(EXAMPLES)}"
        )
    try:
        scenario = load_scenario(given, files_from=_files_from)
    except InvalidInput as error:
        if not holds_deal(Path(given)):
            raise
        raise InvalidInput(
            f"{given}: this is a deal, and a scenario belongs here; a command that takes both takes the scenario "
            f"first: SCENARIO {given}"
        ) from error
    if scenario.uncertainty is None and scenario.measured is None:
        for question in weight_questions(scenario.federation):
            typer.echo(f"question: {printable(question)}", err=True)
    if scenario.not_recommended:
        typer.echo(f"warning: {printable(scenario.not_recommended)}", err=True)
    return scenario


def choose_mechanism(name: str) -> Mechanism:
    """The mechanism a person names; an import path counts from the folder they are in as well."""
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return resolve_mechanism(name)


@contextmanager
def amounts_in(money: Money | None) -> Iterator[None]:
    """Where there is no fair deal, what it would take is said in the scenario's money, if it has some."""
    try:
        yield
    except NoFairDeal as error:
        if money is None:
            raise
        raise NoFairDeal(error.text(money.text), groups=error.groups, subsidy=error.subsidy) from error


def checked_deal(scenario: Scenario, path: Path | None, name: str | None, **details: Any) -> CheckedDeal:
    """A file's deal, or the one a mechanism makes, held to what it promises; `details` as in `check_deal`.

    Without a file and a name it is the deal that `fedpact compare` recommends.
    """
    from fedpact.comparison import compare  # noqa: PLC0415 - only for deals
    from fedpact.fitting.delivery import check_run  # noqa: PLC0415 - as above
    from fedpact.negotiation.check import check_deal, check_solved  # noqa: PLC0415 - as above

    rules, federation, money = None if name is None else choose_mechanism(name), scenario.federation, scenario.money
    with amounts_in(money):
        if path is not None:
            if is_ledger(path) and details.get("found") is None:
                details["found"] = check_run(path)
            return check_deal(path, federation, rules=rules, money=money, **details)
        if rules is not None:
            outcome = rules.solve(federation)
            return check_solved(rules, outcome, outcome.deal, money=money, claims=details.get("claims"))
        compared = compare(scenario)
        recommended, deal = compared.recommended_outcome, compared.recommended_deal
        if recommended is None or deal is None:
            raise InvalidInput("fedpact compare recommends no deal here; name a deal's file, or a mechanism with -m")
        rules = compared.mechanism(recommended.mechanism)
        return check_solved(rules, recommended, deal, money=money, claims=details.get("claims"))


def choose_deal(
    scenario: Scenario,
    path: Path | None,
    name: str | None,
    *,
    unchecked: bool = False,
    ledger: CheckedLedger | None = None,
) -> Deal:
    """The deal to carry out: that of a file, the one that a mechanism makes, or the one that is recommended.

    Parameters
    ----------
    name
        The mechanism that makes it; of a file with several deals, which one.
    unchecked
        Whether to take a deal that does not hold, or is one of another scenario.
    ledger
        The ledger that the file is, where it was checked already.

    Raises
    ------
    InvalidInput
        If the deal is one of another scenario.
    DealFails
        If it does not hold, with the difference.
    """
    rules = None if name is None else choose_mechanism(name)
    stated = None if path is None else load_deal(path, mechanism=None if rules is None else rules.name)
    if unchecked and stated is not None:
        deal = replace(stated, scenario=None)
    else:
        found = checked_deal(scenario, path, name, found=ledger)
        if found.failures and not unchecked:
            what, argument = (path, path) if path else (f"the deal of {found.rules.name}", f"-m {found.rules.name}")
            raise DealFails(
                f"{what}: this deal does not hold: {found.difference}; `fedpact check SCENARIO {argument}` shows "
                f"everything, --unchecked takes the deal as it is"
            )
        deal = found.deal
    if path is None:
        return deal
    # Where a mechanism federates nobody everybody trains alone, even if the file does not say so.
    known = MECHANISMS.get(deal.mechanism) if rules is None else rules
    if known is not None and not known.federated and deal.is_federated:
        deal = replace(deal, excluded=dict.fromkeys(deal.agents, TRAINS_ALONE))
    with error_context(str(path)):
        return deal.among([name for name in scenario.federation.names if name in deal.agents])


def say_unchecked(path: Path | None, *, unchecked: bool) -> None:
    """Say of a deal that was carried out that it was not checked."""
    if unchecked and path is not None:
        typer.echo(f"Not checked: {printable(str(path))} was taken as it stands, whatever scenario it is of.", err=True)


# Files to write


def check_output(path: Path | None, *, force: bool, suffixes: Sequence[str] = ()) -> None:
    """Refuse, before any work is done, a file that cannot be written or is there and must not be replaced.

    A page that fedpact wrote itself may be replaced: making a report anew needs no `--force`.
    """
    if path is None:
        return
    with error_context(str(path)):
        if suffixes:
            choose_format(path, dict.fromkeys(suffixes))
        check_writable(path)
    if os.path.exists(path) and not force and not _is_own_page(path):
        raise InvalidInput(f"{path} exists already; choose another name or say --force")


def _is_own_page(path: Path) -> bool:
    """Whether a page that fedpact wrote lies there, which may be made anew."""
    if path.suffix != ".html" or not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return OWN_PAGE in file.read(LENGTH_OF_HEAD)
    return False


def check_picture(path: Path | None, *, force: bool = True) -> None:
    """Raise `InvalidInput` for a name that could not be written, `MissingExtra` for a picture nobody can draw."""
    if path is None:
        return
    with error_context(str(path)):
        if path.suffix.lower() not in PICTURES:
            raise InvalidInput(f"a picture's name must end in {', '.join(PICTURES)}")
    check_output(path, force=force)
    from fedpact.report.plots.style import new_figure  # noqa: PLC0415 - optional dependency

    new_figure(1.0, 1.0)


def picture_beside(numbers: Path, asked: Path | None, *, force: bool) -> Path | None:
    """The picture that comes with a table: the one asked for, or one beside the table if it can be drawn."""
    picture = asked or numbers.with_suffix(".png")
    try:
        check_picture(picture, force=force)
    except MissingExtra as error:
        if asked is not None:
            raise
        typer.echo(f"no picture {printable(str(picture))}: {error}", err=True)
        return None
    return picture


def write_picture(result: Any, path: Path | None, **options: Any) -> None:
    """Draw a result and write the picture whole, or leave what was there."""
    if path is None:
        return
    from fedpact.report.plots.style import figure_bytes  # noqa: PLC0415 - optional dependency

    with error_context(str(path)):
        replace_files({path: figure_bytes(result.plot(**options), path.suffix[1:].lower())})
