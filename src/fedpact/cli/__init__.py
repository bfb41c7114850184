"""The command line: `fedpact COMMAND`, one module per command.

May use: everything below.
"""

from fedpact.cli.app import main

__all__ = ["main"]
