"""The commands: what each is for, put together, and what happens when one fails.

A command's module is imported when it is run, so that help comes at once.

Exit codes: 0 done, 1 a claim fails, 2 bad input, 3 not converged, 4 an error in fedpact itself, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup  # Typer may bring a copy of Click of its own: only its names are used

from fedpact import __version__
from fedpact.utils.errors import DealFails, FedpactError, InvalidInput, NoFairDeal, NotConverged
from fedpact.utils.threads import thread_setting
from fedpact.utils.words import count_text, printable

COMMANDS = {
    "From data to a federation": {
        "new": "Write a commented scenario file to fill in.",
        "pilot": "Measure on members' tables whether a deal would pay.",
        "fit": "Estimate weights and curves from measured accuracies.",
        "lots": "Cut samples into kinds of data: good, fair, harmful.",
    },
    "The deal": {
        "compare": "Compare the mechanisms: who brings, pays, leaves, gains.",
        "solve": "Solve one mechanism, with its certificates.",
        "check": "Check a deal against what its mechanism promises.",
        "shapley": "Each member's fair share of what the data is worth.",
        "sweep": "Vary one or two numbers and see how the deal changes.",
        "explore": "Edit a federation in the browser and watch its deal.",
    },
    "Between the members": {
        "negotiate": "Let the members negotiate; each answers for itself.",
        "agent": "The private file with which a member negotiates.",
        "flower": "Run a deal between real nodes, on Flower.",
        "train": "Train under a deal and see whether it keeps its promise.",
        "verify": "Estimate what share of its data each member delivered.",
        "settle": "Turn a deal's payments into transfers of money.",
    },
    "Research": {
        "study": "Try mechanisms on many random federations.",
        "paper": "Compute the paper's figures and tables anew.",
    },
}
# How a command ends.
DONE, CLAIM_FAILS, BAD_INPUT, NOT_CONVERGED, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 130
IN_WORDS = (
    f"{DONE} done, {CLAIM_FAILS} a claim fails, {BAD_INPUT} bad input, {NOT_CONVERGED} not converged, "
    f"{BUG} an error in fedpact itself, {INTERRUPTED} interrupted"
)
MAX_ERRORS = 10  # of one input, shown at once
TRACEBACK = "FEDPACT_TRACEBACK"  # set in the environment, it shows where an unexpected error comes from


class CommandsOnDemand(TyperGroup):
    """A group that knows its commands by name and purpose, and loads the one that is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        purposes = {name: purpose for commands in COMMANDS.values() for name, purpose in commands.items()}
        self.commands = {name: TyperCommand(name, short_help=purpose) for name, purpose in purposes.items()}
        self._loaded: dict[str, Any] = {}
        self._only_listed = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command's module, if there is such a command."""
        if self._only_listed:
            return self.commands.get(cmd_name)
        if cmd_name in self.commands and cmd_name not in self._loaded:
            self._loaded[cmd_name] = _load(cmd_name)
        return self._loaded.get(cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Commands with their purpose, or options if one has been begun; no command is imported."""
        self._only_listed = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._only_listed = False

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command, and import none."""
        width = max(map(len, self.commands))
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), purpose) for name, purpose in commands.items()])


def _load(name: str) -> Any:
    found = getattr(import_module(f"fedpact.cli.{name}"), name)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    return typer.main.get_command(found)


app = typer.Typer(
    name="fedpact",
    cls=CommandsOnDemand,
    rich_markup_mode=None,  # plain help takes a third of the time
    help="Design, certify and settle the deal behind a federated model.",
    epilog="SCENARIO is a .toml or .json file, or a built-in federation: hospitals, hospitals-lots, "
    "hospitals-privacy, paper-w1, paper-w2, paper-w3.\n\n"
    f"Exit codes: {IN_WORDS}.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedpact {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    files_from: Annotated[
        Path | None,
        typer.Option(
            "--files-from",
            help="A folder, besides its own, in which a scenario's files (weights, factor) may lie.",
            metavar="FOLDER",
        ),
    ] = None,
) -> None:
    if files_from is not None:
        from fedpact.cli.inputs import allow_files_from  # noqa: PLC0415 - slow to import

        allow_files_from(files_from)


