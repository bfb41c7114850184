"""The record of a run: what was agreed, what was done and what is owed, in a file that cannot be changed unnoticed."""

from fedpact.ledger.audit import Audit, audit
from fedpact.ledger.chain import Entry, Ledger, is_ledger, read_ledger

__all__ = ["Audit", "Entry", "Ledger", "audit", "is_ledger", "read_ledger"]
