"""The pages of docs/ and the README: links lead somewhere, commands parse, names exist, examples are what is answered.

Examples are on the capture that `nsys-evidence demo` writes. Two kinds are asked again here, and compared to the
letter; a line that is "…" stands for any lines:

- a ```console block: each `$ nsys-evidence …` that names the demo capture, with its output;
- a ```json block behind `<!-- result SKILL {arguments} -->`: that result, laid out as in docs/skills.md.

Where there are real captures beside the checkout, a ```console block behind `<!-- run.sqlite is CAPTURE -->` is asked
again too.

After a change that is meant: `python -m tests.test_docs`.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import click
import pytest
from click.testing import CliRunner

from nsys_evidence.contracts.columns import columns_of
from nsys_evidence.contracts.errors import ErrorCode
from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.ingest.tables import TABLES
from nsys_evidence.server.cli import cli
from nsys_evidence.server.guides import GUIDES
from nsys_evidence.tools.arguments import input_schema
from nsys_evidence.tools.capture_hints import CAPTURE_HINTS
from nsys_evidence.tools.gpus.peaks import GPUS
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.thresholds.kinds import all_tables
from tests.support import CAPTURES, SHARED, ask, needs_shared, scratch

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DEMO = "nsys-evidence-demo.sqlite"

ASKED_ELSEWHERE = {"README.md", "custom-skills.md"}
"""Pages whose examples have tests of their own."""

OTHER_NAMES = {
    *("run_skill", "list_skills", "describe_skill"),  # tools of the compact surface
    *("copies_by_size", "least_bytes"),  # the example of a custom skill
    *("approx_count_distinct", "current_setting", "read_csv", "string_agg"),  # functions of DuckDB
    *("device_id", "trim_start", "max_rows", "capture_hint", "next_offset", "total_rows", "shown_rows"),
    *("start_s", "end_s", "span_ms", "perf_event_paranoid", "not_recorded"),
    *("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_kern_exec_sum"),  # of nsys stats
    *("nvtx_kern_sum", "nvtx_gpu_proj_sum", "nvtx_sum", "nvtx_pushpop_sum", "cuda_api_sum", "osrt_sum"),
    *("no_cuda_call", "copy_call", "module_load", "other_cuda"),  # what the host did in a gap
}
"""Names in backticks that are neither skills nor parameters nor columns, tables or values of them."""

_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_RESULT = re.compile(r"(<!-- result (\w+) (\{.*?\}) -->\n```json\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"(?:<!-- run\.sqlite is ([\w.]+) -->\n)?^```console\n(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", text)


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()).strip().replace(" ", "-")
        numbered = itertools.chain([plain], (f"{plain}-{n}" for n in itertools.count(1)))
        found.add(next(anchor for anchor in numbered if anchor not in found))
    return found


def commands(page: Path) -> set[str]:
    """What a page shows of this program's commands, in code blocks and in the running text."""
    text = page.read_text(encoding="utf-8")
    lines = {line.strip().removeprefix("$ ") for fence in _FENCE.finditer(text) for line in fence[3].splitlines()}
    spans = {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(text))}
    return {shown for shown in lines | spans if shown.startswith("nsys-evidence ")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), target
        assert not anchor or anchor in headings(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_parses(page: Path) -> None:
    for shown in commands(page):
        words = shlex.split(re.split(r"\s[|>&]|…|\s{3,}", shown)[0], comments=True)[1:]
        command: click.Command = cli
        name = "nsys-evidence"
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name = words.pop(0)
            found = command.get_command(click.Context(command), name)
            assert found is not None, shown
            command = found
        if isinstance(command, click.Group):
            assert not words or words[0] in ("--help", "-h", "--version"), shown
            continue
        if "--help" in words:
            continue
        fault = fault_of(command, name, words)
        missing = isinstance(fault, click.MissingParameter) and not words  # spoken of without its arguments
        assert fault is None or missing or "does not exist" in fault.message, shown


def fault_of(command: click.Command, name: str, words: list[str]) -> click.UsageError | None:
    """What click says against the arguments of a command, which it only reads here."""
    try:
        command.make_context(name, words)
    except click.UsageError as fault:
        return fault
    return None


def known_names() -> set[str]:
    """Every name that a page may put into backticks: of skills, parameters, columns and tables."""
    known = {*OTHER_NAMES, *TABLES, *GUIDES, *CAPTURE_HINTS}
    for skill in all_skills().values():
        known |= {skill.name, *input_schema(skill)["properties"], *skill.tables}
        for model in [*([skill.row] if skill.row else []), skill.totals, *skill.tables.values()]:
            known |= {column.name for column in columns_of(model)}
    for schema in TABLES.values():
        known |= {field.name for field in schema}
    thresholds, patterns = all_tables()
    known |= {text for table in patterns for row in table.rows for text in row}
    return known | {pattern for gpu in GPUS for pattern in gpu.names} | {threshold.name for threshold in thresholds}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_in_backticks_is_that_of_a_skill_or_of_something_in_one(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    names = set(re.findall(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`", text))
    assert names <= known_names(), names - known_names()


def test_the_pages_say_nothing_of_a_machine() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"/(?:tmp|root|work)/|/home/\w+", text), page.name


def test_every_error_code_is_in_troubleshooting() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE) == [code.value for code in ErrorCode]


def test_the_reference_lists_every_threshold_pattern_and_gpu() -> None:
    text = (ROOT / "docs" / "skills.md").read_text(encoding="utf-8")
    section = text.split("\n## Thresholds and patterns\n")[1]
    thresholds, patterns = all_tables()
    for threshold in thresholds:
        assert f"| {threshold.name} | {threshold.value} {threshold.unit} |" in section
    for table in patterns:
        assert f"### Patterns: {table.name}\n" in section
        assert all(f"`{pattern.replace('|', chr(92) + '|')}`" in section for pattern, _ in table.rows)
    for gpu in GPUS:
        assert f"\n| {gpu.product} |" in section
        assert gpu.reference in section


@cache
def place(real: str | None = None) -> Path:
    """A directory with the demo capture in it, or with a real one as run.sqlite."""
    directory = scratch() / "docs" / (real or "demo")
    directory.mkdir(parents=True)
    if real is None:
        write_sqlite(demo_capture()[0], directory / DEMO)
    else:
        shutil.copy(SHARED / "captures" / f"{real}.sqlite", directory / "run.sqlite")
    return directory


def said(command: str, where: Path) -> str:
    """What a command says, run in a directory with the capture."""
    own = {"NSYS_EVIDENCE_CACHE": str(where / "cache"), "NSYS_EVIDENCE_STATE": str(where / "state")}
    with chdir(where), mock.patch.dict(os.environ, own):
        output = CliRunner().invoke(cli, shlex.split(command)[1:], prog_name="nsys-evidence").output
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


@cache
def _reference() -> Any:
    spec = importlib.util.spec_from_file_location("build_reference", ROOT / "docs" / "build_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answered(skill: str, arguments: str) -> str:
    """A result about the demo capture, as docs/skills.md lays results out."""
    text: str = _reference().show(ask(skill, place() / DEMO, **json.loads(arguments)))
    return f"{text}\n"


def examples(text: str) -> Iterator[tuple[str, str, str]]:
    """Every example of a page: what is asked, what the page shows, what is answered."""
    for found in _RESULT.finditer(text):
        yield f"{found[2]} {found[3]}", found[4], answered(found[2], found[3])
    for block in _CONSOLE.finditer(text):
        for part in re.split(r"^(?=\$ )", block[2], flags=re.MULTILINE):
            command, _, shown = part.partition("\n")
            if not command.startswith("$ nsys-evidence "):
                continue
            if DEMO in command:
                yield command, shown, said(command.removeprefix("$ "), place())
            elif block[1] and CAPTURES:
                yield command, shown, said(command.removeprefix("$ "), place(block[1]))


def cut_as(shown: str, answer: str) -> str:
    """An answer as a page shows it: where that has a line "…", only as many lines before and after it as the page."""
    lines = shown.splitlines()
    if "…" not in lines:
        return answer
    before, after = lines.index("…"), len(lines) - lines.index("…") - 1
    whole = answer.splitlines()
    return "".join(f"{line}\n" for line in [*whole[:before], "…", *whole[len(whole) - after :]])


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in ASKED_ELSEWHERE], ids=lambda page: page.name)
def test_every_example_is_what_is_answered(page: Path) -> None:
    for asked, shown, answer in examples(page.read_text(encoding="utf-8")):
        assert shown == cut_as(shown, answer), asked


@needs_shared
@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in ASKED_ELSEWHERE], ids=lambda page: page.name)
def test_every_profile_id_is_that_of_a_capture_that_the_page_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = [capture for capture in CAPTURES if re.search(rf"\b{re.escape(capture.stem)}\b", text)]
    known = {ask("profile_info", capture)["profile"]["id"] for capture in [*named, place() / DEMO]}
    assert set(re.findall(r"\bp-[0-9a-f]{20}\b", text)) <= known


def test_the_page_for_those_who_come_from_nsys_ai_has_the_38_skills() -> None:
    text = (ROOT / "docs" / "coming-from-nsys-ai.md").read_text(encoding="utf-8")
    names = re.findall(r"`(\w+)`", text.split("## Names\n")[1].split("\nNew beside them")[0])
    assert len(names) == len(set(names)) == 38
    assert set(names) <= set(all_skills())


def test_pages_have_examples() -> None:
    for name in ("limits.md", "reading-results.md", "troubleshooting.md", "coming-from-nsys-ai.md"):
        assert list(examples((ROOT / "docs" / name).read_text(encoding="utf-8"))), name


if __name__ == "__main__":
    for target in PAGES:
        if target.name not in ASKED_ELSEWHERE:
            page_text = target.read_text(encoding="utf-8")
            for question, old, new in list(examples(page_text)):
                at = f"{question}\n{old}"
                if at in page_text:
                    page_text = page_text.replace(at, f"{question}\n{cut_as(old, new)}", 1)
                else:
                    page_text = page_text.replace(f"-->\n```json\n{old}", f"-->\n```json\n{cut_as(old, new)}", 1)
            target.write_text(page_text, encoding="utf-8")
