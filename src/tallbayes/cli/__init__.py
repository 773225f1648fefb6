"""The command line, a file a command; texts that become priors, families and so on are read in `texts`.

Heavy imports wait inside the commands, so that help is quick.
A command refuses impossible options and outputs before it reads data, and its exit code tells how it went.
"""

from __future__ import annotations

from typing import Any

import click

from tallbayes.cli.compare_speed import compare_command, compare_speed_command
from tallbayes.cli.fit import fit_command
from tallbayes.cli.output import BAD_DATA, as_typed, tell
from tallbayes.cli.predict import predict_command
from tallbayes.cli.report import report_command
from tallbayes.cli.reproduce import reproduce_command
from tallbayes.cli.resume import resume_command, status_command
from tallbayes.cli.simulate import simulate_command
from tallbayes.cli.summary import summary_command
from tallbayes.starting import INTERRUPTED, NO_RESULT, started

EPILOG = """\b
Shell completion: put this into ~/.bashrc (other shells: zsh_source, fish_source)
  eval "$(_TALLBAYES_COMPLETE=bash_source tallbayes)"

\b
Exit codes:
  0    all went well
  1    bad data, or a file that cannot be read or written
  2    a wrong option or argument
  3    not converged, or not mixed: the result was written, but do not trust it yet
  130  interrupted with Ctrl-C: what was drawn until then was written
"""


class Commands(click.Group):
    """A group whose commands end with our exit codes instead of tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            started()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            tell(NO_RESULT)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # of a reader such as head; click ends quietly
            raise
        except MemoryError:
            tell("error: that takes more memory than there is; ask for less at a time, such as fewer rows or draws")
            ctx.exit(BAD_DATA)
        except (ValueError, OSError) as error:
            said = str(error)
            if isinstance(error, OSError) and said.startswith("[Errno") and error.filename is None:
                said = f"cannot write to the standard output: {error.strerror}"
            tell(f"error: {as_typed(said)}")
            ctx.exit(BAD_DATA)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tallbayes")
def main() -> None:
    """Exact Bayesian regression on millions of rows.

    Each draw looks at a handful of rows, chosen so that the posterior is still that of all of them. Where that does
    not pay, all rows decide on what a cheap surrogate lets pass. Either way the result is exact.

    \b
    A first session:
      tallbayes simulate loans --rows 200000 --out loans.parquet
      tallbayes fit loans.parquet "foreclosed ~ fico + dti" --out fit.nc
      tallbayes predict fit.nc loans.parquet --out predictions.parquet
      tallbayes fit loans.parquet "foreclosed ~ fico + dti" --method mh --out mh.nc
      tallbayes compare-speed mh.nc fit.nc
    """


for command in (
    fit_command, resume_command, status_command, summary_command, report_command, predict_command,
    compare_speed_command, compare_command, simulate_command, reproduce_command,
):  # fmt: skip
    main.add_command(command)
