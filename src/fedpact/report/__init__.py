"""What people read: numbers, words, tables and pictures, said once; and the report for the members.

The report is one self-contained HTML page about a comparison, to mail and to print. Plots and tables of results are
methods of the results; they import this package when they are asked for. May use: everything below, except flower.
"""

from fedpact.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
