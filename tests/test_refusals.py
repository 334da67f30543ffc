"""The holder of refusals fails by itself where a message does not name what it must."""

import pytest

from nicscope.errors import StuckError
from refusals import refused, refused_command


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (TypeError("t.csv: line 3: no time"), AssertionError),
        (TypeError("t.csv: line 4\nTraceback"), AssertionError),
        (ValueError("t.csv: line 4"), ValueError),
    ],
)
def test_a_fact_that_is_missing_another_line_and_another_kind_are_heard_of(error, fails):
    with pytest.raises(fails), refused(TypeError, "t.csv", "line", 4):
        raise error


def test_what_names_all_is_held_in_any_words(capsys):
    with refused(TypeError, "line", 3) as told:
        raise TypeError("line 3 has no time")
    assert "no time" in str(told.value)
    with refused(StuckError, "process 1"):
        raise StuckError("nobody goes on", ["process 1 waits"])
    with pytest.raises(pytest.fail.Exception), refused(TypeError):
        pass
    assert "absent.parquet" in refused_command(capsys, ["replay", "absent.parquet"])
    with pytest.raises(AssertionError, match="'elsewhere'"):
        refused_command(capsys, ["replay", "absent.parquet"], "elsewhere")
