"""`python -m nsys_evidence.server` is the command `nsys-evidence`."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
