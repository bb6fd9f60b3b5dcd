"""Where the server listens over HTTP: on this machine only, under names that clients must call it by."""

from __future__ import annotations

from dataclasses import dataclass

NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine, as they stand in a URL."""

HTTP_PORT = 80
"""The port that clients leave out of a URL."""

MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """An address on the loopback interface.

    Attributes:
        host: `127.0.0.1` or `::1`.
        port: the port; 0 for any that is free.
    """

    host: str
    port: int

    @property
    def hosts(self) -> list[str]:
        """Values of a Host header that mean this server."""
        return [name if self.port == HTTP_PORT else f"{name}:{self.port}" for name in NAMES]

    @property
    def origins(self) -> list[str]:
        """Values of an Origin header that pages of this server would send."""
        return [f"http://{host}" for host in self.hosts]

    @property
    def url(self) -> str:
        """What a client on this machine connects to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/mcp"


def parse_address(text: str) -> Address:
    """The address that `HOST:PORT` means.

    Raises:
        ValueError: in words for a user, when it is none, or none of this machine alone.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > MAX_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8765 (port 0 takes any free one)")
    host = {"localhost": "127.0.0.1", "[::1]": "::1"}.get(host, host)
    if host not in ("127.0.0.1", "::1"):
        raise ValueError(
            f"{host!r} is not this machine alone: the host must be 127.0.0.1, ::1 or localhost; "
            "reach it from another machine through an SSH tunnel"
        )
    return Address(host, int(port))