def main() -> None:
    """Run the command line; errors become a line each and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name the terminal cannot show is no reason to stop
    with _ending_quietly_with_the_reader():
        _run()


def _run() -> None:
    try:
        thread_setting()
        app()
    except NoFairDeal as error:
        _fail_without_deal(error)
    except NotConverged as error:
        _fail(error, NOT_CONVERGED)
    except FedpactError as error:
        _fail(error, CLAIM_FAILS if isinstance(error, DealFails) else BAD_INPUT)
    except MemoryError:
        _fail("this takes more memory than there is; try fewer members or a smaller file", BAD_INPUT)
    except OSError as error:
        what = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
        _flush_error()  # what cannot be written is said once
        _fail(f"the system refuses: {what}", BAD_INPUT)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):  # so Typer hands one on
            typer.echo("interrupted", err=True)
        raise
    except Exception as error:
        _fail(
            f"{type(error).__name__}: {error}. This is an error in fedpact itself; please report it, with the command, "
            f"its files and what {TRACEBACK}=1 in the environment adds",
            BUG,
        )


@contextmanager
def _ending_quietly_with_the_reader() -> Iterator[None]:
    """When a reader such as `head` has seen enough, end like other commands, not with a failed claim's exit code."""
    try:
        output = os.dup(sys.stdout.fileno())
    except (OSError, ValueError):  # no output, or one that is no file
        yield
        return
    try:
        yield
    finally:
        full = _flush_error()
        if _has_no_reader(output):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.raise_signal(signal.SIGPIPE)
        os.close(output)
        if full is not None:
            _fail(f"the output cannot be written: {full.strerror}", BAD_INPUT)


def _flush_error() -> OSError | None:
    """Why the rest of the output cannot be written, if so; then it is dropped, lest Python tries again at the end."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return error
    return None


def _has_no_reader(output: int) -> bool:
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(output, select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _fail(error: object, code: int) -> NoReturn:
    """Say what is wrong, a line for each mistake found at the same time, of many the first few; end with the code."""
    if os.environ.get(TRACEBACK):
        traceback.print_exc()
    found = _mistakes(error.errors) if isinstance(error, InvalidInput) else [str(error)]
    for text in found[:MAX_ERRORS]:
        typer.echo(f"error: {printable(text)}", err=True)
    if len(found) > MAX_ERRORS:
        typer.echo(f"... and {count_text(len(found) - MAX_ERRORS, 'more error')}", err=True)
    sys.exit(code)


def _fail_without_deal(error: NoFairDeal) -> NoReturn:
    """Say that there is no deal as the mechanism has it, with --json as an object too: nothing failed to converge."""
    if "--json" in sys.argv:
        from fedpact.cli.screen import print_json  # noqa: PLC0415 - loaded by the command that failed
        from fedpact.utils.jsonl import jsonable  # noqa: PLC0415 - as above

        print_json(jsonable({"error": str(error), "groups": error.groups, "subsidy": error.subsidy}))
    _fail(f"there is no such deal: {error}", CLAIM_FAILS)


def _mistakes(errors: Sequence[InvalidInput]) -> list[str]:
    """The errors in words; what breaks the same rule with the same value, for several agents, is said once."""
    alike: dict[object, dict[str, None]] = {}
    for error in errors:
        kind = (error.field, error.rule, repr(error.value)) if error.field and error.rule else str(error)
        alike.setdefault(kind, {})[str(error)] = None
    return [
        next(iter(texts)) + (f"; likewise {count_text(len(texts) - 1, 'other')}" if len(texts) > 1 else "")
        for texts in alike.values()
    ]
