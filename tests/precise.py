"""Log-likelihoods of a row in decimal arithmetic with as many digits as it takes: the truth for accuracy tests.

The formulas are those of the definitions, without a thought for cancellation; enough digits take care of it.
"""

from decimal import Decimal, localcontext
from functools import lru_cache

from tallbayes.families import LINKS
from tallbayes.families.poisson import Log

DIGITS = 80
TAGS = {"poisson": Log()} | {link: kind() for link, kind in LINKS.items()}


def expansion(link, y, eta):
    """Value and three derivatives in eta (up to 45 in size), as decimals."""
    return _expansion(link, float(y), Decimal(eta))


def third(link, y, eta):
    """The third derivative, as a float."""
    return float(expansion(link, y, float(eta))[3])


def remainder(link, y, eta, h):
    """f(eta + h) less its expansion of second order at eta, as a float."""
    with localcontext() as context:
        context.prec = DIGITS
        eta, h = Decimal(float(eta)), Decimal(float(h))
        value, first, second, _ = expansion(link, y, eta)
        return float(expansion(link, y, eta + h)[0] - value - first * h - second * h * h / 2)


@lru_cache(maxsize=100_000)
def _expansion(link, y, eta):
    y = Decimal(y)
    lost = {"logit": abs(eta), "probit": eta * eta / 4, "cloglog": eta.exp() + abs(eta) * 3}  # digits that cancel
    with localcontext() as context:
        context.prec = DIGITS + 40 + int(min(lost.get(link, 0), 600))
        if link == "poisson":
            mean = eta.exp()
            return y * eta - mean, y - mean, -mean, -mean
        if link == "logit":
            p = 1 / (1 + (-eta).exp())
            return (p if y else 1 - p).ln(), y - p, -p * (1 - p), -p * (1 - p) * (1 - 2 * p)
        if link == "probit":
            sign = 1 if y else -1
            e = sign * eta
            below, bell = _normal(e)
            m = bell / below
            return below.ln(), sign * m, -m * (m + e), sign * m * ((m + e) * (2 * m + e) - 1)
        t = eta.exp()
        if not y:
            return -t, -t, -t, -t
        b = t / (t.exp() - 1)
        slope = b * (1 - t - b)
        return (1 - (-t).exp()).ln(), b, slope, slope * (1 - t - b) - b * (t + slope)


def _normal(e):
    """Phi(e) and phi(e): Phi = 1/2 + phi(e) (e + e^3/3 + e^5/15 + ...)."""
    bell = (-e * e / 2).exp() / (2 * PI).sqrt()
    total = term = e
    k = 1
    while abs(term) > abs(total).scaleb(-620):
        k += 2
        term *= e * e / k
        total += term
    return Decimal(1) / 2 + bell * total, bell


def _pi():
    """16 atan(1/5) - 4 atan(1/239)."""
    with localcontext() as context:
        context.prec = 740
        total = Decimal(0)
        for factor, of in ((16, 5), (-4, 239)):
            power, k = Decimal(factor) / of, 1
            while abs(power) > Decimal(10) ** -740:
                total += power / k
                power, k = -power / (of * of), k + 2
        return total


PI = _pi()
