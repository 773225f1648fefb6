"""How tests call the command line: in their own process, where a line of the shell has no more to do."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from tallbayes.cli import main

BIN = Path(sys.executable).parent
SHELL = re.compile(r"[|<>]")
FROM_A_FILE = re.compile(r"cat (\S+) \| (.*)")
INTO_A_FILE = re.compile(r"([^|<>]*) > (\S+)")


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def type_in(line, given=None):
    """Run a line in the current folder, with some input: the exit code and what it writes to stdout.

    In a shell only if that has more to do than to read a file or to write one.
    """
    if source := FROM_A_FILE.fullmatch(line):
        return type_in(source[2], Path(source[1]).read_bytes())
    if into := INTO_A_FILE.fullmatch(line.split(" ||")[0]):
        code, said = type_in(into[1], given)
        Path(into[2]).write_text(said, "utf-8")
        return code, ""
    if not SHELL.search(re.sub('"[^"]*"', "", line)):
        done = CliRunner().invoke(main, shlex.split(line)[1:], input=given)
        return done.exit_code, done.stdout
    surroundings = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    found = subprocess.run(line, shell=True, env=surroundings, capture_output=True, text=True, timeout=300)
    return found.returncode, found.stdout
