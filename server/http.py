"""Serving over streamable HTTP on this machine: many clients at once, of both protocol eras."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from .address import Address
from .app import build_server
from .leaving import leave
from .limits import Limits, limits_from_environment
from .log import log_to_stderr

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.applications import Starlette

    from ..tools.workspace import Workspace

STOP_S = 1
"""How long calls may go on when the server is told to stop, in seconds; then they are interrupted."""


def http_app(server: Server[Any], address: Address, limits: Limits) -> Starlette:
    """The server as an ASGI application with one route, `/mcp`.

    A request whose Host or Origin header names anything but `address` is refused, so that a web page cannot reach the
    server by a name that it resolves to this machine.
    """
    app = server.streamable_http_app(
        json_response=False,  # or a call that its client cancels would go on, and report no progress
        max_request_body_size=limits.body_bytes,
        max_sessions=limits.sessions,
        transport_security=TransportSecuritySettings(allowed_hosts=address.hosts, allowed_origins=address.origins),
    )
    app.router.redirect_slashes = False  # a redirect would repeat whatever the Host header says
    return app


def serve_http(open_workspace: Callable[[], Workspace], address: Address, skills_directory: Path | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then give running calls `STOP_S` to end, and interrupt them.

    Raises:
        OSError: when the address cannot be listened on.
    """
    log_to_stderr()
    limits = limits_from_environment()
    with _listening(address) as listener:
        address = replace(address, port=listener.getsockname()[1])
        app = http_app(build_server(open_workspace, limits, skills_directory), address, limits)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it logs stopped calls as failures, with traces
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=STOP_S
        )
        _HttpServer(config, address.url).run([listener])
    leave()


@contextmanager
def _listening(address: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.create_server((address.host, address.port), family=family) as listener:
        yield listener


class _HttpServer(uvicorn.Server):
    """Says where it listens, and ends in peace on a signal, where uvicorn would raise the signal again."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stderr.write(f"nsys-evidence: serving MCP at {self._url}\n")
        sys.stderr.flush()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
