"""`fedpact negotiate`: agents reach the Externality deal by questions and answers, on record if wanted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.markup import escape

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    console,
    counter,
    print_agents,
    print_json,
    read_scenario,
    terminal_text,
)
from fedpact.cli.pictures import can_draw, check_picture, write_picture
from fedpact.cli.rounds import Overheard, Rounds, price_text, status_line
from fedpact.cli.transcripts import recomputed
from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_record
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX, Header, Transcript, read_transcript
from fedpact.federation import Federation
from fedpact.negotiation import PROTOCOLS, Channel, InProcess
from fedpact.negotiation.recording import Playback, Recorder, negotiated, transcript_header
from fedpact.report.numbers import Unit, number_texts
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import check_table_name, write_table
from fedpact.utils.words import count_text

__all__ = ["negotiate"]

INTERRUPTED = 130
STUDIES = ("misreport",)
ROOM = 110  # columns


def negotiate(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    protocol: Annotated[
        str, typer.Option("--protocol", help=f"One of {', '.join(PROTOCOLS)}.", metavar="NAME")
    ] = "price-discovery",
    game: Annotated[
        bool, typer.Option("--game/--no-game", help="Settle by the message game, or at the personal prices.")
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "--transcript", "--output", "-o", help="What is said, as .jsonl; of a study, its numbers.", metavar="FILE"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="The convergence, as .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Refuse to begin anew if there is no transcript to go on from.")
    ] = False,
    study: Annotated[
        str | None,
        typer.Option("--study", help=f"Instead: what lying would gain ({', '.join(STUDIES)}).", metavar="NAME"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let the agents negotiate the Externality deal; each says only what it is asked about itself.

    Interrupted and started again with the same transcript, a negotiation goes on where it was.
    """
    chosen = read_scenario(scenario)
    if study is not None:
        _study(chosen.federation, study, output, plot, as_json=as_json)
        return
    if plot is not None:
        check_picture(plot)
    header = _header(chosen, protocol, game=game)
    before = _transcript(output, header, resume=resume)
    if not as_json:
        console.print(f"[bold]{escape(chosen.title or 'Federation')}[/bold], negotiated by {protocol}")
    deal = _deal(chosen, header, output, before, as_json=as_json)
    if plot is not None:
        write_picture(deal.plot(), plot)
    over = before is not None and before.deal is not None
    files = [str(path) for path in (None if over else output, plot) if path is not None]
    if as_json:
        print_json(deal_record(deal) | {"trace": jsonable(deal.trace), "files": files})
        return
    _show(deal, Unit.of(chosen.money, [deal.provenance.welfare]))
    if files:
        console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


def _header(scenario: Scenario, protocol: str, *, game: bool) -> Header:
    """What is to be negotiated."""
    federation = scenario.federation
    return transcript_header(
        federation.names, protocol=protocol, game=game, title=scenario.title, scenario=federation.fingerprint
    )


def _transcript(path: Path | None, header: Header, *, resume: bool) -> Transcript | None:
    """The transcript to go on from, if there is one; refused if it is of something else."""
    if path is None:
        if resume:
            raise InvalidInput("--resume needs the transcript to go on from; name it with --transcript")
        return None
    with error_context(str(path)):
        if path.suffix.lower() != TRANSCRIPT_SUFFIX:
            raise InvalidInput(f"a transcript's name must end in {TRANSCRIPT_SUFFIX}")
        if not path.absolute().parent.is_dir():
            raise InvalidInput("there is no such folder; make it first")
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            if resume:
                raise InvalidInput("there is no transcript to go on from; check the path, or leave --resume out")
            return None
    before = read_transcript(path)
    if before.header != header:
        same = " with other numbers" if before.header.description == header.description else ""
        raise InvalidInput(
            f"{path} holds {before.header.description}{same}, not {header.description}; "
            f"name another file, or remove this one"
        )
    return before


def _deal(scenario: Scenario, header: Header, path: Path | None, before: Transcript | None, *, as_json: bool) -> Deal:
    """The deal, from the transcript as far as it goes, and on record from there."""
    over = before is not None and before.deal is not None
    if before is not None and not as_json:
        what = "This negotiation is over, after" if over else "Going on after"
        console.print(f"{what} {before.count} exchanges that are in {escape(str(before.path))}.")
    if before is not None and over:
        return _stated(before)
    agents = InProcess.of(scenario.federation)
    if path is not None:
        return _on_record(agents, scenario, header, path, before, as_json=as_json)
    try:
        return _followed(agents, header, scenario, as_json=as_json)
    except KeyboardInterrupt:
        _interrupted("nothing is kept; --transcript FILE would keep what is said")


