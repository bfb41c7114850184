"""Deals: who contributes what and who is paid what, everything that follows, and how it is settled and recorded.

`Deal` is what the rest of the package takes; an `Outcome` is a deal with its federation. May use: utils, federation,
scenario, shapley, solvers, certificates.
"""

from fedpact.deals.deal import Deal, Messages, Provenance, Source, whole_samples
from fedpact.deals.deal_file import load_deal
from fedpact.deals.ledger import Entry, Ledger, is_ledger, read_ledger
from fedpact.deals.outcome import Equilibria, Outcome, Outcomes
from fedpact.deals.settlement import Settlement, Transfer, settle

__all__ = [
    "Deal",
    "Entry",
    "Equilibria",
    "Ledger",
    "Messages",
    "Outcome",
    "Outcomes",
    "Provenance",
    "Settlement",
    "Source",
    "Transfer",
    "is_ledger",
    "load_deal",
    "read_ledger",
    "settle",
    "whole_samples",
]
