"""What one thread does at a time, and what a process is not forked in the middle of.

A forked process has only the thread that forked it. What another thread was doing is never finished there, and a lock
that it held is never given back. So who forks waits until these locks are free, and the new process has them.
"""

from __future__ import annotations

import os
from threading import RLock

from numba.core.compiler_lock import global_compiler_lock

ALONE = RLock()  # for what belongs to the whole process, such as Python's filters of warnings

if hasattr(os, "register_at_fork"):
    for lock in (global_compiler_lock, ALONE):  # taken from the last: threads may compile while they are alone
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
