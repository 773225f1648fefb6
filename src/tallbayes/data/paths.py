"""Which files a path means: one file, a pattern, a folder, an address such as s3://bucket/loans, or standard input."""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from tallbayes.data.formats import COMPRESSED, ENDINGS, File, kind_of, recognise
from tallbayes.data.texts import USUAL, Texts

STANDARD_INPUT = "-"
HIDDEN = (".", "_")  # how the names of files begin that are no data, such as _SUCCESS
MISSING = "__HIVE_DEFAULT_PARTITION__"  # the name of a folder whose rows lack the key
MARKS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "modified", "created")
PACKAGES = {  # that fsspec needs besides itself
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs"), "adlfs"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    "hf": "huggingface_hub",
}


def files_of(path: str, texts: Texts = USUAL) -> list[File]:
    """The files that a path means, in the order of their names; at least one. `texts` is how CSV files are written.

    >>> files_of("nothing.csv")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'nothing.csv'
    """
    if path == STANDARD_INPUT:
        return [_standard_input()._replace(texts=texts)]
    path = path.removeprefix("file://")
    files = _remote(path) if "://" in path else _local(os.path.expanduser(path))
    return [file._replace(texts=texts) for file in files]


def require_regular(path: str) -> None:
    """Raise ValueError if a path is that of a pipe or a device, which may never end and cannot be read twice."""
    if not os.path.isfile(path):
        raise ValueError(f"{path!r} is a pipe or a device, not a file; write what it gives to a file first")


def _standard_input() -> File:
    """All that comes in, held in memory: it can be read once, and its readers want to read it again."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise ValueError(
            "the data should come from standard input ('-'), but nothing is piped into it; name a file, or pipe one: "
            'zcat loans.csv.gz | tallbayes fit - "y ~ x"'
        )
    content = stream.read()
    if not content:
        raise ValueError("standard input is empty, or was read before: it can be read once")
    return File("standard input", lambda: io.BytesIO(content), *recognise(lambda: io.BytesIO(content)))


def _local(path: str) -> list[File]:
    import pyarrow as pa

    def found(file: str, kind: tuple[str, str | None], keys: Mapping[str, str | None] = MappingProxyType({})) -> File:
        return File(repr(file), lambda: pa.OSFile(file), *kind, keys, lambda: _stamp(file), lambda: pa.memory_map(file))

    if os.path.isdir(path):
        below = _data_files(path, _below(path))
        _check_each([os.path.join(path, file) for file, _, _ in below])
        return [found(os.path.join(path, file), kind, keys) for file, kind, keys in below]
    paths = [path]
    if glob.has_magic(path) and not os.path.exists(path):
        paths = sorted(glob.glob(path, recursive=True))
    if not paths:
        raise FileNotFoundError(f"no file matches {path!r}")
    files = []
    for file in paths:
        if not os.path.exists(file):
            raise FileNotFoundError(f"no such file: {file!r}")
        if os.path.isdir(file):
            raise ValueError(_is_folder(file))
        if (kind := kind_of(file)) is None:
            require_regular(file)
            raise ValueError(f"{file!r} is neither CSV nor Parquet nor Arrow: its name must end in {_endings()}")
        files.append(found(file, kind))
    _check_each(paths)
    return files


def _check_each(paths: Sequence[str]) -> None:
    """Raise ValueError if one is no file, or one is there twice, by way of a link or compressed: rows would be, too."""
    seen: dict[str, str] = {}
    for path in paths:
        require_regular(path)
        plain, ending = os.path.splitext(os.path.realpath(path))
        name = plain if ending in COMPRESSED else plain + ending
        if (other := seen.setdefault(name, path)) != path:
            raise ValueError(f"{other!r} and {path!r} hold the same rows; name those that are the data once")


def _stamp(file: str) -> list[Any]:
    """What changes when a file does: its size and time of change, after its place."""
    about = os.stat(file)
    return [os.path.abspath(file), about.st_size, about.st_mtime_ns]


def _remote(path: str) -> list[File]:
    """Files that fsspec reaches. Their names need not tell what they are: then the first bytes do."""
    web = "http://" in path or "https://" in path  # there a folder is a page, and ? begins a query
    system, place = _file_system(path)

    def opener(file: str) -> Callable[[], Any]:
        def start() -> Any:
            with _in_words(path):
                stream = system.open(file, "rb")
                if getattr(stream, "size", 0) is not None:
                    return stream
                with stream:  # it cannot go back, as readers do
                    return io.BytesIO(stream.read())

        return start

    def found(file: str, kind: tuple[str, str | None], keys: Mapping[str, str | None] = MappingProxyType({})) -> File:
        address = str(system.unstrip_protocol(file))

        def stamp() -> list[Any] | None:
            with _in_words(path):
                about = {} if web else system.info(file)
            marks = [str(about[mark]) for mark in MARKS if about.get(mark) is not None]
            return [address, about.get("size"), marks[0]] if marks else None

        return File(repr(address), opener(file), *kind, keys, stamp)

    with _in_words(path):
        if "*" in place:
            matches = system.glob(place, detail=True)
            for file, about in matches.items():
                if about["type"] == "directory":
                    raise ValueError(_is_folder(file))
            files = sorted(matches)
        elif not web and system.isdir(place):
            below = [file[len(place) :].lstrip("/") for file in system.find(place)]
            return [found(f"{place}/{file}", kind, keys) for file, kind, keys in _data_files(path, below)]
        else:
            files = [place]
    if not files:
        raise FileNotFoundError(f"no file matches {path!r}")
    kinds = [kind_of(file.partition("?")[0] if web else file) or recognise(opener(file)) for file in files]
    return [found(file, kind) for file, kind in zip(files, kinds, strict=True)]


def _below(folder: str) -> Iterator[str]:
    """All files of a folder and its subfolders, with / between the parts of their names; linked ones too."""

    def refuse(error: OSError) -> None:
        raise error  # rather than leave rows out

    for place, subfolders, names in os.walk(folder, onerror=refuse, followlinks=True):
        subfolders[:] = [name for name in subfolders if not name.startswith(HIDDEN)]
        yield from (Path(place, name).relative_to(folder).as_posix() for name in names)


def _data_files(folder: str, files: Iterable[str]) -> list[tuple[str, tuple[str, str | None], dict[str, str | None]]]:
    """Those of a folder's files that hold its data, each with its kind and with what its subfolders key=value say."""
    found, others = [], []
    for file in sorted(files):
        *subfolders, last = file.split("/")
        if not last or any(part.startswith(HIDDEN) for part in (*subfolders, last)):
            continue
        if stray := next((part for part in subfolders if "=" not in part), None):
            raise ValueError(
                f"{folder!r} holds the folder {stray!r}, whose name is not like key=value; "
                f"give a pattern for all files, such as {folder.rstrip('/') + '/**/*.parquet'!r}"
            )
        if (kind := kind_of(last)) is None:
            others.append(file)
        else:
            found.append((file, kind, _keys(subfolders)))
    if not found:
        raise ValueError(f"the folder {folder!r} has no data files, whose names end in {_endings()}")
    kinds = sorted({kind for _, (kind, _), _ in found}) + [repr(file) for file in others[:1]]
    if len(kinds) > 1:
        raise ValueError(
            f"{folder!r} holds files of several kinds ({', '.join(kinds)}); "
            f"give a pattern for those that are the data, such as {folder.rstrip('/') + '/*.parquet'!r}"
        )
    return found


