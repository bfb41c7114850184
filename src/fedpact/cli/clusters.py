"""Where work is shared out to: this machine, or a Dask or Ray cluster that is running already.

joblib has a backend for both, so everything that `fedpact.utils.parallel` shares out goes to the cluster within the
block. Workers need the same fedpact.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedpact.utils.errors import FedpactError, InvalidInput, MissingExtra

DASK = re.compile(r"dask://([^\s/:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
RAY = re.compile(r"ray(?:://[^\s/:]+:\d{1,5})?")
CONNECT_SECONDS = 10


@contextmanager
def use_cluster(address: str) -> Iterator[None]:
    """Share work out to a cluster within the block.

    Parameters
    ----------
    address
        "dask://host:port" of a Dask scheduler; "ray" for the Ray cluster this machine belongs to, started on this
        machine alone if there is none, or "ray://host:port" for a distant one.
    """
    import joblib  # noqa: PLC0415 - slow to import

    if found := DASK.fullmatch(address):
        client = _dask_client(found[1], int(found[2]))
        try:
            with joblib.parallel_config(backend="dask", n_jobs=-1, client=client, wait_for_workers_timeout=10):
                yield
        finally:
            client.close()
    elif RAY.fullmatch(address):
        started = _start_ray(address)
        try:
            with joblib.parallel_config(backend="ray", n_jobs=_ray_cores()):
                yield
        finally:
            if started:
                _ray().shutdown()
    else:
        raise InvalidInput(f'cluster must be "dask://host:port", "ray" or "ray://host:port", got {address!r:.80}')


def _dask_client(host: str, port: int) -> Any:
    try:
        from distributed import Client  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("Dask", "dask") from error
    address = f"tcp://{host}:{port}"
    try:
        # Dask knocks again until the time is up; where nobody listens that is known at once.
        socket.create_connection((host.strip("[]"), port), timeout=CONNECT_SECONDS).close()
        client = Client(address, timeout=f"{CONNECT_SECONDS}s", set_as_default=False)
    except (OSError, TimeoutError, ValueError, OverflowError) as error:
        raise FedpactError(
            f"no Dask scheduler answers at {address}: start one with `dask scheduler`, and workers with "
            f"`dask worker {address}`"
        ) from error
    if not client.scheduler_info()["workers"]:
        client.close()
        raise FedpactError(f"the Dask scheduler at {address} has no workers: start some with `dask worker {address}`")
    return client


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("Ray", "ray") from error
    return ray


def _start_ray(address: str) -> bool:
    """Join a Ray cluster, or start one on this machine; whether somebody has to end that."""
    ray = _ray()
    from ray.util.joblib import register_ray  # noqa: PLC0415 - optional dependency

    register_ray()
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address != "ray":
            ray.init(address, **options)
            return True
        try:
            ray.init("auto", **options)
        except ConnectionError:
            ray.init(include_dashboard=False, **options)
    except (ConnectionError, OSError, RuntimeError) as error:
        raise FedpactError(f"no Ray cluster answers at {address}: {error}") from error
    return True


def _ray_cores() -> int:
    return max(1, int(_ray().cluster_resources().get("CPU", 1)))
