"""From a declared type to the check of a decoded value: its type, its bounds, nothing missing.

A check takes a column of values, one of each row, and looks at all of them in a few steps: names
come by the thousand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain, islice
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from cotenant.agent.bounds import Chars, MaxItems, Range
from cotenant.errors import CotenantError

Column = Sequence[Any]
Check = Callable[[Column], Column]
_Bounds = dict[type, Any]


class Malformed(CotenantError):
    """A message is not what its kind declares."""


def check_of(hint: Any, bounds: _Bounds | None = None) -> Check:
    """The check of a declared type; TypeError if it leaves anything without bound."""
    within = bounds or {}
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return check_of(args[0], within | {type(bound): bound for bound in args[1:]})
    if origin is Literal:
        return _literal(frozenset(args))
    if NoneType in args:
        (other,) = (arg for arg in args if arg is not NoneType)
        return _optional(check_of(other, within))
    if origin is Mapping:
        return _mapping(
            check_of(args[0], within), check_of(args[1], within), _bound(MaxItems, within)
        )
    if origin is tuple and args[-1] is Ellipsis:
        return _list(check_of(args[0], within), _bound(MaxItems, within))
    if origin is tuple:
        return _row(tuple, dict(enumerate(args)), within)
    if is_dataclass(hint) and isinstance(hint, type):
        return _object(hint, within)
    if issubclass(hint, tuple):
        # Not _make, which counts them once more.
        make = partial(tuple.__new__, hint)
        return _row(make, get_type_hints(hint, include_extras=True), within)
    return _scalar(hint, within)


def _scalar(hint: type, within: _Bounds) -> Check:
    if hint is bool:
        return lambda column: _of(bool, column)
    if hint is int:
        return _number(int, _bound(Range, within))
    if hint is float:
        return _number(float, _bound(Range, within))
    if hint is str:
        return _text(_bound(Chars, within))
    raise TypeError(f"no message can hold a {hint}")


def _bound(kind: type, within: _Bounds) -> Any:
    if kind not in within:
        raise TypeError(f"declare its {kind.__name__}")
    return within[kind]


def _of(kind: type, column: Column) -> Column:
    # Not isinstance: True is no number here.
    if not set(map(type, column)) <= {kind}:
        raise Malformed(f"is no {kind.__name__}")
    return column


def _number(kind: type, bound: Range) -> Check:
    def check(column: Column) -> Column:
        _of(kind, column)
        # Written so that NaN is out of range.
        if column and not (min(column) >= bound.least and max(column) <= bound.most):
            raise Malformed(f"is not within {bound.least} and {bound.most}")
        return column

    return check


def _text(bound: Chars) -> Check:
    def check(column: Column) -> Column:
        _of(str, column)
        if max(map(len, column), default=0) > bound.most:
            raise Malformed(f"has more than {bound.most} characters")
        if not bound.quotes_files:
            try:
                "".join(column).encode()
            except UnicodeEncodeError:
                raise Malformed("has what is no character") from None
        return column

    return check


def _literal(allowed: frozenset[str]) -> Check:
    def check(column: Column) -> Column:
        if not set(_of(str, column)) <= allowed:
            raise Malformed(f"is none of {', '.join(sorted(allowed))}")
        return column

    return check


def _optional(inner: Check) -> Check:
    def check(column: Column) -> Column:
        present = iter(inner([value for value in column if value is not None]))
        return [None if value is None else next(present) for value in column]

    return check


def _few(kind: type, bound: MaxItems, column: Column) -> None:
    if max(map(len, _of(kind, column)), default=0) > bound.most:
        raise Malformed(f"has more than {bound.most} items")


def _list(inner: Check, bound: MaxItems) -> Check:
    def check(column: Column) -> Column:
        _few(list, bound, column)
        items = iter(inner(list(chain.from_iterable(column))))
        return [tuple(islice(items, len(value))) for value in column]

    return check


def _mapping(key: Check, value: Check, bound: MaxItems) -> Check:
    def check(column: Column) -> Column:
        _few(dict, bound, column)
        key(list(chain.from_iterable(column)))
        values = iter(value(list(chain.from_iterable(each.values() for each in column))))
        return [dict(zip(each, values, strict=False)) for each in column]

    return check


def _row(make: Callable[[Iterable[Any]], Any], hints: Mapping[Any, Any], within: _Bounds) -> Check:
    """A tuple, written as a list of values in their order."""
    checks = {name: check_of(hint, within) for name, hint in hints.items()}

    def check(column: Column) -> Column:
        if not set(map(len, _of(list, column))) <= {len(checks)}:
            raise Malformed(f"has not {len(checks)} values")
        return list(map(make, zip(*_each(checks, zip(*column, strict=True)), strict=True)))

    return check


def _object(kind: type[Any], within: _Bounds) -> Check:
    """A dataclass, written with the names of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    checks = {field.name: check_of(hints[field.name], within) for field in fields(kind)}

    def check(column: Column) -> Column:
        for value in _of(dict, column):
            if value.keys() != checks.keys():
                raise Malformed(f"has not the fields of {kind.__name__}")
        if not checks:
            return [kind() for _ in column]
        columns = ([value[name] for value in column] for name in checks)
        return [kind(*row) for row in zip(*_each(checks, columns), strict=True)]

    return check


def _each(checks: Mapping[Any, Check], columns: Iterable[Column]) -> list[Column]:
    checked = []
    for (name, check), column in zip(checks.items(), columns, strict=False):
        try:
            checked.append(check(column))
        except Malformed as error:
            raise Malformed(f"{name}: {error}") from None
    return checked
