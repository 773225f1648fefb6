"""A value as the bytes of one file: what `wire.py` makes of it, and a checksum of all.

A file that was damaged, or cut short, is noticed before anything in it is believed. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr
from numpy.typing import NDArray

from tallbayes.data.writing import write_whole
from tallbayes.engines.wire import Message, pack, unpack

MAGIC = b"tallbayes packed 1\n"
LENGTH = 8  # bytes that tell how long the head is
CHECK = 4  # bytes of the checksum, at the end

Part = bytes | memoryview


class DamagedError(ValueError):
    """A file was damaged, or changed after it was written."""


def write(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value to a file that appears when it is complete.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a", {"theta": np.ones(2)})
    ...     read(f"{folder}/a")
    {'theta': array([1., 1.])}
    """
    written(path, value)()


def written(path: str | os.PathLike[str], value: Any) -> Callable[[], None]:
    """What writes a value as it is now to a file, whenever it is called."""
    message = pack(value, functions=False)
    copied = Message(message.text, [np.array(array) for array in message.arrays])
    return lambda: write_whole(path, parts(copied))


def read(path: str | os.PathLike[str]) -> Any:
    """The value that a file holds; DamagedError says what is wrong with a file that is not as it was written."""
    if Path(path).is_fifo():
        raise DamagedError(f"'{path}' is a pipe, not a file")  # which may never end
    try:
        return from_bytes(Path(path).read_bytes())
    except FileNotFoundError as error:
        raise DamagedError(f"'{path}' is missing") from error
    except OSError as error:
        raise DamagedError(f"'{path}' cannot be read ({error.strerror})") from error
    except DamagedError as error:
        raise DamagedError(f"'{path}' is damaged: {error}") from error.__cause__


def parts(message: Message) -> list[Part]:
    """The bytes of a file, piece by piece: arrays are not copied."""
    shapes = [[dtype_to_descr(array.dtype), list(array.shape)] for array in message.arrays]
    head = json.dumps([message.text, shapes]).encode()
    found: list[Part] = [MAGIC, len(head).to_bytes(LENGTH, "little"), head, *map(_bytes, message.arrays)]
    check = 0
    for part in found:
        check = zlib.crc32(part, check)
    return [*found, check.to_bytes(CHECK, "little")]


def checksum(value: Any) -> int:
    """A number that changes if any bit of a value does.

    >>> checksum(np.array([1.0, 2.0])) == checksum(np.array([2.0, 1.0]))
    False
    """
    return int.from_bytes(parts(pack(value, functions=False))[-1], "little")


def _bytes(array: NDArray[Any]) -> Part:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def from_bytes(content: bytes) -> Any:
    """The value whose bytes these are.

    >>> from_bytes(b"".join(parts(pack((1, "a")))))
    (1, 'a')
    >>> from_bytes(b"tallbayes packed 1")
    Traceback (most recent call last):
    tallbayes.engines.packed.DamagedError: it does not begin like such a file
    """
    if not content.startswith(MAGIC):
        raise DamagedError("it does not begin like such a file")
    body, check = memoryview(content)[:-CHECK], content[-CHECK:]
    if zlib.crc32(body).to_bytes(CHECK, "little") != check:
        raise DamagedError("its checksum does not match; some of it was lost or changed")
    start = len(MAGIC) + LENGTH
    stop = start + int.from_bytes(body[len(MAGIC) : start], "little")
    try:
        text, shapes = json.loads(bytes(body[start:stop]))
        return unpack(Message(text, _arrays(body[stop:], shapes)))
    except Exception as error:  # whatever somebody has made of it, who has made a checksum, too
        raise DamagedError(f"it cannot be read ({type(error).__name__}: {error})") from error


def _arrays(body: memoryview, shapes: Sequence[Any]) -> list[NDArray[Any]]:
    found, start = [], 0
    for described, shape in shapes:
        dtype = descr_to_dtype(_tuples(described))
        stop = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        found.append(np.frombuffer(body[start:stop], dtype).reshape(shape))
        start = stop
    return found


def _tuples(described: Any) -> Any:
    """A dtype's description, in which JSON has made lists of tuples."""
    if isinstance(described, str):
        return described
    return [(name, _tuples(kind), *map(tuple, shape)) for name, kind, *shape in described]
