"""The lines that add the server to MCP clients."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

from .. import DISTRIBUTION


def server_command() -> list[str]:
    """The command that starts the server: by name where the shell finds it, else by its absolute path."""
    if shutil.which(DISTRIBUTION):
        return [DISTRIBUTION, "serve"]
    beside = Path(sys.executable).parent / DISTRIBUTION
    if beside.is_file():
        return [str(beside), "serve"]
    return [sys.executable, "-m", "nsys_evidence.server", "serve"]


def client_lines(command: list[str]) -> list[tuple[str, str]]:
    """What to do for each client, and the line or the file content to do it with."""
    started = {"command": command[0], "args": command[1:]}
    cursor = {"mcpServers": {DISTRIBUTION: started}}
    vs_code = {"servers": {DISTRIBUTION: {"type": "stdio", **started}}}
    return [
        ("Claude Code, in a shell", f"claude mcp add {DISTRIBUTION} -- {shlex.join(command)}"),
        ("Cursor, in .cursor/mcp.json", json.dumps(cursor, indent=2)),
        ("VS Code, in .vscode/mcp.json", json.dumps(vs_code, indent=2)),
    ]
