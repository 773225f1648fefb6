"""The tests that may depend on the processor, for several processors: `python tests/targets.py [options of pytest]`.

The order in which compiled loops add up depends on the processor that they are compiled for. If this machine lacks some
of its features, a stand-in is compiled: the same processor without them. LLVM still unrolls and schedules as for that
processor, and uses registers of the same width, since it prefers 256 bits also where there are 512; faults seen on
processors with AVX-512 have shown up with the stand-in too, on the same tests.
"""

import argparse
import os
import subprocess
import sys
import time

import llvmlite.binding as llvm

# What LLVM makes use of in our loops, and not every machine has.
AVX2, AVX512 = {"avx2", "fma", "bmi2"}, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
TARGETS = {
    "generic": set(),
    "haswell": AVX2,
    "znver3": AVX2 | {"sse4a", "vaes"},
    "skylake-avx512": AVX2 | AVX512,
    "icelake-server": AVX2 | AVX512 | {"avx512ifma", "avx512vbmi", "avx512vbmi2", "vaes"},
}
FILES = [
    "compiled", "families", "rows", "mode", "group_mode", "remainders", "alias", "thinned", "shape", "setup",
    "split_rows", "spline_tables", "collapsed", "expressions", "gaussian", "gaussian_groups",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(usage="%(prog)s [--targets NAME,NAME] [--all] [options of pytest]")
    parser.add_argument("--targets", default="generic,haswell,skylake-avx512", help="of " + ", ".join(TARGETS))
    parser.add_argument("--all", action="store_true", help="all tests; with -m long, all long ones")
    given, options = parser.parse_known_args()
    files = [] if given.all else [f"tests/test_{name}.py" for name in FILES]
    host = llvm.get_host_cpu_features()
    absent, failed = {name for name, here in host.items() if not here}, []
    for target in given.targets.split(","):
        if target != "generic" and not llvm.get_process_triple().startswith("x86_64"):
            print(f"== {target}: not tried, this is no x86-64 machine", flush=True)
            continue
        lacks = sorted(TARGETS[target] & absent)
        kind = f"a stand-in without {' '.join(lacks)}" if lacks else "as it is"
        print(f"== {target}, {kind}, on {llvm.get_host_cpu_name()}", flush=True)
        # Numba would add all that this machine has to a target; this only takes away what would crash here.
        chosen = {"NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ",".join(f"-{name}" for name in sorted(absent))}
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "not long", *options, *files], env=os.environ | chosen
        )
        print(f"== {target}: {'failed' if done.returncode else 'passed'}, {time.monotonic() - began:.0f} s", flush=True)
        failed += [target] * (done.returncode != 0)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
