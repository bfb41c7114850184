"""What people read: numbers, words, tables and pictures, said once; and the report for the members.

The report is one self-contained HTML page about a comparison, to mail and to print: `page` puts it together from
`sections`; `member_page` is a single page for one member. `tables` makes every table of a result once; the terminal,
pages and the explorer are views of it, with the numbers of `numbers` and the words of `words`. Plots and
tables of results are methods of the results; they import this package when they are asked for. May use: everything
below, except flower.
"""

from fedpact.report.member_page import render_member_page
from fedpact.report.page import render_report, write_report

__all__ = ["render_member_page", "render_report", "write_report"]
