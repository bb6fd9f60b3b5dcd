"""What docs/agents.md tells agents is what a server offers and answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mcp import Client

from nsys_evidence.server.app import build_server
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.guides import GUIDES
from nsys_evidence.server.resources import list_templates
from nsys_evidence.server.surface import ALWAYS, Surface
from nsys_evidence.tools.registry import CATEGORIES
from tests.server.test_app import error_of
from tests.support import workspace

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


def first_cells(section: str) -> list[str]:
    """The names in the first column of the tables of a section."""
    text = re.split(r"^##+ ", PAGE.split(f"# {section}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([^`(]+)", text, re.MULTILINE)


def test_the_page_names_every_prompt_every_category_and_the_five_tools() -> None:
    assert first_cells("Prompts") == list(GUIDES)
    assert (
        first_cells("The compact surface") == [t.name for t in load_catalogue(surface=Surface(compact=True)).tools][:3]
    )
    assert f"Categories are {', '.join(CATEGORIES[:-1])} and {CATEGORIES[-1]}; and `custom`," in PAGE
    assert all(f"`{tool.name}`" in PAGE for tool in load_catalogue(surface=Surface(compact=True)).tools)
    assert all(f"`{name}`" in PAGE for name in ALWAYS)
    assert {template.uri_template for template in list_templates()} < set(first_cells("Resources"))


async def test_the_error_on_the_page_is_the_one_that_is_answered() -> None:
    [shown] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    call = {"skill": "top_kernels", "arguments": {"profile": "/data/run7.sqlite", "limit": 3}}
    async with Client(build_server(workspace, surface=Surface(compact=True))) as client:
        assert error_of(await client.call_tool("run_skill", call)) == shown
