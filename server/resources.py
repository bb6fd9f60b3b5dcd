"""Resources: the reference of the skills, and results by their evidence id."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..contracts.errors import EvidenceError
from ..contracts.wire import clean_text, dump_json
from ..tools.registry import Skill
from .pages import contents_page, describe, skill_page

SKILLS_URI = "nsys-evidence://skills"
SKILL_URI = "nsys-evidence://skills/{name}"
EVIDENCE_URI = "nsys-evidence://evidence/{id}"
MARKDOWN, JSON = "text/markdown", "application/json"

READ_TTL_MS = 3_600_000
"""How long a client may keep what it read: pages do not change while a server runs, results never do."""

LEGACY_NOT_FOUND = -32002
"""Code of a resource that is not there, up to protocol 2025-11-25; from 2026-07-28 on it is that of invalid params."""


def list_resources(skills: Mapping[str, Skill]) -> list[types.Resource]:
    """The reference: its contents, and a page for each skill."""
    contents = types.Resource(
        uri=SKILLS_URI,
        name="skills",
        title="Skills",
        description="What holds for all skills, words for time, and a line for each skill.",
        mime_type=MARKDOWN,
    )
    pages = (
        types.Resource(
            uri=SKILL_URI.format(name=s.name), name=s.name, title=s.title, description=describe(s), mime_type=MARKDOWN
        )
        for s in skills.values()
    )
    return [contents, *pages]


def list_templates() -> list[types.ResourceTemplate]:
    """The addresses with a part to fill in."""
    return [
        types.ResourceTemplate(
            uri_template=SKILL_URI,
            name="skill",
            title="A skill",
            description="Parameters of a skill, its columns with units and meanings, and how to read its results.",
            mime_type=MARKDOWN,
        ),
        types.ResourceTemplate(
            uri_template=EVIDENCE_URI,
            name="evidence",
            title="A result",
            description="A result by its evidence id, with the full names behind its labels.",
            mime_type=JSON,
        ),
    ]


def evidence_of(uri: str) -> str | None:
    """The evidence id that an address names; None for an address of another kind."""
    prefix = EVIDENCE_URI.format(id="")
    return uri[len(prefix) :] if uri.startswith(prefix) else None


def read_reference(uri: str, skills: Mapping[str, Skill]) -> types.ReadResourceResult | None:
    """The page at an address of the reference; None where there is none."""
    name = uri.removeprefix(SKILL_URI.format(name=""))
    if uri == SKILLS_URI:
        text = contents_page(skills, SKILL_URI)
    elif name in skills and uri == SKILL_URI.format(name=name):
        text = "\n".join(skill_page(skills[name], level=1))
    else:
        return None
    return _read(uri, MARKDOWN, text, "public")


def evidence_result(uri: str, envelope: Mapping[str, Any]) -> types.ReadResourceResult:
    """A kept result. It is only for who may read the capture, so no cache that others share may keep it."""
    return _read(uri, JSON, dump_json(envelope), "private")


def _read(uri: str, mime_type: str, text: str, cache: Literal["public", "private"]) -> types.ReadResourceResult:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.ReadResourceResult(contents=[contents], ttl_ms=READ_TTL_MS, cache_scope=cache)


def no_such_page(protocol: str, uri: str, skills: Iterable[str]) -> MCPError:
    """The error for an address that names nothing."""
    known = [SKILLS_URI, *(SKILL_URI.format(name=name) for name in skills)]
    near = difflib.get_close_matches(uri[:120], known, 3, cutoff=0.6)
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    hint = f"{nearest}resources/list names the pages, and {EVIDENCE_URI} is a result"
    return _not_found(protocol, uri, "there is no such resource", hint, {})


def no_such_evidence(protocol: str, uri: str, error: EvidenceError) -> MCPError:
    """The error for an evidence id under which nothing is kept, or which is none."""
    return _not_found(protocol, uri, error.message, error.hint, {"code": error.code.value})


def _not_found(protocol: str, uri: str, message: str, hint: str, facts: dict[str, str]) -> MCPError:
    modern = protocol in MODERN_PROTOCOL_VERSIONS
    data = {"uri": clean_text(uri, limit=200), **facts, "hint": hint}
    code = types.INVALID_PARAMS if modern else LEGACY_NOT_FOUND
    return MCPError(code, f"Resource not found: {message}; {hint}", data)
