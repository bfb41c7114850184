"""Payments to money: balances in whole cents that sum to zero exactly, and few transfers that carry them out.

`rounding` turns amounts into cents, `transfers` finds who pays whom, `ledger` keeps and writes the result. "Cent"
stands for the smallest unit of the currency, 10**-decimals. Money is counted in integers; floats are read exactly, as
fractions.
"""

from fedpact.settlement.ledger import Settlement, Transfer, settle

__all__ = ["Settlement", "Transfer", "settle"]
