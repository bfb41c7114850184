"""Deals: who contributes what and who is paid what, everything that follows, and how it is settled and recorded."""

from fedpact.deals.ledger import Entry, Ledger, is_ledger, read_ledger
from fedpact.deals.outcome import Equilibria, Outcome
from fedpact.deals.settlement import Settlement, Transfer, settle

__all__ = ["Entry", "Equilibria", "Ledger", "Outcome", "Settlement", "Transfer", "is_ledger", "read_ledger", "settle"]
