"""Serving over stdin and stdout, which carry JSON-RPC and nothing else."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from mcp.server.stdio import stdio_server

from .app import build_server
from .leaving import leave
from .limits import limits_from_environment
from .log import log_to_stderr

if TYPE_CHECKING:
    from ..tools.workspace import Workspace

logger = logging.getLogger(__name__)


def serve_stdio(open_workspace: Callable[[], Workspace], skills_directory: Path | None = None) -> None:
    """Serve one client until it closes stdin; a call that is running then is stopped, and left behind if it won't.

    The transport points descriptors 0 and 1 at the null device and at stderr meanwhile, so that no library and no
    child process reads or writes the wire.
    """
    log_to_stderr()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a handler of Python's would wait for stdin (python-sdk issue 3551)
    server = build_server(open_workspace, limits_from_environment(), skills_directory)

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    try:
        anyio.run(serve)
    except* BrokenPipeError:
        logger.warning("the client closed its end of stdout")
    leave()
