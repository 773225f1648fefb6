"""Adds the changelog to the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """What mkdocs calls with the files that it found."""
    files.append(File.generated(config, "changelog.md", content=CHANGELOG.read_text("utf-8")))
    return files
