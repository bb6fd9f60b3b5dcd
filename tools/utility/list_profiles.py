"""Which captures are in the cache."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text
from ..call import Call
from ..registry import NoParams, skill
from ..result import Result


class ListProfilesRow(Row):
    """One capture."""

    profile: Text = column("profile id: give it as `profile` to any tool")
    name: Text = column("file name of the capture")
    form: Text = column("form that it was ingested from")
    kernels: Count = column("kernel executions")
    devices: Count = column("devices with GPU work")
    span_ms: Ms | None = column("length of the capture window; null for a capture without events")


class ListProfilesTotals(Row):
    """The cache."""

    captures: Count = column("captures")
    profiles: Count = column("different profiles: the same capture in two forms is one")


@skill(
    title="List profiles",
    when="To find a capture that was opened before, by name or profile id.",
    row=ListProfilesRow,
    totals=ListProfilesTotals,
    window="none",
    profile=False,
    max_rows=50,
    next=("profile_info",),
)
def list_profiles(call: Call[NoParams]) -> Result:
    """One row per capture in the cache, by name. A capture that is not listed is opened by its path."""
    library = call.workspace.library
    found = [
        (source, manifest)
        for source in library.sources()
        if (manifest := library.cache.manifest(source.profile_id)) is not None
    ]
    found.sort(key=lambda pair: (pair[0].name, pair[0].profile_id, pair[0].form))
    rows = [
        (
            source.profile_id,
            source.name,
            source.form,
            manifest.rows["kernels"],
            len(manifest.devices),
            None if manifest.capture is None else manifest.capture[1] - manifest.capture[0],
        )
        for source, manifest in found
    ]
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={"captures": len(rows), "profiles": len({source.profile_id for source, _ in found})},
        status=Status.OK if rows else Status.EMPTY,
    )
