"""The MCP server: the registry's tools, prompts and resources over whatever transport, in both protocol eras.

The skills are loaded when a client first asks for tools, and DuckDB, Arrow and numpy after that answer: before, they
would make the client wait half as long again for its first reply.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError
from mcp.server import CacheHint, Server, ServerRequestContext

from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.wire import clean_text, dump_json
from . import DISTRIBUTION, version
from .calls import Calls
from .instructions import COMPACT_INSTRUCTIONS, INSTRUCTIONS
from .limits import Limits
from .log import describe_failure
from .once import Once
from .progress import ProgressReports
from .surface import Surface

if TYPE_CHECKING:
    from ..ingest.interrupt import Interrupt
    from ..tools.workspace import Workspace
    from .catalogue import Catalogue

Context = ServerRequestContext[Any, Any]

LISTS_TTL_MS = 3_600_000
"""How long a client may keep lists of tools, prompts and resources, which never change while a server runs."""

logger = logging.getLogger(__name__)


def build_server(
    open_workspace: Callable[[], Workspace], limits: Limits | None = None, *, surface: Surface | None = None
) -> Server[Any]:
    """A server over the registered skills.

    Args:
        open_workspace: makes the library and the ledger, at the first call.
        limits: limits of calls.
        surface: which tools there are; one for every skill without it.
    """
    shown = surface or Surface()
    catalogue = Once(lambda: _load_catalogue(shown))
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
        offered = await catalogue.wait()
        name, arguments = params.name, params.arguments
        if name not in offered.names:
            raise MCPError(types.INVALID_PARAMS, _unknown_tool(name, offered, shown))
        progress = ProgressReports(context.session.report_progress)

        def work(interrupt: Interrupt) -> types.CallToolResult:
            within = replace(workspace.get(), progress=progress)
            return _result(_answer(offered, name, arguments, within, interrupt))

        try:
            return await calls.run(work)
        except EvidenceError as error:
            return _failed(error)
        except Exception as error:
            meant = _meant(name, arguments, offered)
            logger.error("%s failed: %s", meant, describe_failure(error))
            return _failed(internal_error(meant))

    async def list_prompts(context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        from .prompts import list_prompts

        return types.ListPromptsResult(prompts=list_prompts((await catalogue.wait()).skills))

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        from .prompts import get_prompt

        return get_prompt(params.name, params.arguments or {}, shown, (await catalogue.wait()).skills)

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        from .resources import list_resources

        return types.ListResourcesResult(resources=list_resources((await catalogue.wait()).skills))

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        from .resources import list_templates

        return types.ListResourceTemplatesResult(resource_templates=list_templates())

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        from .resources import evidence_of, evidence_result, no_such_evidence, no_such_page, read_reference

        skills = (await catalogue.wait()).skills
        if (evidence := evidence_of(params.uri)) is None:
            if (page := read_reference(params.uri, skills)) is None:
                raise no_such_page(context.protocol_version, params.uri, skills)
            return page

        def work(interrupt: Interrupt) -> dict[str, Any]:
            return _load_runner()(skills["get_evidence"], {"id": evidence}, workspace.get(), interrupt)

        try:
            return evidence_result(params.uri, await calls.run(work))
        except EvidenceError as error:
            if error.code in (ErrorCode.EVIDENCE_NOT_FOUND, ErrorCode.INVALID_ARGUMENT):
                raise no_such_evidence(context.protocol_version, params.uri, error) from None
            raise _internal(error) from None
        except Exception as error:
            logger.error("reading evidence failed: %s", describe_failure(error))
            raise _internal(internal_error("reading evidence")) from None

    for_ever = CacheHint(ttl_ms=LISTS_TTL_MS, scope="public")
    return Server(
        DISTRIBUTION,
        version=version(),
        title="Nsight Systems evidence",
        instructions=COMPACT_INSTRUCTIONS if shown.compact else INSTRUCTIONS,
        cache_hints={
            "tools/list": for_ever,
            "prompts/list": for_ever,
            "resources/list": for_ever,
            "resources/templates/list": for_ever,
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _load_catalogue(surface: Surface) -> Catalogue:
    from .catalogue import load_catalogue

    return load_catalogue(surface=surface)


def _load_runner() -> Callable[..., dict[str, Any]]:
    from ..tools import run

    return run.run_skill


def _answer(
    offered: Catalogue,
    tool: str,
    arguments: Mapping[str, object] | None,
    workspace: Workspace,
    interrupt: Interrupt,
) -> dict[str, Any]:
    """What a tool answers, in a worker thread."""
    from . import compact

    run = _load_runner()
    if tool in compact.LOOK_UPS:
        return compact.LOOK_UPS[tool](offered.skills, arguments)
    if tool == compact.RUN_SKILL:
        return compact.run_named(
            offered.skills, arguments, lambda skill, given: run(skill, given, workspace, interrupt)
        )
    return run(offered.skills[tool], arguments, workspace, interrupt)


def _result(answer: dict[str, Any]) -> types.CallToolResult:
    """An answer as a tool result. The text is the same JSON: some clients show the model only one of the two."""
    text = types.TextContent(type="text", text=dump_json(answer))
    return types.CallToolResult(content=[text], structured_content=answer)


def _failed(error: EvidenceError) -> types.CallToolResult:
    """An error as a tool result: text only, since structured content would have to match the output schema."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=error.to_json())], is_error=True)


def _internal(error: EvidenceError) -> MCPError:
    """An error of something other than a tool, which only the protocol can carry."""
    return MCPError(types.INTERNAL_ERROR, f"{error.message}; {error.hint}", error.to_dict())


def _meant(tool: str, arguments: Mapping[str, object] | None, offered: Catalogue) -> str:
    """The skill that a call is about, for the log: the one that `run_skill` was given, else the tool itself."""
    skill = (arguments or {}).get("skill")
    return skill if tool not in offered.skills and isinstance(skill, str) and skill in offered.skills else tool


def _unknown_tool(name: str, offered: Catalogue, surface: Surface) -> str:
    shown = clean_text(name, limit=80)
    if name in offered.skills:
        return f"Unknown tool: {shown}; here it is a skill: run_skill with skill={shown} and its arguments"
    if not surface.toolsets:
        hint = "tools/list names all"
    else:
        hint = f"this server offers the toolsets {', '.join(surface.toolsets)} only; tools/list names all"
    near = difflib.get_close_matches(shown, offered.names, 3, cutoff=0.4)
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    return f"Unknown tool: {shown}; {nearest}{hint}"


def internal_error(skill: str) -> EvidenceError:
    """The error for what was not foreseen; what happened is in the log."""
    return EvidenceError(
        ErrorCode.INTERNAL,
        f"{skill} failed in a way that it should not",
        "other tools still work; the log on stderr names the place, please report it with the output of profile_info",
    )
