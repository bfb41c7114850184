"""The terms of a deal, as training under it needs them: who may use how many samples of whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedpact.deals import Deal, Outcome, is_ledger
from fedpact.deals.deal_file import deal_record, stated_numbers
from fedpact.deals.transcript import read_transcript
from fedpact.flower.statement import samples_of
from fedpact.negotiation.audit import audit
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import DECODERS, choose_format, read_text

__all__ = ["Terms"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What was agreed.

    Attributes
    ----------
    record
        The deal as plain data.
    agents, contributions, payments
        Everybody's names, contributions and payments; zero for those who are out.
    excluded
        Those who are out.
    samples_per_unit
        Samples in a unit of contribution.
    """

    record: Mapping[str, Any]
    agents: tuple[str, ...]
    contributions: tuple[float, ...]
    payments: tuple[float, ...]
    excluded: frozenset[str]
    samples_per_unit: float

    @classmethod
    def of(cls, deal: Deal | Outcome | Mapping[str, Any] | Path | str, *, samples_per_unit: float = 1.0) -> Terms:
        """The terms of a deal, an outcome, their record, or a file that holds one.

        Files are those of `fedpact solve --json` and `fedpact negotiate --transcript`, and ledgers.
        """
        if not 0.0 < samples_per_unit < float("inf"):
            raise InvalidInput(f"samples_per_unit must be positive, got {short_repr(samples_per_unit)}")
        record = _record(deal)
        agents = record.get("agents")
        listed = isinstance(agents, list | tuple) and all(isinstance(name, str) and name.strip() for name in agents)
        if not listed or not agents or len(set(agents)) != len(agents):
            raise InvalidInput(f"a deal must name its agents, all differently, got {short_repr(agents)}")
        contributions, payments = stated_numbers(record, len(agents))
        if min(contributions) < 0.0:
            raise InvalidInput(f"contributions must be at least zero, got {min(contributions):g}")
        return cls(
            record=record,
            agents=tuple(agents),
            contributions=tuple(contributions),
            payments=tuple(payments),
            excluded=frozenset(record.get("excluded") or ()),
            samples_per_unit=float(samples_per_unit),
        )

    @cached_property
    def samples(self) -> dict[str, int]:
        """Whole samples by name, for those at the table."""
        return {
            name: samples_of(contribution, self.samples_per_unit)
            for name, contribution in zip(self.agents, self.contributions, strict=True)
            if name not in self.excluded
        }


def _record(deal: Any) -> Mapping[str, Any]:
    if isinstance(deal, Deal):
        return deal_record(deal)
    if isinstance(deal, Outcome):
        return {
            "mechanism": deal.mechanism,
            "agents": list(deal.agents),
            "contributions": deal.contributions.tolist(),
            "payments": deal.payments.tolist(),
        }
    if isinstance(deal, Mapping):
        return deal
    if isinstance(deal, Path | str):
        with error_context(str(deal)):
            return _from_file(Path(deal))
    raise InvalidInput(f"deal must be a Deal, an Outcome, a record or a file, got {short_repr(deal)}")


def _from_file(path: Path) -> Mapping[str, Any]:
    if path.suffix.lower() == ".jsonl":
        found = audit(path).deal if is_ledger(path) else read_transcript(path).deal
        if found is None:
            raise InvalidInput("there is no deal in it yet")
        return found
    record = choose_format(path, {".json": DECODERS[".json"]})(read_text(path))
    if not isinstance(record, dict):
        raise InvalidInput(f"a deal must be one JSON object, got {short_repr(record)}")
    return record
