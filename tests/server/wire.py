"""A server in a process of its own: through mcp's client, or line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVE = ["-m", "nsys_evidence.server", "serve"]
PROTOCOL = "2025-11-25"

CHECKOUT = Path(__file__).resolve().parents[2] / ".typing"
"""Where servers of their own import the package from: the tree that is tested, whatever is installed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server keeps its cache, its evidence and its custom skills."""

    directory: Path

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "NSYS_EVIDENCE_CACHE": str(self.cache),
            "NSYS_EVIDENCE_STATE": str(self.directory / "state"),
            "NSYS_EVIDENCE_SKILLS_DIR": str(self.skills),
            "PYTHONPATH": str(CHECKOUT),
        }

    @property
    def skills(self) -> Path:
        """The directory of custom skills."""
        return self.directory / "skills"


@asynccontextmanager
async def connected(place: Place, mode: str = "auto", *options: str) -> AsyncIterator[Client]:
    """A client of a freshly started server."""
    server = StdioServerParameters(command=sys.executable, args=[*SERVE, *options], env=place.environment)
    with open(os.devnull, "w") as errors:
        async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
            yield client


class RawServer:
    """A server that is spoken to line by line, in the era of the handshake."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[bytes] = []
        self._last_id = 0

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def notify(self, method: str, **extra: object) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", "method": method, **extra}).encode())

    def request(self, method: str, **extra: object) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        self.send_line(json.dumps({"jsonrpc": "2.0", "id": self._last_id, "method": method, **extra}).encode())
        return self._last_id

    def read(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.lines.append(line)
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, method: str, **extra: object) -> dict[str, Any]:
        """Send a request and return the answer to it."""
        number = self.request(method, **extra)
        while (message := self.read()).get("id") != number:
            pass
        return message

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The result of a tool call."""
        result: dict[str, Any] = self.ask("tools/call", params={"name": tool, "arguments": arguments})["result"]
        return result

    def shake_hands(self) -> dict[str, Any]:
        """Initialize the connection; what the server says of itself."""
        who = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        result: dict[str, Any] = self.ask("initialize", params=who)["result"]
        self.notify("notifications/initialized")
        return result

    def close(self) -> tuple[int, bytes, bytes]:
        """Close stdin; the exit code, what was left on stdout, and stderr."""
        rest, errors = self.process.communicate(timeout=20)
        return self.process.returncode, rest, errors


@contextmanager
def raw_server(place: Place, command: list[str] | None = None, **environment: str) -> Iterator[RawServer]:
    """A freshly started server, killed at the end if it still runs.

    It stands in the root directory, with no search path and no home, as some clients start servers.
    """
    process = subprocess.Popen(
        [sys.executable, *(command or SERVE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "", **place.environment, **environment},
        cwd="/",
    )
    try:
        yield RawServer(process)
    finally:
        process.kill()
        process.communicate()
