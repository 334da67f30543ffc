"""Where code can be broken, and how: Cosmic Ray's operators, and statements taken away.

One mutant per place and kind of change, drawn at random.  A change that leaves the program the
same but for types and decorators, which plain Python does not run, is no mutant.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import Keyword

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

# Left out: what plain Python does not run, and what stands for another of the same place.
_LEFT_OUT = ("RemoveDecorator", "ExceptionReplacer", "VariableReplacer", "VariableInserter")
_SENSELESS = ("_Is", "_IsNot", "_Pow", "_Div", "_RShift", "_LShift", "_Mod")


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: Path  # from the root of the checkout
    line: int
    before: str  # the first line that differs
    after: str
    code: str  # of the whole file


class TakeStatementAway(Operator):
    """Replaces a simple statement by ``pass``."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """The place of ``node``, if it is a statement with an effect."""
        if node.type in ("expr_stmt", "atom_expr", "power") and _stands_alone(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """``pass`` in place of ``node``."""
        assert index == 0
        return Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        """What Cosmic Ray tests an operator by."""
        return (Example("a = 1\nf(a)", "pass\nf(a)"), Example("a = 1\nf(a)", "a = 1\npass", 1))


def _stands_alone(node: Any) -> bool:
    return node.parent is not None and node.parent.type == "simple_stmt"


def _operators() -> Iterator[Operator]:
    provider = OperatorProvider()
    for name in provider:
        if name not in _LEFT_OUT and not name.endswith(_SENSELESS):
            yield provider[name]()
    yield TakeStatementAway()


@dataclass(frozen=True)
class Place:
    """One place of one file, with the changes of one kind that can be made there."""

    file: Path
    path: Path  # from the root of the checkout
    candidates: tuple[tuple[Operator, int], ...]

    def mutant(self, generator: random.Random) -> Mutant | None:
        """One of the changes, drawn; None if it changes nothing that runs."""
        operator, occurrence = generator.choice(self.candidates)
        code = self.file.read_text()
        mutated = mutate_code(code, operator, occurrence)
        if mutated is None or _meaning_of(mutated) in (_meaning_of(code), None):
            return None
        return _mutant(self.path, code, mutated)


def places_of(file: Path, path: Path) -> Iterator[Place]:
    """Each place of ``file`` where something can be changed, once for each kind of change."""
    nodes = list(ast_nodes(get_ast(file.read_text())))
    choices: dict[tuple[Any, str], list[tuple[Operator, int]]] = {}
    for operator in _operators():
        kind = type(operator).__name__.split("_")[0]
        places = itertools.chain.from_iterable(map(operator.mutation_positions, nodes))
        for occurrence, (start, _end) in enumerate(places):
            choices.setdefault((start, kind), []).append((operator, occurrence))
    for candidates in choices.values():
        yield Place(file, path, tuple(candidates))


def _mutant(path: Path, code: str, mutated: str) -> Mutant:
    lines = itertools.zip_longest(code.splitlines(), mutated.splitlines(), fillvalue="")
    line, (before, after) = next(
        (number, pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1]
    )
    return Mutant(path, line, before.strip(), after.strip(), mutated)


class _Untyped(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def _meaning_of(code: str) -> str | None:
    """``code`` without what does not run; None if it is no Python."""
    try:
        return ast.dump(_Untyped().visit(ast.parse(code)))
    except (SyntaxError, ValueError):
        return None