def _stated(transcript: Transcript) -> Deal:
    """The deal of a negotiation that is over, if its exchanges come to the one it states."""
    found = recomputed(transcript)
    if found.failed:
        raise InvalidInput(
            f"{transcript.path} states another deal than its exchanges come to; "
            f"`fedpact check {transcript.path}` shows the difference"
        )
    return found.deal


def _on_record(
    agents: Channel, scenario: Scenario, header: Header, path: Path, before: Transcript | None, *, as_json: bool
) -> Deal:
    with Recorder.resume(agents, before) if before else Recorder.begin(agents, path, header) as recorder:
        channel: Channel = Playback(before, live=recorder) if before else recorder
        try:
            deal = _followed(channel, header, scenario, as_json=as_json)
            recorder.finish(deal_record(deal))
        except KeyboardInterrupt:
            kept = recorder.count + (before.count if before else 0)
            _interrupted(f"{kept} exchanges are kept in {path}, the same command goes on from there")
    return deal


def _followed(channel: Channel, header: Header, scenario: Scenario, *, as_json: bool) -> Deal:
    """A negotiation with its rounds on the terminal, unless the output is for a program."""
    with status_line(quiet=as_json) as status:
        if as_json:
            return negotiated(channel, header)
        overheard = Overheard(channel)
        console.print()
        rounds = Rounds(overheard, Unit.of(scenario.money), status)
        try:
            return negotiated(overheard, header, listener=rounds)
        finally:
            rounds.flush()


def _interrupted(kept: str) -> NoReturn:
    typer.echo(f"interrupted; {kept}", err=True)
    raise typer.Exit(INTERRUPTED) from None


def _show(deal: Deal, unit: Unit) -> None:
    console.print()
    out = [name in deal.excluded for name in deal.agents]
    prices = [price_text(float(price), unit) for price in -np.diag(deal.prices)]
    columns = [
        ("contributes", number_texts(deal.contributions)),
        ("price per sample", np.where(out, "-", prices).tolist()),
        ("is paid", np.where(out, "-", unit.column(deal.payments, signed=True)).tolist()),
    ]
    names = [f"{name} (out)" if gone else name for name, gone in zip(deal.agents, out, strict=True)]
    print_agents(f"Deal (amounts in {unit.label})", names, columns, sizes=deal.contributions)
    by = "at the personal prices" if deal.provenance.messages is None else "by the message game"
    welfare, rounds = escape(terminal_text(unit.text(deal.provenance.welfare))), count_text(deal.rounds, "round")
    console.print(f"Welfare {welfare} after {rounds}; settled {by}, payments add up to zero.")
    for name, reason in deal.excluded.items():
        console.print(f"[red]{escape(name)} is out[/red]: {escape(reason)}.")


# Studies


def _study(federation: Federation, name: str, output: Path | None, plot: Path | None, *, as_json: bool) -> None:
    """What lying would gain: a page on the terminal, its numbers and a picture as files."""
    from fedpact.negotiation.misreport_study import misreport_study  # noqa: PLC0415 - only for studies

    if name not in STUDIES:
        raise InvalidInput(f"--study must be one of {', '.join(STUDIES)}, got {name!r}")
    numbers = output or Path(f"{name}.csv")
    check_table_name(numbers)
    picture = plot or numbers.with_suffix(".png")
    draws = can_draw(picture, wanted=plot is not None)
    with counter("equilibria") as count:
        found = misreport_study(federation, progress=count)
    columns: Mapping[str, Any] = found.columns()
    write_table(numbers, columns)
    if draws:
        write_picture(found.plot(), picture)
    files = [str(numbers), *([str(picture)] if draws else [])]
    if as_json:
        print_json({"study": name, "columns": jsonable(columns), "text": found.text, "files": files})
        return
    _show_markdown(found.text)
    console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


def _show_markdown(text: str) -> None:
    """Set where there is room for its tables; elsewhere as it is written."""
    from rich.markdown import Markdown  # noqa: PLC0415 - only for studies

    if console.is_terminal and console.width >= ROOM:
        console.print(Markdown(text))
    else:
        console.print(escape(text.rstrip("\n")), soft_wrap=True)
