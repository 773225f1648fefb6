"""What travels between machines comes out as it went in, and nothing else can be made of a message."""

import json

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data.learning import Asked, Learning
from tallbayes.data.parsed import parse
from tallbayes.data.sources import open_source
from tallbayes.engines.wire import Message, pack, unpack
from tallbayes.families import Bernoulli, Binomial, Logit, Poisson
from tallbayes.rows.looking import FirstLook
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.room import Room
from tallbayes.rows.tasks import LogLikelihood
from tallbayes.rows.urn import Lots


def there_and_back(value):
    message = pack(value)
    return unpack(Message(message.text, [array.copy() for array in message.arrays]))


PLAIN = {
    "nothing": None,
    "truth": [True, False],
    "whole": [0, -7, 2**53 - 1, 2**53, 2**64 + 1, -(2**90)],
    "number": [0.1, -0.0, float("inf"), 5e-324, 1 / 3],
    "text": ["", "grün", '"', "\n", "tuple"],
    "bytes": b"\x00\xff",
    "nested": ({"a": [1, (2, [])]}, {}, ()),
    "keys": {1: "a", (1, "b"): "c", None: "d", 0.5: "e"},
    "range": range(2, 9, 3),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_values(name):
    found = there_and_back(PLAIN[name])
    assert repr(found) == repr(PLAIN[name])


def test_not_a_number():
    assert np.isnan(there_and_back(float("nan")))


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.empty((0, 4)),
        np.arange(6).reshape(2, 3)[:, ::2],
        np.arange(6.0).reshape(2, 3).T,
        np.array([True, False]),
        np.array(["2020-01-01", "NaT"], "datetime64[ns]"),
        np.array([1, 255], np.uint8),
        np.array(["a", None, 2], object),
        np.array(["ab", "c"]),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays(array):
    found = there_and_back(array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def test_scalars_of_numpy_stay_what_they_are():
    for value in (np.float64(0.1), np.int64(2**60), np.bool_(True)):
        found = there_and_back(value)
        assert type(found) is type(value)
        assert found == value


def test_arrays_are_the_receivers_own():
    given = np.zeros(3)
    found = unpack(pack({"x": given}))["x"]
    found += 1
    assert given.tolist() == [0, 0, 0]
    assert given.flags.writeable


def test_arrays_travel_as_their_bytes():
    message = pack({"x": np.ones(1_000), "same": np.zeros(1_000)})
    assert message.size < 2 * 8_000 + 200
    assert len(message.text) < 200


@pytest.mark.parametrize("values", [["b", "a", "b"], [3, 1, 3]])
def test_categories(values):
    given = pd.Categorical(values, ordered=True)
    found = there_and_back(given)
    assert found.equals(given)
    assert found.ordered
    assert there_and_back(pd.Index(["x", "y"])).equals(pd.Index(["x", "y"]))


def test_own_values():
    measure = RemainderBounds(Logit(), np.ones(2), np.eye(2), 7.0, 0.1)
    lots = Lots(measure, np.ones(2), 10.0, 3.0, 5, (2**62 + 1, 0))
    found = there_and_back(lots)
    assert (found.wanted, found.key, found.measure.family) == (10.0, (2**62 + 1, 0), Logit())
    rows = MemoryRows(np.ones((2, 50)), np.arange(50) % 2)
    one, other = rows.reduce(lots), rows.reduce(found)
    np.testing.assert_array_equal(one.pool.y, other.pool.y)
    for value in (LogLikelihood(Bernoulli("probit").tag), Bernoulli("cloglog"), Poisson("days"), Binomial("sent")):
        assert there_and_back(value) == value
    assert there_and_back(FirstLook(5, 0.5, 7.0)) == FirstLook(5, 0.5, 7.0)
    assert there_and_back(Room(7)) == Room(7)


def test_what_was_learned_travels():
    rng = np.random.default_rng(1)
    n = 500
    data = pd.DataFrame({"y": rng.random(n) < 0.3, "x": rng.normal(size=n), "g": rng.choice(["a", "b", "c"], n)})
    data["t"], data["b"] = pd.date_range("2020", periods=n), rng.integers(0, 7, n)
    parsed = parse("y ~ scale(x) + bs(x, df=4) + g + C(b) + month(t) + (1 | b)")

    def learning():
        return Learning(parsed, open_source(data), Asked(), {})

    first, second = learning(), learning()
    first.look()
    second.then(there_and_back(first.seen()))
    one, other = first.finish(), second.finish()
    assert one.formula.to_json() == other.formula.to_json()
    for part, same in zip(one.arrays(), other.arrays(), strict=True):
        np.testing.assert_array_equal(part, same)


class Stranger:
    pass


@pytest.mark.parametrize(
    "value", [Stranger(), object, len, {1, 2}, pd.Series([1]), tb], ids=lambda value: type(value).__name__
)
def test_others_cannot_travel(value):
    with pytest.raises(TypeError, match="cannot travel to another machine"):
        pack([value])


def test_functions_travel_to_workers_only():
    message = pack({"function": lambda x: x + 1})
    assert unpack(message, functions=True)["function"](2) == 3
    assert unpack(message, functions=True)["function"] is unpack(message, functions=True)["function"]
    with pytest.raises(ValueError, match="holds a function where none may be"):
        unpack(message)


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "tallbayes.fit:fit", "tallbayes.rows.memory:np", "tallbayes_evil:Thing"]
)
def test_a_message_makes_own_classes_only(name):
    for kind in ("named", "own"):
        with pytest.raises(ValueError, match="a message names"):
            unpack(Message(json.dumps([kind, name, []]), []))
