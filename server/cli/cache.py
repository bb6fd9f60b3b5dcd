"""`cache`: what is in the cache of profiles, and how to make it smaller."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

import click

from .running import coded, format_option

if TYPE_CHECKING:
    from ...ingest.cache import Cache, CacheEntry

GIB = 2**30


@click.group()
def cache() -> None:
    """Look at the cache of profiles, or make it smaller."""


@cache.command("list")
@format_option
@coded
def list_cache(as_json: bool) -> None:
    """The profiles in the cache, the least recently used first."""
    from ...contracts.wire import clean_text, dump_json
    from .render import console, show_table

    store = _cache()
    names: dict[str, list[str]] = {}
    for source in store.sources():
        names.setdefault(source.profile_id, []).append(clean_text(source.name))
    entries = store.entries()
    if as_json:
        columns = ("profile", "bytes", "last_used", "captures")
        facts = ((e.profile_id, e.size_bytes, _time(e), names.get(e.profile_id, [])) for e in entries)
        click.echo(dump_json([dict(zip(columns, fact, strict=True)) for fact in facts]))
        return
    rows = [[e.profile_id, _mb(e.size_bytes), _time(e), ", ".join(names.get(e.profile_id, []))] for e in entries]
    show_table(console(), ["profile", "size_mb", "last_used", "captures"], rows)
    click.echo(f"{len(entries)} profiles, {_mb(sum(e.size_bytes for e in entries))} MB, in {store.directory}")


@cache.command()
@click.option(
    "--keep-gib",
    type=click.FloatRange(min=0, max=2**20),
    callback=lambda _context, _option, value: _a_number(value),
    help="GiB of profiles to keep; 20 without it.",
)
@coded
def prune(keep_gib: float | None) -> None:
    """Remove the profiles used longest ago until the rest fits."""
    store = _cache()
    removed = store.prune() if keep_gib is None else store.prune(int(keep_gib * GIB))
    _report(removed)


@cache.command()
@coded
def clear() -> None:
    """Remove all profiles. Captures stay; they are taken in again when they are next asked about."""
    store = _cache()
    entries = store.entries()
    store.clear()
    _report(entries)


def _a_number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not a size")
    return value


def _cache() -> Cache:
    from ...ingest.cache import Cache, default_cache

    return Cache(default_cache())


def _report(removed: list[CacheEntry]) -> None:
    click.echo(f"removed {len(removed)} profiles, {_mb(sum(entry.size_bytes for entry in removed))} MB")


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 10**6:.3f}"


def _time(entry: CacheEntry) -> str:
    moment = datetime.datetime.fromtimestamp(entry.last_used, datetime.UTC)
    return moment.isoformat(timespec="seconds")