def _keys(subfolders: Sequence[str]) -> dict[str, str | None]:
    """What the names of folders say, such as year=2009 in loans/year=2009/part-0.parquet."""
    pairs = (part.partition("=") for part in subfolders)
    return {unquote(key): None if value == MISSING else unquote(value) for key, _, value in pairs}


def _file_system(path: str) -> tuple[Any, str]:
    """What reads files at such an address, and what it calls this one."""
    protocol = path.partition("://")[0].rpartition("::")[2]
    needed = PACKAGES.get(protocol)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        install = " ".join(filter(None, ("pip install fsspec", needed)))
        raise ValueError(f"to read {path!r}, first install what reads such addresses: {install}") from error
    try:
        with _in_words(path):
            system, place = url_to_fs(path)
    except ValueError as error:
        raise ValueError(f"cannot read {path!r}: {error}") from error
    except ImportError as error:
        install = f"; install it: pip install {needed}" if needed else ""
        raise ValueError(f"to read {path!r}, fsspec needs another package ({error}){install}") from error
    return system, place


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    """Errors of a service as OSError: each has classes of its own."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"no such file: {path!r}") from error
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, OSError) and error.errno and error.filename is None:  # of a connection
            raise OSError(f"cannot read {path!r}: {error.strerror or error}") from error
        raise
    except Exception as error:
        raise OSError(f"cannot read {path!r}: {type(error).__name__}: {error}") from error


def _is_folder(path: str) -> str:
    return f"{path!r} is a folder; give the folder alone, or a pattern for its files, such as 'folder/*.parquet'"


def _endings() -> str:
    *most, last = [ending for endings in ENDINGS.values() for ending in endings]
    return f"{', '.join(most)} or {last}"
