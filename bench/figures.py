"""Figures, the bars they must meet, and how they are printed."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, TextIO


@dataclass(frozen=True)
class Bar:
    """What a figure must be. Of `ratio` (ours to the floor), or of the value itself."""

    limit: float
    at_least: bool = False
    of_ratio: bool = True

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def text(self, unit: str) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.limit:g}" + (" x floor" if self.of_ratio else f" {unit}")


def at_least(ratio: float) -> Bar:
    return Bar(ratio, at_least=True)


def at_most(ratio: float) -> Bar:
    return Bar(ratio)


def value_at_most(value: float) -> Bar:
    return Bar(value, of_ratio=False)


@dataclass
class Figure:
    """One figure: every round of ours and, if there is one, of its floor."""

    name: str
    unit: str
    ours: Sequence[float]
    floor: Sequence[float] = ()
    floor_name: str = ""
    bar: Optional[Bar] = None
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.ours)

    @property
    def floor_value(self) -> Optional[float]:
        return statistics.median(self.floor) if self.floor else None

    @property
    def ratio(self) -> Optional[float]:
        floor = self.floor_value
        return self.value / floor if floor else None

    @property
    def met(self) -> Optional[bool]:
        if self.bar is None:
            return None
        judged = self.ratio if self.bar.of_ratio else self.value
        return judged is not None and self.bar.met(judged)

    def as_json(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.value,
            "floor": self.floor_value,
            "floor_name": self.floor_name or None,
            "ratio": self.ratio,
            "bar": self.bar.text(self.unit) if self.bar else None,
            "met": self.met,
            "note": self.note or None,
            "rounds": {"ours": list(self.ours), "floor": list(self.floor)},
        }


def number(value: Optional[float]) -> str:
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


HEADINGS = ("figure", "ours", "floor", "ratio", "bar", "")


def row(figure: Figure) -> List[str]:
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    floor = number(figure.floor_value)
    if floor and figure.floor_name:
        floor += f" ({figure.floor_name})"
    return [
        figure.name,
        f"{number(figure.value)} {figure.unit}",
        floor,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.bar is None else figure.bar.text(figure.unit),
        verdict,
    ]


def print_table(title: str, figures: Sequence[Figure], out: TextIO) -> None:
    rows = [row(figure) for figure in figures]
    widths = [max(len(line[i]) for line in [*rows, list(HEADINGS)]) for i in range(len(HEADINGS))]
    print(f"\n{title}", file=out)
    for line in [list(HEADINGS), *rows]:
        cells = [cell.ljust(width) if i in (0, 4) else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))]
        print("  " + "  ".join(cells).rstrip(), file=out)
    for figure in figures:
        if figure.note:
            print(f"  {figure.name}: {figure.note}", file=out)
    out.flush()


@dataclass
class Report:
    rounds: int
    machine: Dict[str, Any]
    sections: Dict[str, List[Figure]] = field(default_factory=dict)

    def all(self) -> List[Figure]:
        return [figure for figures in self.sections.values() for figure in figures]

    def write_json(self, path: str) -> None:
        document = {
            "machine": self.machine,
            "rounds": self.rounds,
            "sections": {name: [f.as_json() for f in figures] for name, figures in self.sections.items()},
        }
        with open(path, "w") as file:
            json.dump(document, file, indent=2)
            file.write("\n")

    def print_summary(self, out: TextIO) -> None:
        judged = [figure for figure in self.all() if figure.bar is not None]
        missed = [figure.name for figure in judged if not figure.met]
        print(f"\n{len(judged) - len(missed)} of {len(judged)} bars met", file=out)
        if missed:
            print("missed: " + "; ".join(missed), file=out)
