"""Serving over streamable HTTP, to programs of this machine alone."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from .app import build_server
from .leaving import leave
from .limits import limits_from_environment
from .log import log_to_stderr

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ..tools.workspace import Workspace

PATH = "/mcp"
"""Where the endpoint is."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""What an address may name: whoever reaches the port may ask about every capture below the roots."""

MAX_BODY_BYTES = 1 << 20
"""A request holds the arguments of one call."""

MAX_SESSIONS = 256
"""Clients of the era of the handshake at once; a session ends half an hour after its last call."""

SHUTDOWN_S = 2
"""How long running calls are waited for when the server is told to end, in seconds; they are stopped at once."""

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """A loopback host, and a port; 0 for any that is free."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The endpoint's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


def parse_address(text: str) -> Address:
    """The address `HOST:PORT`. Raises ValueError, with a reason, for anything but a loopback one."""
    found = _ADDRESS.fullmatch(text)
    if not found or int(found["port"]) > 65_535:
        raise ValueError("it takes HOST:PORT, such as 127.0.0.1:8765; port 0 is any that is free")
    host = found["six"] or found["host"]
    if host not in LOOPBACK:
        raise ValueError(
            f"it serves {', '.join(LOOPBACK)} only, since whoever reaches it may ask about every capture; from another "
            "machine, come through a tunnel: ssh -L 8765:127.0.0.1:8765 MACHINE"
        )
    return Address(host, int(found["port"]))


def build_app(server: Server[Any], port: int) -> Starlette:
    """The web application of a server that is reached on this port.

    A browser sends the name that it looked up as Host, and the page's own address as Origin: only those of this
    machine are answered, so that no page of another site can reach the server, not by DNS rebinding either.
    """
    hosts = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")]
    return server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=False,  # else a client that leaves does not stop its call
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        ),
    )


def serve_http(open_workspace: Callable[[], Workspace], address: Address) -> None:
    """Serve any number of clients until the process is told to end. Raises OSError when the address is taken."""
    log_to_stderr()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.create_server((address.host, address.port), family=family) as listening:
        address = Address(address.host, listening.getsockname()[1])
        app = build_app(build_server(open_workspace, limits_from_environment()), address.port)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=SHUTDOWN_S, server_header=False
        )
        for number in (signal.SIGTERM, signal.SIGINT):  # raised again by uvicorn when it has ended
            signal.signal(number, lambda *_: None)
        print(f"Serving MCP at {address.url}. Ctrl-C ends it.", file=sys.stderr, flush=True)
        uvicorn.Server(config).run(sockets=[listening])
    leave()
