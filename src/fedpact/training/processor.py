"""The cores, as JAX sees them.

JAX starts once in a process, with what it finds then. Started here it gets as many threads as fedpact may use, and
works in the thread that calls it, so that several models are trained at once. More threads than models pass the work of
a model to and fro, which takes longer than leaving it to one. Where JAX runs already, all is as right and some slower.
"""

from __future__ import annotations

import os

from fedpact.utils.errors import MissingExtra
from fedpact.utils.threads import thread_count

try:
    import jax
except ImportError as error:
    raise MissingExtra("Training", "train") from error

__all__ = ["processor"]

VARIABLE = "NPROC"  # read by JAX when it starts


def processor() -> jax.Device:
    """The processor, never an accelerator: models as small as these gain nothing from one."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
    told = VARIABLE in os.environ
    if not told:
        os.environ[VARIABLE] = str(thread_count())
    try:
        return jax.devices("cpu")[0]
    finally:
        if not told:
            del os.environ[VARIABLE]
