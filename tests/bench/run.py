"""`make bench`: runs the benches one after the other, prints a table and writes build/bench.jsonl.

A bench is a module bench_*.py of this folder with FIGURES, the names of what it measures, and
run() -> list of figures (see figures.py). A target that was missed is told, not hidden; the exit code is 1
only where a bench failed, for a figure also depends on the machine.

    python -m tests.bench.run [--list] [--only FIGURE_OR_BENCH]…
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "build" / "bench.jsonl"
KEYS = ("figure", "value", "unit", "reference", "ratio", "target", "met")


def benches() -> dict[str, ModuleType]:
    """The bench modules by their names without the prefix; the others are programs of their own."""
    names = sorted(path.stem for path in HERE.glob("bench_*.py"))
    modules = {name: importlib.import_module(f"tests.bench.{name}") for name in names}
    return {
        name.removeprefix("bench_"): module for name, module in modules.items() if hasattr(module, "FIGURES")
    }


def chosen(modules: dict[str, ModuleType], only: list[str]) -> dict[str, ModuleType]:
    """The benches that are named, or that measure a figure that is named."""
    if not only:
        return modules
    known = {figure for module in modules.values() for figure in module.FIGURES} | set(modules)
    if unknown := set(only) - known:
        sys.exit(f"no such figure or bench: {', '.join(sorted(unknown))}; --list shows them")
    return {
        name: module
        for name, module in modules.items()
        if name in only or any(figure in only for figure in module.FIGURES)
    }


def table(results: list[dict[str, Any]]) -> str:
    """The figures in columns."""
    head = ("figure", "value", "unit", "reference", "ratio", "target", "met")
    rows = [head, *(tuple(_cell(result.get(key)) for key in KEYS) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "MISSED"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.run")
    parser.add_argument("--list", action="store_true", help="name the benches and their figures, and end")
    parser.add_argument("--only", action="append", default=[], metavar="FIGURE_OR_BENCH")
    given = parser.parse_args()
    modules = benches()
    if given.list:
        for name, module in modules.items():
            print(f"{name}: {', '.join(module.FIGURES)}")
        return 0
    results, failed = [], []
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w") as sink:
        for name, module in chosen(modules, given.only).items():
            begun = time.monotonic()
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                found = module.run()
            except Exception:
                traceback.print_exc()
                failed.append(name)
                continue
            named = [result for result in found if result["figure"] in given.only]
            for result in named or found:
                results.append(result)
                print(json.dumps({key: result.get(key) for key in KEYS}), file=sink, flush=True)
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(table(results))
    missed = [result["figure"] for result in results if not result["met"]]
    if missed:
        print(f"missed: {', '.join(missed)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
