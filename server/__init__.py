"""MCP over stdio, the evidence ledger, limits, and the command line. No analysis in here."""

from __future__ import annotations

import importlib.metadata

DISTRIBUTION = "nsys-evidence"
"""The name of the distribution, of the command and of the MCP server."""


def version() -> str:
    """The version of the installed distribution."""
    return importlib.metadata.version(DISTRIBUTION)
