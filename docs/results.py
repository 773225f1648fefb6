"""Makes the page of benchmarks from what the benchmarks printed."""

from charts import RESULTS, charts
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

INTRODUCTION = """# Benchmarks

Four charts first, and then everything that the benchmarks printed, unedited: each with the command that runs it, the
date and the machine. Timings vary by about 20% from run to run, so compare numbers within a run. `make bench` runs all
but the peers, and renews this page.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those that are there."""
    parts = [INTRODUCTION, *(f"## {chart.title}\n\n{chart.html()}\n\n" for chart in charts())]
    for path in sorted(RESULTS.glob("*.txt")):
        command, when, _, *printed = path.read_text("utf-8").splitlines()
        title = path.stem.replace("mars", "splines").replace("-", ", ").replace("_", " ")
        shown = "\n".join(printed).strip("\n")
        parts.append(
            f"## {title.capitalize()} {{ data-search-exclude }}\n\n`{command}`, {when}\n\n```text\n{shown}\n```\n\n"
        )
    files.append(File.generated(config, "benchmarks.md", content="".join(parts)))
    return files
