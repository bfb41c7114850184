"""Many small federations at once: stacked, solved by compiled code, with the outcomes and certificates of each."""

from fedpact.batch.outcomes import BatchOutcome
from fedpact.batch.solving import solve_batch
from fedpact.batch.stack import Batch

__all__ = ["Batch", "BatchOutcome", "solve_batch"]
