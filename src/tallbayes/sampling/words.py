"""Numbers as texts have them."""


def few(rows: float) -> str:
    """A number of rows per draw; with thinning it is often below one.

    >>> few(12_345.6), few(0.8765)
    ('12,346', '0.88')
    """
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"
