"""The option of commands that can work on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from fedpact.utils.clusters import use_cluster

ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", help="Share the work out to a cluster: dask://host:port, or ray.", metavar="ADDRESS"),
]


@contextmanager
def working_on(cluster: str | None) -> Iterator[None]:
    """Share work out to a cluster, if one is named."""
    if cluster is None:
        yield
        return
    with use_cluster(cluster):
        yield
