"""What a shell starts in the background ignores signals of the terminal, and so would what tests start from there."""

from __future__ import annotations

import signal


def heed_interruptions() -> None:
    """To be called in a process that was just forked (`preexec_fn`)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
