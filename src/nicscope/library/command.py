"""Commands declared once, as functions: options, defaults, help, the command to repeat.

``@command`` marks the function; each of its parameters is ``Annotated`` with an ``Option``.  The
command line (``nicscope.cli.answer``), the function's documentation and the line that repeats a
call are made of that.  Before the function runs, each argument is read as its option: numbers and
arrays of NumPy are as good as Python's, a list is spelt with commas between.  What is of a type
that no option takes is refused here; what makes no sense is refused by whoever reads the text.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError, in_one_line

_PLAIN = re.compile(r"""^Annotated\[\s*["']?(.*?)["']?,\s.*""", re.S)
P = ParamSpec("P")
R = TypeVar("R")

One: TypeAlias = "str | int | float | bool | Path | None"
Word: TypeAlias = "One | Iterable[One]"
# Of a command's parameter: whatever an option can spell, which is a text once the function runs.
Text: TypeAlias = str | Any
Bytes: TypeAlias = int | Any  # likewise a number of bytes, and a list of what is given
Values: TypeAlias = list[Any] | Any


def as_given(what: str, value: Any) -> Any:  # noqa: ARG001 - as the other readers
    """``value`` itself, for parameters that take objects."""
    return value


class Option(NamedTuple):
    """The command line side of a parameter; name, type and default are the parameter's."""

    metavar: str  # what stands for the value in --help; of a switch, nothing
    help: str
    names: tuple[str, ...] = ()  # where it is not --name-of-the-parameter; the last one repeats it
    offers: str = ""  # what a shell completes it with: of nicscope.cli.arguments
    read: Callable[[str, Any], Any] | None = None  # of what is given; None: by the type
    words: Callable[[Any], Any] = lambda value: value  # what is read, in the repeated line
    is_argument: bool = False  # stands on the command line without a name
    is_repeated: bool = False  # may be given again for another value
    reads_services: bool = False  # a trace, which may be that of a language model's service
    is_of_result: bool = True  # the same numbers need it again
    least: float | None = None
    most: float | None = None
    is_required: bool = False  # on the command line, where a call may leave it out


def each_given(what: str, value: Any) -> list[Any]:  # noqa: ARG001 - as the other readers
    """The values of a list, or the one that is none; of None, none."""
    return several(value)


# What several commands take.
Registering = Annotated[Text, Option("NAME|FILE", "Costs of registration.", offers="registrations")]
Assignments = Annotated[
    Values,
    Option(
        "KEY=VALUE",
        "Change a setting of every design, such as entries=1024; may be repeated.",
        ("--set",),
        read=each_given,
        is_repeated=True,
    ),
]
Kinds = Annotated[
    bool, Option("", "Do not divide misses into capacity and conflict; faster.", ("--no-kinds",))
]
Workers = Annotated[
    int | None,
    Option(
        "N",
        "Processes that share the nodes of a folder. Default: one per processor.",
        is_of_result=False,
    ),
]
Scheduler = Annotated[
    str | None,
    Option(
        "tcp://HOST:PORT",
        "Dask cluster that shares the nodes of a folder; it must see the "
        "files under the same paths.",
        is_of_result=False,
    ),
]

Delay = Annotated[
    Text,
    Option("TIME", "How long a packet propagates between two nodes, such as 40ms. Default: 0."),
]
Timeline = Annotated[
    str | Path | None,
    Option(
        "FILE",
        "Timeline of a program: what every engine did when, for "
        "ui.perfetto.dev, or as a page if FILE ends in .html; - for standard "
        "output.",
    ),
]


def designs(help: str) -> Option:  # noqa: A002 - what it is everywhere here
    """An option for several designs: names of the catalog, files or ``Design`` objects."""
    return Option("NAME|FILE", help, ("--design",), "designs", read=each_given, is_repeated=True)


def platform_option(help: str, *names: str) -> Option:  # noqa: A002 - likewise
    """An option for a platform: a name of the catalog, a file or a ``Platform``."""
    return Option("NAME|FILE", help, names, "platforms", read=as_given)


class Asked(NamedTuple):
    """A parameter of a command as its function declares it."""

    name: str
    kind: Any  # bool, int, float, or str for all that is spelt
    default: Any  # Parameter.empty: it must be given
    option: Option

    @property
    def names(self) -> tuple[str, ...]:
        """The option's names, with dashes."""
        return self.option.names or ("--" + self.name.replace("_", "-"),)

    def read(self, value: Any) -> Any:
        """Parse ``value`` for the option.  Errors: ``StudyError`` for what no option takes."""
        by_type: dict[Any, Callable[[str, Any], Any]] = {
            bool: lambda _, value: bool(value),
            int: whole,
            float: number,
        }
        reader = self.option.read or by_type.get(self.kind, word)
        found = reader(self.name, value)
        if found is None and self.default is inspect.Parameter.empty and reader is not as_given:
            raise StudyError(f"{self.name}: give a value")
        if found is None and self.default not in (None, inspect.Parameter.empty):
            raise StudyError(f"{self.name}: give a value; left out it is {self.default}")
        least, most = self.option.least, self.option.most
        too_little = found is not None and least is not None and found < least
        if too_little or (found is not None and most is not None and found > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise StudyError(f"{self.names[-1]} must be {bounds}, got {found}")
        return found


class Command(NamedTuple):
    """A function's ``@command`` declaration."""

    function: Callable[..., Any]
    words: tuple[str, ...]
    examples: tuple[str, ...]
    out: str  # what a folder of results holds; nothing: it writes none

    def asked(self) -> list[Asked]:
        """Its parameters, in order."""
        names = _Names(vars(builtins) | self.function.__globals__)
        found = []
        for parameter in [*inspect.signature(self.function).parameters.values()][1:]:
            hint = eval(parameter.annotation, {}, names)
            if get_origin(hint) is Annotated:
                told, option = get_args(hint)[:2]
                kinds = {one for one in get_args(told) or (told,) if one is not type(None)}
                kind = next(iter(kinds & {bool, int, float}), str) if len(kinds) == 1 else str
                found.append(Asked(parameter.name, kind, parameter.default, option))
        return found

    def documentation(self) -> str:
        """The function's docstring, with its parameters and their help."""
        told = [f"    {one.name}: {one.option.help}" for one in self.asked()]
        errors = "Errors: ``NicscopeError``, before any work is done if it can be."
        text = inspect.cleandoc(self.function.__doc__ or "")
        return "\n".join([text, "", "Args:", *told, "", errors, ""])

    def line(self, asked: Iterable[Asked], values: Mapping[str, Any]) -> list[str]:
        """The command line that repeats the call: options that differ from their defaults."""
        words: list[Any] = [*self.words]
        options: dict[str, Any] = {}
        for one in asked:
            if not one.option.is_of_result:
                continue
            value = values[one.name]
            told = one.option.words(value)
            if one.option.is_argument:
                words += [] if told is None else several(told)
            elif one.kind is bool:
                options[one.names[-1]] = value is not one.default
            elif one.default is inspect.Parameter.empty or value != one.read(one.default):
                options[one.names[-1]] = told
        return command_line(words, options)


def _refuse_options(settings: Mapping[str, Any], asked: Iterable[Asked], called: str) -> None:
    """Errors: ``StudyError`` for a keyword that is an option's name, not the parameter's."""
    for name in settings:
        option = "--" + name.replace("_", "-")
        for one in asked:
            if option in one.names:
                raise StudyError(f"{called}() has no {name}=; {option} is {one.name}= here")


class _Unknown:
    """A placeholder for a type that is imported only for type checking."""

    def __class_getitem__(cls, item: Any) -> type[_Unknown]:
        return cls


class _Names(dict[str, Any]):
    """The namespace for evaluating annotations."""

    def __missing__(self, name: str) -> Any:
        return _Unknown


def command(
    *examples: str, words: str = "", out: str = ""
) -> Callable[[Callable[Concatenate[list[str], P], R]], Callable[P, R]]:
    """Declare a function to be the command ``words`` (left out: the function's name).

    Called, the function gets as its first argument the command line that repeats the call, and its
    other arguments as their options read them; ``**settings`` go to ``assignments``.

    Args:
        examples: command lines, for ``--help`` and for mistakes.
        words: of a command below another, such as ``"verbs bw"``.
        out: what the folder of ``--out`` holds; nothing: there is no such option.

    """

    def declare(function: Callable[Concatenate[list[str], P], R]) -> Callable[P, R]:
        own = [*inspect.signature(function).parameters.values()][1:]
        shown = inspect.Signature(
            [
                one.replace(
                    name=one.name.removeprefix("_"),
                    annotation=_PLAIN.sub(r"\1", one.annotation),
                )
                for one in own
            ],
            return_annotation=function.__annotations__["return"],
        )
        command = Command(function, tuple(words.split()) or (function.__name__,), examples, out)

        @functools.wraps(function)
        @in_one_line
        def call(*args: P.args, **given: P.kwargs) -> R:
            bound = shown.bind(*args, **given)
            bound.apply_defaults()
            values, asked = bound.arguments, command.asked()
            if shown.parameters[[*values][-1]].kind is inspect.Parameter.VAR_KEYWORD:
                _, settings = values.popitem()
                _refuse_options(settings, asked, function.__name__)
                values["assignments"] = assignments(values["assignments"], settings)
            for one in asked:
                values[one.name] = one.read(values[one.name])
            return function(command.line(asked, values), *bound.args, **bound.kwargs)

        call.__dict__.update(__signature__=shown, command=command)
        return call

    return declare


def command_line(words: Iterable[Any], options: Mapping[str, Any]) -> list[str]:
    """Arguments that repeat the call; none if it was given a table or an object.

    ``options``: those that were not left out.  None and False are left out after all, True is an
    option without a value, and of a list each value has the option before it.
    """
    command = ["nicscope", *words]
    for option, value in options.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is True:
                command.append(option)
            elif one is not None and one is not False:
                command += [option, one]
    if not all(isinstance(one, str | Path | int | float) for one in command):
        return []
    return [str(one) if isinstance(one, str | Path) else repr(one) for one in command]


def several(things: Any) -> list[Any]:
    """The ``things`` of a list, or the one that is none; of None, none."""
    if things is None:
        return []
    return list(things) if isinstance(things, list | tuple) else [things]


def texts(given: str | Iterable[str] | None) -> list[str]:
    """The texts ``given`` one by one, or the one that is no list; of None, none."""
    return [given] if isinstance(given, str) else [*(given or ())]


def word(what: str, value: Word) -> str | None:
    """``value`` as the option ``what`` is spelt: a list with commas between; None stays None.

    Errors: ``StudyError`` for what no option takes, and for an empty list.
    """
    value = _plain(value)
    if value is None:
        return None
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return _one(what, value)
    listed = [_one(what, one) for one in value]
    if not listed:
        raise StudyError(f"{what}: an empty list; give at least one value")
    return ",".join(listed)


def span(what: str, value: Word) -> str | None:
    """As ``word``, of a range: its two ends, or a text such as ``64..8192``."""
    value = _plain(value)
    if isinstance(value, list | tuple) and len(value) == 2:
        return "..".join(_one(what, end) for end in value)
    return word(what, value)


def whole(what: str, value: int | None) -> int | None:
    """``value`` as a whole number of Python; None stays None.  Errors: ``StudyError``."""
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise StudyError(f"{what} must be a whole number, got {value!r}")


def number(what: str, value: float | None) -> float | None:
    """``value`` as a number of Python; None stays None.  Errors: ``StudyError``."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, int | float | None):
        raise StudyError(f"{what} must be a number, got {value!r}")
    return plain


def byte_count(what: str, value: str | int | None) -> int | None:
    """The bytes that a number or a text such as ``"8KiB"`` stands for; None stays None.

    Errors: ``StudyError``.
    """
    if not isinstance(value, str):
        return whole(what, value)
    count = read_bytes(value)
    if count is None:
        raise StudyError(f"{what}: {value!r} is no whole number of bytes, {BYTE_SPELLINGS}")
    return count


def assignments(given: str | Iterable[str] | None, settings: Mapping[str, Word]) -> list[str]:
    """``given``, as ``--set`` takes them, then ``settings`` by name; None removes a limit."""
    return [*texts(given), *(f"{key}={_one(key, value)}" for key, value in settings.items())]


def _one(what: str, value: Any) -> str:
    value = _plain(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    raise StudyError(
        f"{what}: {type(value).__name__!r} is none of its values; give a number, a text or a list"
    )


def _plain(value: Any) -> Any:
    """A NumPy number or array as Python values; anything else unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value
