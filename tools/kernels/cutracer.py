"""Reading the histograms of CUTracer's `proton_instr_histogram`: within bounds, and without following links."""

from __future__ import annotations

import csv
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from ..thresholds.kernels import INSTRUCTION_CLASSES, TRACE_FILE_BYTES, TRACE_FILES, TRACE_TOTAL_BYTES

CLASSES = ("tensor", "fp", "int", "memory", "shared", "sync", "control", "other")
"""Classes of instructions; ties between them go to the earlier one."""

_COLUMNS = ["warp_id", "region_id", "instruction", "count", "cycles"]
_ENTRIES = 100_000
_LARGEST = 2**63 - 1
_NAME = re.compile(r"(?:kernel_)?(?P<name>.+?)(?:_[0-9a-f]{6,64})?_hist\.csv", re.ASCII)
_INSTRUCTION = re.compile(r"[A-Z][A-Z0-9_.]{0,63}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


@dataclass(slots=True)
class Histogram:
    """What a kernel's files say, over warps and regions.

    Attributes:
        counts: executions by warps, per instruction.
        cycles: cycles, per instruction.
        warps: warps that were recorded.
        files: files of this kernel.
    """

    counts: Counter[str] = field(default_factory=Counter)
    cycles: Counter[str] = field(default_factory=Counter)
    warps: int = 0
    files: int = 0

    def add(self, other: Histogram) -> None:
        """Take in another file of the same kernel."""
        self.counts.update(other.counts)
        self.cycles.update(other.cycles)
        self.warps += other.warps
        self.files += other.files


@dataclass(frozen=True, slots=True)
class Traces:
    """A directory of histograms.

    Attributes:
        kernels: by the kernel's name in the file name.
        refused: files that could not be read, and why.
        passed_over: files beyond the limit, not looked at.
    """

    kernels: dict[str, Histogram]
    refused: list[tuple[str, str]]
    passed_over: int


class _UnreadableError(Exception):
    """Why a file is no histogram."""


def class_of(instruction: str) -> str:
    """The class of an instruction, by its opcode."""
    opcode = instruction.partition(".")[0]
    return next((says for prefix, says in INSTRUCTION_CLASSES.rows if opcode.startswith(prefix)), "other")


def read_traces(directory: Path, still_allowed: Callable[[Path], None], check: Callable[[], None]) -> Traces | None:
    """The histograms of a directory, in the order of their names; None where there is no such directory.

    Args:
        directory: a resolved path that may be read.
        still_allowed: raises when the path leads elsewhere than when it was resolved.
        check: called between files; raises to stop.

    Raises:
        EvidenceError: INVALID_ARGUMENT for something else than a directory, or one with too much in it.
    """
    try:
        with _opened(directory, still_allowed) as descriptor:
            return _read_all(descriptor, check)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"{directory.name} cannot be read as a directory: {error.strerror or 'refused'}",
            "trace_dir is the directory that CUTracer wrote its kernel_NAME_HASH_hist.csv files to",
            argument="trace_dir",
        ) from None


@contextmanager
def _opened(directory: Path, still_allowed: Callable[[Path], None]) -> Iterator[int]:
    """The directory, held open, so that nothing can be put in its place; links on the way to it are refused."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        still_allowed(directory)
        if not os.path.samestat(os.fstat(descriptor), os.stat(directory, follow_symlinks=False)):
            raise FileNotFoundError(str(directory))
        yield descriptor
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, check: Callable[[], None]) -> Traces:
    with os.scandir(descriptor) as entries:
        names = [entry.name for entry in islice(entries, _ENTRIES + 1)]
    if len(names) > _ENTRIES:
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"trace_dir holds more than {_ENTRIES} entries",
            "give a directory that holds the histograms alone",
            argument="trace_dir",
        )
    files = sorted(name for name in names if name.endswith(".csv"))
    looked_at = files[: TRACE_FILES.value]
    kernels: dict[str, Histogram] = {}
    refused: list[tuple[str, str]] = []
    left = TRACE_TOTAL_BYTES.value
    for name in looked_at:
        check()
        try:
            kernel = _kernel_of(name)
            content = _content(name, descriptor, min(left, TRACE_FILE_BYTES.value))
            left -= len(content)
            histogram = _parse(content)
        except _UnreadableError as why:
            refused.append((name, str(why)))
        except OSError as error:
            refused.append((name, error.strerror or "cannot be read"))
        else:
            kernels.setdefault(kernel, Histogram()).add(histogram)
    return Traces(kernels, refused, len(files) - len(looked_at))


def _kernel_of(file: str) -> str:
    found = _NAME.fullmatch(file)
    if found is None:
        raise _UnreadableError("not named kernel_NAME_HASH_hist.csv")
    return found["name"]


def _content(name: str, directory: int, limit: int) -> bytes:
    """The bytes of a regular file in the directory. Links are not followed, pipes not waited for."""
    if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        raise _UnreadableError("a link, not followed")
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise _UnreadableError("no regular file")
        content = file.read(limit + 1) if about.st_size <= limit else None
    if content is None or len(content) > limit:
        raise _UnreadableError(f"larger than what is read of it ({limit} bytes)")
    return content


def _parse(content: bytes) -> Histogram:
    try:
        lines = csv.reader(content.decode("utf-8").splitlines(), strict=True)
        if next(lines, None) != _COLUMNS:
            raise _UnreadableError(f"its columns are not {','.join(_COLUMNS)}")
        histogram, warps = Histogram(files=1), set[int]()
        for row in lines:
            warp, _, instruction, count, cycles = _values(row, lines.line_num)
            warps.add(warp)
            histogram.counts[instruction] += count
            histogram.cycles[instruction] += cycles
    except (UnicodeDecodeError, csv.Error):
        raise _UnreadableError("no CSV text") from None
    if not warps:
        raise _UnreadableError("no row in it")
    histogram.warps = len(warps)
    return histogram


def _values(row: list[str], line: int) -> tuple[int, int, str, int, int]:
    if len(row) == len(_COLUMNS):
        warp, region, instruction, count, cycles = row
        if _INSTRUCTION.fullmatch(instruction) and all(map(_NUMBER.fullmatch, (warp, region, count, cycles))):
            numbers = [int(text) for text in (warp, region, count, cycles)]
            if max(numbers) <= _LARGEST:
                return numbers[0], numbers[1], instruction, numbers[2], numbers[3]
    raise _UnreadableError(f"line {line} is no row of a histogram")
