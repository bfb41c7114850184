"""The command line: `fedpact COMMAND`, one module per command."""

from fedpact.cli.app import main

__all__ = ["main"]
