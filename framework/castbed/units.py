"""Numbers with units, as people write them in experiments: `"10s"`, `"2Mbit/s"`, `"1KiB"`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
import msgspec.inspect

from castbed.errors import ConfigurationError

T = TypeVar("T")

_QUANTITY = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/]*)\s*$")


class Written:
    """Base of values that configurations write as text (or in any other plain form) and `parse` reads."""

    @classmethod
    def parse(cls, written: object) -> Any:
        """Read it; ValueError says what was expected."""
        raise NotImplementedError


class Quantity(int, Written):
    """A whole number that is written with a unit."""

    units: Mapping[str, int] = {}
    what = "a number with a unit"

    @classmethod
    def parse(cls, written: object) -> Quantity:
        """Read `"250us"`; a bare number is refused, because its unit would be a guess."""
        match = _QUANTITY.match(written) if isinstance(written, str) else None
        if match is None or match[2] not in cls.units:
            raise ValueError(f"expected {cls.what}, got {written!r}")
        whole, _, fraction = match[1].partition(".")
        scale = cls.units[match[2]]
        return cls(int(whole) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0))


class Duration(Quantity):
    """Nanoseconds."""

    units: Mapping[str, int] = {
        "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
    }  # fmt: skip
    what = 'a duration such as "250us", "10ms" or "1.5s"'


class BitRate(Quantity):
    """Bits per second."""

    units: Mapping[str, int] = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
    what = 'a rate such as "19200bit/s" or "2Mbit/s"'


class ByteSize(Quantity):
    """Bytes."""

    units: Mapping[str, int] = {"B": 1, "kB": 10**3, "MB": 10**6, "KiB": 2**10, "MiB": 2**20}
    what = 'a size such as "64B" or "1KiB"'


def show_duration(nanoseconds: int) -> str:
    """The shortest exact way to write it: 1500000 is `1.5ms`."""
    for unit in ("s", "ms", "us"):
        scale = Duration.units[unit]
        if abs(nanoseconds) >= scale:
            whole, rest = divmod(abs(nanoseconds), scale)
            digits = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0")
            sign = "-" if nanoseconds < 0 else ""
            return f"{sign}{whole}{'.' + digits if digits else ''}{unit}"
    return f"{nanoseconds}ns"


def _read(kind: type, written: object) -> object:
    if issubclass(kind, Written):
        return kind.parse(written)
    raise NotImplementedError(f"no way to read a {kind.__name__} from a configuration")


def convert(value: Any, to: type[T], path: str = "") -> T:
    """Turn plain TOML data into `to`; every mistake becomes a ConfigurationError that names the key."""
    try:
        return msgspec.convert(value, to, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise _explained(str(error), path, to) from None


def _explained(problem: str, path: str, to: type) -> ConfigurationError:
    said, _, where = problem.partition(" - at `")
    inner = where.rstrip("`").removeprefix("$").removeprefix(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.+)`", said)
    missing = re.fullmatch(r"Object missing required field `(.+)`", said)
    key = unknown or missing
    full = ".".join(part for part in (path, inner, key[1] if key else "") if part)
    if unknown:
        return ConfigurationError(full, f"unknown key ({_instead(unknown[1], _keys_at(to, inner))})")
    if missing:
        return ConfigurationError(full, "this key is required")
    return ConfigurationError(full or path, said[:1].lower() + said[1:])


def _instead(key: str, known: list[str]) -> str:
    close = get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"


def _keys_at(to: type, path: str) -> list[str]:
    """The keys of the table at a place such as `faults.cuts[...]` of a configuration of this type."""
    found: list[Any] = [msgspec.inspect.type_info(to)]
    for step in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        found = [inner for outer in _alternatives(found) for inner in _inside(outer, step)]
    return [field.encode_name for kind in _alternatives(found) for field in getattr(kind, "fields", ())]


def _alternatives(kinds: list[Any]) -> list[Any]:
    return [one for kind in kinds for one in (kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,))]


def _inside(kind: Any, step: str) -> list[Any]:
    if isinstance(kind, msgspec.inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, msgspec.inspect.DictType):
        return [kind.value_type]
    return [kind.item_type] if isinstance(kind, msgspec.inspect.CollectionType) and step.startswith("[") else []
