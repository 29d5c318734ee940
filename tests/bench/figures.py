"""The form of a bench result: one figure, measured against a reference of the same run where there is one."""

from __future__ import annotations

from typing import Any


def at_least(
    figure: str, value: float, unit: str, *, target: float, reference: float | None = None
) -> dict[str, Any]:
    """More is better; `target` is a ratio to the reference, or a plain value where there is none."""
    ratio = value if reference is None else value / reference
    bound = f">= {target:g} {unit}" if reference is None else f">= {target:g} of the reference"
    return _figure(figure, value, unit, reference, bound, met=ratio >= target)


def at_most(
    figure: str, value: float, unit: str, *, target: float, reference: float | None = None
) -> dict[str, Any]:
    """Less is better; `target` is in the unit of the value, the reference is only told beside it."""
    return _figure(figure, value, unit, reference, f"<= {target:g} {unit}", met=value <= target)


def _figure(
    figure: str, value: float, unit: str, reference: float | None, target: str, *, met: bool
) -> dict[str, Any]:
    return {
        "figure": figure,
        "value": _rounded(value),
        "unit": unit,
        "reference": None if reference is None else _rounded(reference),
        "ratio": None if not reference else round(value / reference, 3),
        "target": target,
        "met": met,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 10000 else float(round(value))


def percentile(values: list[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
