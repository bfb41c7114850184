"""`fedpact flower`: apps, certificates and keys for negotiating, training and settling on Flower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from fedpact.cli import inputs, screen
from fedpact.utils.errors import InvalidInput

flower = typer.Typer(
    name="flower", help="Run a deal between real nodes, on Flower.", no_args_is_help=True, add_completion=False
)


@flower.command()
def new(
    folder: Annotated[Path, Argument(help="The folder to make.")],
    scenario: Annotated[
        str, Argument(help="A file, or a built-in one.", metavar="[SCENARIO]")
    ] = inputs.DEFAULT_EXAMPLE,
    rounds: Annotated[int, Option("--rounds", help="Rounds of training.", min=1)] = 3,
    samples_per_unit: Annotated[float, Option("--samples-per-unit", help="Samples in a unit of data.")] = 1.0,
    as_json: inputs.AsJson = False,
) -> None:
    """Write a ready Flower app for a scenario, and a private file for each of its members."""
    from fedpact.flower.settings import write_app  # noqa: PLC0415 - optional dependency

    if not 0.0 < samples_per_unit < float("inf"):
        raise InvalidInput(f"--samples-per-unit must be positive, got {samples_per_unit}")
    written = write_app(folder, inputs.read_scenario(scenario), rounds=rounds, samples_per_unit=samples_per_unit)
    _finish(
        {"path": str(folder), "files": [str(path) for path in written]},
        f"{folder} written; {folder / 'README.md'} says how to run it: flwr run {folder / 'app'} ...",
        as_json=as_json,
    )


@flower.command()
def keys(
    folder: Annotated[Path, Argument(help="The folder to write to.")],
    host: Annotated[str, Option("--host", help="The address of the SuperLink.")] = "127.0.0.1",
    nodes: Annotated[int, Option("--nodes", help="Make keys for so many nodes.", min=0)] = 0,
    as_json: inputs.AsJson = False,
) -> None:
    """Make the SuperLink's certificate, an authority that signs it, and keys for nodes."""
    from fedpact.flower.keys import write_keys  # noqa: PLC0415 - optional dependency

    written = write_keys(folder, host=host, nodes=nodes)
    _finish(
        {"path": str(folder), "files": [str(path) for path in written]},
        f"{len(written)} files written to {folder}; those that end in .key are secret",
        as_json=as_json,
    )


@flower.command()
def key(
    path: Annotated[Path, Argument(help="The file to write the private key to.")],
    name: Annotated[str, Option("--name", help="The member's name, as in its private file.")],
    as_json: inputs.AsJson = False,
) -> None:
    """Make the key a member signs with, and proves itself to the SuperLink with: FILE, and FILE.pub for the others."""
    from fedpact.deals.signatures import write_signing_key  # noqa: PLC0415 - optional dependency

    if not name.strip():
        raise InvalidInput("--name must be the member's name, got nothing")
    made = write_signing_key(path, name=name)
    public = path.with_name(path.name + ".pub")
    _finish(
        {"key": str(path), "public": str(public), "text": f"{made.public} {' '.join(name.split())}"},
        f"{path} written, which is secret, and {public}, which everybody in the deal should have",
        as_json=as_json,
    )


@flower.command()
def agent(
    path: Annotated[Path, Argument(help="The private file to write.")],
    scenario: Annotated[
        str, Argument(help="A file, or a built-in one.", metavar="[SCENARIO]")
    ] = inputs.DEFAULT_EXAMPLE,
    name: Annotated[str, Option("--name", help="Which of its members.")] = "",
    as_json: inputs.AsJson = False,
) -> None:
    """Write one member's private file: its own row of a scenario, and nothing about the others but their number."""
    from fedpact.flower.settings import write_private_file  # noqa: PLC0415 - optional dependency

    known = inputs.read_scenario(scenario)
    names = known.federation.names
    if name not in names:
        raise InvalidInput(f"--name must be one of {', '.join(names)}, got {name!r}")
    write_private_file(path, known, names.index(name))
    _finish({"path": str(path), "name": name}, f"{path} written; it is private to {name}", as_json=as_json)


def _finish(record: dict[str, Any], said: str, *, as_json: bool) -> None:
    """What was written, as an object or as a sentence."""
    if as_json:
        screen.print_json(record)
    else:
        typer.echo(said)
