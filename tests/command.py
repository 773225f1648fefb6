"""How tests call the command line in their own process."""

from click.testing import CliRunner

from tallbayes.cli import main


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
