"""The report for the members: one self-contained HTML page about a comparison, to mail and to print."""

from fedpact.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
