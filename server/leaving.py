"""The end of a server process."""

from __future__ import annotations

import logging
import os
import threading
import time

LEAVE_S = 0.3
"""How long threads may take to end when nobody is served any more, in seconds."""


def leave() -> None:
    """End the process without waiting long for threads that do not stop: the interpreter would wait for ever."""
    until = time.monotonic() + LEAVE_S
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                logging.shutdown()
                os._exit(0)
