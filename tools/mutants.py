"""The mutation operators: those of cosmic-ray that rarely crash at once, and two of our own."""

# ruff: noqa: SIM905  # lists of words are easier to read
from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Name

from tools.mutation_parts import GPU_DEFINITIONS, GPU_STATEMENT, PARTS, PERFORMANCE, PERFORMANCE_STATEMENT

CORE = """AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd ReplaceBreakWithContinue
    ReplaceContinueWithBreak ExceptionReplacer NumberReplacer ZeroIterationForLoop""".split()
UNARY = "Delete_USub Delete_Invert Delete_Not".split()
BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitOr_BitAnd BitAnd_BitOr".split()
COMPARISON = "Eq_NotEq NotEq_Eq Lt_LtE Lt_Gt LtE_Lt LtE_Gt Gt_GtE Gt_Lt GtE_Gt GtE_Lt Is_IsNot IsNot_Is".split()
PRESERVING = set(
    """abs add_ cast clamp clamp_ clone coalesce copy detach double drop_null exp_ fill_ fill_null filter float long
    lower lstrip mul_ masked_fill masked_fill_ maximum minimum nan_to_num normalize replace_substring
    replace_substring_regex round rsqrt rstrip sort sorted sqrt square strip sub_ take unique utf8_lower
    utf8_trim_whitespace""".split()
)


class DropStatement(Operator):
    """``f(x)``, ``a += b`` or ``raise error`` → ``pass``."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        first = node.children[0] if node.type == "simple_stmt" else node
        is_call = first.type in ("atom_expr", "power") and first.children[-1].get_code().startswith("(")
        is_augmented = first.type == "expr_stmt" and re.fullmatch(r"\W+=", first.children[1].get_code().strip())
        if first is not node and (is_call or is_augmented or first.type == "raise_stmt"):
            yield first.start_pos, first.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        first = node.children[0]
        node.children[0] = Name("pass", first.start_pos, first.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class DropCall(DropStatement):
    """``x.f().g()`` → ``x.g()`` or ``x.f()``, and ``module.f(x)`` → ``x``."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        for place in self._droppable(node):
            yield node.children[place].start_pos, node.children[place + 1].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        place, parts = self._droppable(node)[index], node.children
        if place == 1 and parts[0].get_code().strip() in ("torch", "np", "pc", "F", "math"):
            inside = parts[2].children[1]
            parts = [inside.children[0] if inside.type == "arglist" else inside]
        code = "".join(part.get_code() for part in (*parts[:place], *node.children[place + 2 :])).strip()
        return Name(code, node.start_pos, node.get_first_leaf().prefix)

    def _droppable(self, node: Any) -> list[int]:
        if node.type not in ("atom_expr", "power") or node.parent.type == "simple_stmt":
            return []
        parts = [part.get_code() for part in node.children]
        return [i for i in range(1, len(parts) - 1) if parts[i][1:] in PRESERVING and parts[i + 1].startswith("(")]


NAMES = [*CORE, *(f"ReplaceUnaryOperator_{change}" for change in UNARY)]
NAMES += [f"ReplaceBinaryOperator_{change}" for change in BINARY]
NAMES += [f"ReplaceComparisonOperator_{change}" for change in COMPARISON]
OPERATORS: dict[str, Operator] = {name: get_operator(f"core/{name}")() for name in NAMES}
OPERATORS |= {"DropStatement": DropStatement(), "DropCall": DropCall()}


class Mutant(NamedTuple):
    file: str
    line: int
    operator: str
    occurrence: int

    def source(self, root: Path) -> str | None:
        """The mutated source; None if the change is not valid Python or changes nothing."""
        original = (root / self.file).read_text(encoding="utf-8")
        try:
            changed = mutate_code(original, OPERATORS[self.operator], self.occurrence)
            return changed if changed and ast.dump(ast.parse(changed)) != ast.dump(ast.parse(original)) else None
        except (SyntaxError, AttributeError):  # cosmic-ray raises the latter on ``except (A, B)``
            return None


def is_excluded(node: Any) -> bool:
    """Annotations, type aliases, type-checking blocks, performance settings, and code that only a GPU runs."""
    if node.type in ("if_stmt", "while_stmt") and GPU_STATEMENT.search(node.children[1].get_code()):
        return True
    for child, parent in itertools.pairwise(_upwards(node)):
        kind, code = parent.type, ""
        if kind in ("annassign", "tfpdef") and child is parent.children[1 if kind == "annassign" else -1]:
            return True
        if kind in ("funcdef", "param") and child is parent.annotation:
            return True
        if kind == "parameters" and child.type == "operator":  # the * before keyword-only arguments
            return True
        if kind in ("funcdef", "classdef"):
            if parent.name.value in PERFORMANCE or parent.name.value in GPU_DEFINITIONS:
                return True
        elif kind == "simple_stmt":
            code = parent.get_code(include_prefix=False)
            name = re.split(r"\W", code)[0] if parent.parent.type == "file_input" else ""
            if name in PERFORMANCE or (" | " in code and re.match(r"[A-Z]\w*[a-z]", name)):
                return True
        elif kind == "if_stmt":
            code, at = parent.children[1].get_code(), parent.children.index(child)
            if "TYPE_CHECKING" in code or (GPU_STATEMENT.search(code) and at == 3 and "not " not in code):
                return True
            code = code if at == 1 else ""
        elif kind == "for_stmt" and child is parent.children[3]:
            code = child.get_code()
        if PERFORMANCE_STATEMENT.search(code) or GPU_STATEMENT.search(code):
            return True
    return False


def _upwards(node: Any) -> Iterator[Any]:
    while node is not None:
        yield node
        node = node.parent


def draw_mutants(root: Path, part: str, count: int, seed: int) -> tuple[list[Mutant], int]:
    """The sample of a part, and the number of places in the part."""
    found = {glob: set(root.glob(glob.removeprefix("!"))) for glob in PARTS[part]["files"]}
    excluded = set().union(*(paths for glob, paths in found.items() if glob.startswith("!")))
    every: dict[tuple[Any, ...], list[Mutant]] = {}
    for path in sorted(set().union(*found.values()) - excluded):
        file, tree = str(path.relative_to(root)), parso.parse(path.read_text(encoding="utf-8"))
        for name, operator in OPERATORS.items():
            positions = ((node, *span) for node in ast_nodes(tree) for span in operator.mutation_positions(node))
            for occurrence, (node, start, end) in enumerate(positions):
                if not is_excluded(node):
                    every.setdefault((file, start, end), []).append(Mutant(file, start[0], name, occurrence))
    draw = random.Random(f"{seed} {part}")
    mutants = (draw.choice(every[place]) for place in draw.sample(sorted(every), len(every)))
    return list(itertools.islice((mutant for mutant in mutants if mutant.source(root)), count)), len(every)
