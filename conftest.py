"""What must hold before anything imports numba, for the tests and for the examples in the sources alike."""

import hashlib
import os
from pathlib import Path

HERE = Path(__file__).parent


def source_hash() -> str:
    """A hash over the names and contents of all source files of the package."""
    found = hashlib.sha256()
    for path in sorted((HERE / "src" / "tallbayes").rglob("*.py")):
        found.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


# Sums must have the same bits for 1, 2 and 4 threads, so there must be 4 to choose from, also on a smaller machine.
os.environ["NUMBA_NUM_THREADS"] = "4"
# Numba does not see that a callee in another file has changed and would go on using the compiled caller.
os.environ.setdefault("NUMBA_CACHE_DIR", str(HERE / ".numba_cache" / source_hash()))
os.environ["MPLBACKEND"] = "Agg"
