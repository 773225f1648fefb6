"""A progress bar for work that goes through rows: how many, how many a second, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def counting_rows(
    wanted: bool, doing: str, total: int | None, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows that are done since the last call; without a total no time is left.

    >>> with counting_rows(False, "writing", 2_000) as done:
    ...     done(1_000)
    """
    if not wanted:
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=6),
        TextColumn("{task.fields[rows]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[speed]}"),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as bar:
        task = bar.add_task(doing, total=total, rows="", speed="")

        def done(rows: int) -> None:
            bar.advance(task, rows)
            found = bar.tasks[0]
            of_all = "" if total is None else f"/{total:,}"
            speed = found.finished_speed or found.speed
            bar.update(
                task, rows=f"{int(found.completed):,}{of_all} rows", speed=f"{speed:,.0f} rows/s" if speed else ""
            )

        done(0)
        yield done
