"""One call of a skill: its profile, its window, its devices, and SQL that respects them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..contracts.window import Window
from .workspace import Workspace

if TYPE_CHECKING:  # the registry is read before the first call: it must not load DuckDB, Arrow and numpy
    import numpy.typing as npt
    import pyarrow as pa

    from ..ingest.interrupt import Interrupt
    from ..ingest.manifest import Device
    from ..ingest.profile import Profile

P = TypeVar("P")


def _interrupt() -> Interrupt:
    from ..ingest.interrupt import Interrupt

    return Interrupt()


@dataclass(slots=True)
class Call(Generic[P]):
    """What a skill is given. Everything that it reads goes through here, so that scope and interruption hold.

    Attributes:
        params: the skill's own parameters, checked.
        workspace: the library of captures and the ledger of evidence.
        opened: the profile; None for skills without one.
        scope: the window; None for skills without one, and for a capture without events.
        devices: the selected devices, in order.
        device_asked: whether the caller chose a device; else `devices` are all of them.
        scope_asked: the scope as it was asked for (device, trim, iteration, marker; absent ones left out), to ask
            another skill the same way.
        max_rows: rows to show.
        offset: rows to pass over.
        interrupt: stops the call from outside.
    """

    params: P
    workspace: Workspace
    opened: Profile | None
    scope: Window | None
    devices: tuple[Device, ...]
    max_rows: int
    offset: int
    device_asked: bool = False
    scope_asked: Mapping[str, object] = field(default_factory=dict)
    interrupt: Interrupt = field(default_factory=_interrupt)

    @property
    def profile(self) -> Profile:
        """The profile, for skills that are registered with one."""
        assert self.opened is not None
        return self.opened

    @property
    def window(self) -> Window:
        """The window in scope, for skills that are registered with one."""
        assert self.scope is not None
        return self.scope

    def ask(self, skill: str, **arguments: object) -> dict[str, Any]:
        """The envelope of another skill about the same profile and scope; kept as evidence like any other.

        Args:
            skill: its name.
            arguments: its own parameters and its page. Scope parameters that it does not take are left out.

        Raises:
            EvidenceError: as the skill does.
        """
        from .registry import all_skills
        from .run import run_skill

        chosen = all_skills()[skill]
        scope = self.scope_asked if chosen.window != "none" else {}
        return run_skill(chosen, {"profile": self.profile.id, **scope, **arguments}, self.workspace, self.interrupt)

    # SQL. Windows and devices are integers of our own, so they stand in the text; values from outside are parameters.

    def sql(self, query: str, parameters: Iterable[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query over the canonical tables; for aggregates and pages, never for whole event tables."""
        cursor = self.profile.cursor(query)
        try:
            with self.interrupt.track(cursor):
                return cursor.execute(query, list(parameters)).fetchall()
        finally:
            cursor.close()

    def arrow(self, query: str, parameters: Iterable[object] = ()) -> pa.Table:
        """The result of a query as an Arrow table."""
        cursor = self.profile.cursor(query)
        try:
            with self.interrupt.track(cursor):
                table: pa.Table = cursor.sql(query, params=list(parameters)).to_arrow_table()
                return table
        finally:
            cursor.close()

    def arrays(self, query: str, parameters: Iterable[object] = ()) -> dict[str, npt.NDArray[Any]]:
        """The columns of a query without nulls as numpy arrays."""
        table = self.arrow(query, parameters)
        return {name: table.column(name).to_numpy() for name in table.column_names}

    @property
    def on_devices(self) -> str:
        """SQL condition: `gpu` is one of the selected devices."""
        return f"gpu IN ({', '.join(str(device.gpu) for device in self.devices) or 'NULL'})"

    @property
    def in_window(self) -> str:
        """SQL condition on `start` and `"end"`: the event overlaps the window (see `Window.overlaps`)."""
        a, b = self.window.start_ns, self.window.end_ns
        instants = f"start >= {a} AND start {'<=' if self.window.includes_end else '<'} {b}"
        return f"""((start < {b} AND "end" > {a} AND start < "end") OR (start = "end" AND {instants}))"""

    @property
    def starts_in_window(self) -> str:
        """SQL condition on `start`: the event starts in the window, which is where its bytes count."""
        a, b = self.window.start_ns, self.window.end_ns
        return f"(start >= {a} AND start {'<=' if self.window.includes_end else '<'} {b})"

    @property
    def clipped(self) -> str:
        """SQL expression: the part of the event's duration that lies in the window; 0 where it does not overlap."""
        a, b = self.window.start_ns, self.window.end_ns
        return f"""greatest(0, least("end", {b}) - greatest(start, {a}))"""

    @property
    def crosses(self) -> str:
        """SQL condition: an event in the window crosses one of its edges."""
        return f"""(start < {self.window.start_ns} OR "end" > {self.window.end_ns})"""

    @property
    def page(self) -> str:
        """SQL `LIMIT` and `OFFSET` of the page asked for."""
        return f"LIMIT {self.max_rows} OFFSET {self.offset}"

    def page_of(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The page asked for of rows that are all at hand."""
        return rows[self.offset : self.offset + self.max_rows]

    # Names.

    def strings(self, ids: Iterable[int | None]) -> dict[int | None, str | None]:
        """Texts of string ids; None maps to None."""
        texts: dict[int | None, str | None] = {None: None}
        wanted = ", ".join(str(number) for number in sorted({number for number in ids if number is not None}))
        if wanted:
            texts.update(self.sql(f"SELECT id, value FROM strings WHERE id IN ({wanted})"))
        return texts

    def kernel_labels(self, names: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Short label and full demangled name of kernel name ids."""
        wanted = ", ".join(map(str, sorted(set(names)))) or "NULL"
        rows = self.sql(f"SELECT name, label, demangled FROM kernel_names WHERE name IN ({wanted})")
        return {name: (label, demangled) for name, label, demangled in rows}

    def device_of(self, gpu: int) -> tuple[int, int | None]:
        """The first columns of a per-device row: device id, and process id where the device id is not enough."""
        device = self.profile.device(gpu)
        return device.device, device.process
