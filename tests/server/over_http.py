"""A server over HTTP without a socket: mcp's client, or plain requests, straight to the application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from nsys_evidence.server.address import Address
from nsys_evidence.server.app import build_server
from nsys_evidence.server.http import http_app
from nsys_evidence.server.limits import Limits
from nsys_evidence.server.surface import Surface
from nsys_evidence.tools.workspace import Workspace

ADDRESS = Address("127.0.0.1", 8765)


@asynccontextmanager
async def serving(
    within: Workspace, limits: Limits | None = None, surface: Surface | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Plain requests to a server."""
    app = http_app(build_server(lambda: within, limits, surface=surface), ADDRESS, limits or Limits())
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8765") as requests,
    ):
        yield requests


def client_over(requests: httpx2.AsyncClient, era: str = "auto") -> Client:
    """A client of the server that these requests reach."""
    return Client(streamable_http_client(ADDRESS.url, http_client=requests), mode=era)
