"""Figures that are not drawn, for tests of what is around them: drawing takes most of the time of a report."""

import hashlib

import numpy as np

from tallbayes.results import page


def _parts(figure):
    """What is on a figure: words, and where lines and marks are."""
    for axes in figure.axes:
        for text in _words(axes):
            yield text.encode()
        for line in axes.lines:
            yield _places(line.get_xydata())
        for marks in axes.collections:
            yield _places(marks.get_offsets())
            yield from (_places(path.vertices) for path in marks.get_paths())


def _words(axes):
    """All words but the numbers of ticks, which are not there before a figure is drawn."""
    yield from (text.get_text() for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts))
    for axis in (axes.xaxis, axes.yaxis):
        yield from map(str, getattr(axis.get_major_formatter(), "seq", ()))
    for legend in filter(None, [axes.get_legend(), *axes.figure.legends]):
        yield from (text.get_text() for text in legend.get_texts())


def _places(found):
    """Numbers to four digits, which is more than can be seen."""
    return (np.ascontiguousarray(found, np.float32).view(np.uint32) >> 8).tobytes()


def sketch(figure, salt=""):
    """In place of `page.svg`: an empty picture that differs where what is to be drawn does."""
    told = hashlib.sha256(b"\n".join(_parts(figure))).hexdigest()
    return f'<svg viewBox="0 0 400 300"><desc>{told}</desc></svg>'


def sketched(monkeypatch):
    """Pages have sketches instead of figures."""
    monkeypatch.setattr(page, "svg", sketch)
