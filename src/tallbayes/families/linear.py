"""Linear predictors of a chunk of rows: offset + x' theta, with columns in x (p, n), four of them at a time."""

from __future__ import annotations

from tallbayes.families.compiled import inside


@inside(inline="always")
def _add(eta, theta, x, j, start, stop):
    """eta += x' theta for up to four columns from j on; returns the next column."""
    left = x.shape[0] - j
    t0, x0 = theta[j], x[j, start:stop]
    if left == 1:
        for i in range(eta.size):
            eta[i] += t0 * x0[i]
        return j + 1
    t1, x1 = theta[j + 1], x[j + 1, start:stop]
    if left == 2:
        for i in range(eta.size):
            eta[i] += t0 * x0[i] + t1 * x1[i]
        return j + 2
    t2, x2 = theta[j + 2], x[j + 2, start:stop]
    if left == 3:
        for i in range(eta.size):
            eta[i] += (t0 * x0[i] + t1 * x1[i]) + t2 * x2[i]
        return j + 3
    t3, x3 = theta[j + 3], x[j + 3, start:stop]
    for i in range(eta.size):
        eta[i] += (t0 * x0[i] + t1 * x1[i]) + (t2 * x2[i] + t3 * x3[i])
    return j + 4


def linear_predictors(x, offset, theta, start, stop, eta):
    """eta = offset + x' theta on the rows start..stop, four columns at a time."""
    j = 0
    if offset.size > 0:
        for i in range(eta.size):  # an array that is copied into another would be copied twice, lest they overlap
            eta[i] = offset[start + i]
    elif x.shape[0] >= 4:
        t0, t1, t2, t3 = theta[0], theta[1], theta[2], theta[3]
        x0, x1, x2, x3 = x[0, start:stop], x[1, start:stop], x[2, start:stop], x[3, start:stop]
        for i in range(eta.size):
            eta[i] = (t0 * x0[i] + t1 * x1[i]) + (t2 * x2[i] + t3 * x3[i])
        j = 4
    else:
        for i in range(eta.size):
            eta[i] = 0.0
    while j < x.shape[0]:
        j = _add(eta, theta, x, j, start, stop)
