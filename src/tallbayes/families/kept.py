"""Compiled code on disk: what was compiled once is read by later processes, whatever happens to the files meanwhile.

Numba keeps an index for each function, which says what code is in which file, and writes the index first. So where two
processes compile at the same time, one is killed, or the disk is full, an index may name a file with other code, which
would then be run. Here the name of a file says what its code was made from, and a checksum whether it is whole; there
is no index. Files that are damaged or gone are compiled anew.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from glob import escape, glob
from hashlib import sha256
from typing import Any
from zlib import crc32

import numba
from llvmlite.binding import parse_bitcode
from numba.core import environment
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime.nrt import rtsys

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise ImportError("tallbayes cannot do without compiled code; unset the environment variable NUMBA_DISABLE_JIT")

CHECK = 4  # bytes of a checksum
_GIVEN, *_OTHERS = CompileResultCacheImpl._locator_classes  # places for it: the folder NUMBA_CACHE_DIR, and others


def known() -> bool:
    """Whether numba is one whose insides are known; with any other, compiling takes longer."""
    return bool(numba.version_info[:2] == (0, 68))


class _ReadOnly(_GIVEN):  # type: ignore[misc, valid-type]
    """A folder that was filled before, as in an image of a container, and cannot be written."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        if not getattr(numba.config, "CACHE_DIR", "") or not os.path.exists(file):
            return None
        found = cls(function, file)
        return found if os.path.isdir(found.get_cache_path()) else None


class _Folder(CompileResultCacheImpl):
    _locator_classes = [_GIVEN, _ReadOnly, *_OTHERS]  # noqa: RUF012


class Kept(FunctionCache):
    """The code of one function; RuntimeError if there is no folder for it."""

    _impl_class = _Folder

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file: Any = _Files(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled for a signature, if it is on disk.

        It needs numba's runtime, and nothing else of numba, which would import all that it compiles with.
        """
        if not known():
            return super().load_overload(signature, context)
        rtsys.initialize(context)
        codegen, before = context.codegen(), environment._rebuild_env
        codegen._library_class, environment._rebuild_env = _Stored, _named
        try:
            return self._load_overload(signature, context)
        finally:
            environment._rebuild_env = before
            del codegen._library_class  # that of the class is seen again

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep what was compiled, unless the disk is full or the folder is gone."""
        with suppress(OSError):
            super().save_overload(signature, data)


class _Files(IndexDataCacheFile):
    """A file for each signature."""

    def load(self, key: Any) -> Any:
        try:
            with open(self._path(key), "rb") as file:
                check, content = file.read(CHECK), file.read()
        except OSError:
            return None
        return pickle.loads(content) if check == _check(content) else None

    def save(self, key: Any, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._path(key)) as file:
            file.write(_check(content))
            file.write(content)
        start = self._start()
        for other in glob(os.path.join(escape(self._cache_path), f"{escape(self._base)}.*.code")):
            if not other.startswith(start):  # of other sources, or another numba
                with suppress(FileNotFoundError):
                    os.unlink(other)

    @property
    def _base(self) -> str:
        return str(self._index_name).removesuffix(".nbi")

    def _start(self) -> str:
        made_from = _short(numba.__version__, self._source_stamp)
        return os.path.join(self._cache_path, f"{self._base}.{made_from}.")

    def _path(self, key: Any) -> str:
        return f"{self._start()}{_short(key)}.code"


def _short(*things: Any) -> str:
    return sha256(repr(things).encode()).hexdigest()[:24]


def _check(content: bytes) -> bytes:
    return crc32(content).to_bytes(CHECK, "big")


def _named(module: str, constants: Any, name: str) -> Any:
    """Where compiled code finds constants. Its module is not imported for it: nothing else is looked for there."""
    found = environment.lookup_environment(name)
    if found is None:
        imported = sys.modules.get(module)
        found = environment.Environment({"__name__": module} if imported is None else vars(imported))
        found.consts[:], found.env_name = constants, name
        environment.Environment._memo[name] = found
    return found


class Linked(JITCodeLibrary):
    """Code that goes into that of its callers, and is optimised and made machine code there.

    Numba would do both for each function by itself first. Nobody enters this one, so it has no environment in memory,
    which is where exceptions with arguments and calls into Python would look. From the disk it comes the same way: with
    machine code of its own, who compiles a caller would call that, and not what the caller's file has, whose last bits
    may differ.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Nowhere."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """Who is asked to set an environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """There is none."""

    def serialize_using_object_code(self) -> Any:
        """There is no such code."""
        return self.serialize_using_bitcode()


class _Stored(JITCodeLibrary):
    """Code from the disk: what other code would be linked with is parsed when some is, which is rare."""

    _machine, _bitcode = b"", b""

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object":
            inner = Linked(codegen, name)
            inner._final_module = parse_bitcode(data)
            inner._finalize_final_module()
            return inner
        found = cls(codegen, name)
        found._machine, found._bitcode = data
        found.enable_object_caching()
        found._set_compiled_object(found._machine)
        found._finalize_final_module()
        return found

    def get_pointer_to_function(self, name: str) -> Any:
        if name.encode() + b"\0" in self._machine:  # among its names, which end so
            self._codegen._engine._defined_symbols.add(name)
        return super().get_pointer_to_function(name)

    def _get_module_for_linking(self) -> Any:
        if self._bitcode and self._shared_module is None:
            self._shared_module = parse_bitcode(self._bitcode)
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return super()._get_module_for_linking()
