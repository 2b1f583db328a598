"""Within: calls of other libraries that may never return."""

from __future__ import annotations

import threading
from collections.abc import Callable


def within(seconds: float, call: Callable[[], object]) -> bool:
    """Call it, and say whether it returned in that time; its errors are raised here.

    Examples
    --------
    >>> import time
    >>> within(10, lambda: None), within(0.01, lambda: time.sleep(1))
    (True, False)
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    return not thread.is_alive()
