"""The MCP server: the registry's tools over whatever transport, in both protocol eras.

The skills are loaded when a client first asks for tools, and DuckDB, Arrow and numpy after that answer: before, they
would make the client wait half as long again for its first reply.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError
from mcp.server import CacheHint, Server, ServerRequestContext

from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.wire import clean_text, dump_json
from . import DISTRIBUTION, version
from .calls import Calls
from .instructions import INSTRUCTIONS
from .limits import Limits
from .log import describe_failure
from .once import Once
from .progress import ProgressReports

if TYPE_CHECKING:
    from ..ingest.interrupt import Interrupt
    from ..tools.registry import Skill
    from ..tools.workspace import Workspace
    from .catalogue import Catalogue

Context = ServerRequestContext[Any, Any]

TOOLS_TTL_MS = 3_600_000
"""How long a client may keep the list of tools, which never changes while a server runs."""

logger = logging.getLogger(__name__)


def build_server(
    open_workspace: Callable[[], Workspace], limits: Limits | None = None, skills_directory: Path | None = None
) -> Server[Any]:
    """A server over every registered skill, and the custom ones of a directory, read when tools are first asked for.

    Args:
        open_workspace: makes the library and the ledger, at the first call.
        limits: limits of calls.
        skills_directory: where custom skills are; None for none.
    """
    catalogue = Once(partial(_load_catalogue, skills_directory))
    workspace = Once(open_workspace)
    calls = Calls(limits or Limits())
    prepared = threading.Event()

    def prepare() -> None:
        with contextlib.suppress(Exception):  # the first call meets the same failure, and answers with it
            _load_runner()
            workspace.get()

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = (await catalogue.wait()).tools
        if not prepared.is_set():  # what calls need is loaded while the client reads
            prepared.set()
            threading.Thread(target=prepare).start()
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        skills = (await catalogue.wait()).skills
        if (skill := skills.get(params.name)) is None:
            raise MCPError(types.INVALID_PARAMS, _unknown_tool(params.name, skills))
        progress = ProgressReports(context.session.report_progress)

        def work(interrupt: Interrupt) -> types.CallToolResult:
            return _answer(skill, params.arguments, replace(workspace.get(), progress=progress), interrupt)

        try:
            return await calls.run(work)
        except EvidenceError as error:
            return _failed(error)
        except Exception as error:
            logger.error("%s failed: %s", skill.name, describe_failure(error))
            return _failed(internal_error(skill.name))

    return Server(
        DISTRIBUTION,
        version=version(),
        title="Nsight Systems evidence",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_TTL_MS, scope="public")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _load_catalogue(skills_directory: Path | None) -> Catalogue:
    from .catalogue import load_catalogue

    return load_catalogue(skills_directory)


def _load_runner() -> Callable[..., dict[str, Any]]:
    from ..tools import run

    return run.run_skill


def _answer(
    skill: Skill, arguments: Mapping[str, object] | None, workspace: Workspace, interrupt: Interrupt
) -> types.CallToolResult:
    """Run the skill, in a worker thread. The text is the same JSON: some clients show the model only one of the two."""
    envelope = _load_runner()(skill, arguments, workspace, interrupt)
    text = types.TextContent(type="text", text=dump_json(envelope))
    return types.CallToolResult(content=[text], structured_content=envelope)


def _failed(error: EvidenceError) -> types.CallToolResult:
    """An error as a tool result: text only, since structured content would have to match the output schema."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=error.to_json())], is_error=True)


def _unknown_tool(name: str, known: Iterable[str]) -> str:
    shown = clean_text(name, limit=80)
    near = difflib.get_close_matches(shown, list(known), 3, cutoff=0.4)
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    return f"Unknown tool: {shown}; {nearest}tools/list names all"


def internal_error(skill: str) -> EvidenceError:
    """The error for what was not foreseen; what happened is in the log."""
    return EvidenceError(
        ErrorCode.INTERNAL,
        f"{skill} failed in a way that it should not",
        "other tools still work; the log on stderr names the place, please report it with the output of profile_info",
    )
