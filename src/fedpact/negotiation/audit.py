"""What a ledger proves: its chain holds, and what it says agrees with itself and with the files beside it.

Claims are checked of the last deal a ledger holds and of what follows it. One that the ledger says nothing about, or
whose file is not there, is left open; that is not a failure, and is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals.deal_file import stated_numbers
from fedpact.deals.ledger import AGREED, SETTLED, SIGNED, TRAINED, Chain, Entry, read_ledger
from fedpact.deals.settlement import settle_payments
from fedpact.deals.transcript import read_transcript
from fedpact.negotiation.coordinator import recompute
from fedpact.utils.errors import FedpactError, InvalidInput, error_context
from fedpact.utils.files import read_bytes

ROUNDING = 1e-9  # of the largest contribution, and of the money that changes hands


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Whether a claim holds (None: it is left open), and why."""

    holds: bool | None
    told: str


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A ledger and what was found.

    Attributes
    ----------
    chain
        The ledger.
    deal
        The last deal it holds, or None.
    findings
        By claim.
    """

    chain: Chain
    deal: Mapping[str, Any] | None
    findings: Mapping[str, Finding]

    @property
    def failed(self) -> list[str]:
        """The claims that do not hold."""
        return [claim for claim, finding in self.findings.items() if finding.holds is False]

    def last(self, kind: str) -> Entry | None:
        """The entry of a kind that belongs to the last deal."""
        return _since_deal(self.chain).get(kind)


class _Wrong(Exception):
    """Why a claim does not hold."""


class _Open(Exception):
    """Why a claim cannot be checked."""


def audit(path: Path) -> Audit:
    """Check everything that a ledger says.

    Raises
    ------
    InvalidInput
        If the file is no ledger at all.
    """
    chain = read_ledger(path)
    findings = {"chain": _chain_finding(chain)}
    found = _since_deal(chain)
    if AGREED in found:
        for claim, check in CLAIMS.items():
            findings[claim] = _judged(check, found, path.parent)
    deal = found[AGREED].content.get("deal") if AGREED in found else None
    return Audit(chain=chain, deal=deal if isinstance(deal, dict) else None, findings=findings)


def _since_deal(chain: Chain) -> dict[str, Entry]:
    """The last deal and what follows it, by kind."""
    found: dict[str, Entry] = {}
    for entry in chain.entries:
        if entry.kind == AGREED:
            found = {}
        if entry.kind == AGREED or AGREED in found:
            found[entry.kind] = entry
    return found


def _chain_finding(chain: Chain) -> Finding:
    count = len(chain.entries)
    if chain.broken is not None:
        return Finding(holds=False, told=f"line {count + 1} {chain.broken}; {count} entries before it stand")
    dropped = ", and a last line that was cut off and does not count" if chain.cut_off else ""
    return Finding(holds=True, told=f"{count} entries, each chained to the last{dropped}; it ends in {chain.head[:16]}")


def _judged(check: Callable[[dict[str, Entry], Path], str], found: dict[str, Entry], folder: Path) -> Finding:
    try:
        return Finding(holds=True, told=check(found, folder))
    except _Open as reason:
        return Finding(holds=None, told=str(reason))
    except _Wrong as reason:
        return Finding(holds=False, told=str(reason))
    except FedpactError as error:
        return Finding(holds=False, told=str(error))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:  # sound chain, unsound content
        return Finding(holds=False, told=f"an entry does not hold what it must: {error!r:.120}")


def _numbers(found: dict[str, Entry]) -> tuple[list[str], np.ndarray, np.ndarray]:
    deal = found[AGREED].content["deal"]
    names = list(deal["agents"])
    contributions, payments = (np.array(part) for part in stated_numbers(deal, len(names)))
    return names, contributions, payments


def _money(found: dict[str, Entry]) -> float:
    """What changes hands, both ways counted: payments may cancel."""
    _, contributions, payments = _numbers(found)
    prices = np.array(found[AGREED].content["deal"].get("prices") or np.zeros(payments.size), dtype=np.float64)
    return float((np.abs(prices) * contributions).sum() + np.abs(payments).sum())


def _balanced(found: dict[str, Entry], folder: Path) -> str:
    _, _, payments = _numbers(found)
    total = float(payments.sum())
    if abs(total) > ROUNDING * _money(found):
        raise _Wrong(f"the payments agreed sum to {total:+.3g}")
    if SETTLED in found:
        cents = list(found[SETTLED].content["cents"].values())
        if not all(type(each) is int for each in cents) or sum(cents):
            raise _Wrong(f"the cents settled sum to {sum(cents)}")
    return f"payments sum to {total:+.1e}"


def _priced(found: dict[str, Entry], folder: Path) -> str:
    _, contributions, payments = _numbers(found)
    given = found[AGREED].content["deal"].get("prices")
    if given is None:
        raise _Open("the deal does not say its prices")
    prices = np.array(given, dtype=np.float64).reshape(payments.size, payments.size)
    due = -(prices * contributions).sum(axis=1)
    off = np.abs(due - payments)
    if (off > ROUNDING * _money(found)).any():
        place = int(off.argmax())
        name = found[AGREED].content["deal"]["agents"][place]
        raise _Wrong(f'agent "{name}" is paid {payments[place]:.6g}, by its prices {due[place]:.6g}')
    return "everybody is paid what its prices say"


def _recomputed(found: dict[str, Entry], folder: Path) -> str:
    names, contributions, payments = _numbers(found)
    stated = found[AGREED].content.get("transcript")
    if stated is None:
        raise _Open("the deal was not negotiated here")
    path = _beside(folder, stated["file"])
    if hashlib.sha256(read_bytes(path)).hexdigest() != stated["sha256"]:
        raise _Wrong(f"{path.name} was changed: it does not have the digest in the ledger")
    with error_context(path.name):
        deal = recompute(read_transcript(path))
    if list(deal.agents) != names:
        raise _Wrong(f"{path.name} is of other agents")
    moved = np.abs(deal.contributions - contributions) > ROUNDING * float(contributions.max(initial=0.0))
    paid = np.abs(deal.payments - payments) > ROUNDING * _money(found)
    if (moved | paid).any():
        raise _Wrong(f'{path.name} comes to another deal for "{names[int((moved | paid).argmax())]}"')
    return f"the deal is the one that {stated['exchanges']} exchanges in {path.name} come to"


def _signed(found: dict[str, Entry], folder: Path) -> str:
    if SIGNED not in found:
        raise _Open("nobody has signed the deal")
    deal, content = found[AGREED].content["deal"], found[SIGNED].content
    if content["deal"] != found[AGREED].hash:
        raise _Wrong("what was signed is another deal")
    members = [name for name in deal["agents"] if name not in deal["excluded"]]
    missing = [name for name in members if name not in content["signatures"]]
    if missing:
        raise _Wrong(f"not signed by {', '.join(missing)}")
    return f"signed by {', '.join(members)}"


def _kept(found: dict[str, Entry], folder: Path) -> str:
    if TRAINED not in found:
        raise _Open("nothing was trained yet")
    names, contributions, _ = _numbers(found)
    content = found[TRAINED].content
    unit = float(content["samples_per_unit"])
    for name, used in content["samples"].items():
        agreed = float(contributions[names.index(name)]) * unit
        if max(used, default=0) > agreed * (1.0 + ROUNDING) + ROUNDING:
            raise _Wrong(f'agent "{name}" agreed to {agreed:g} samples and {max(used)} were used')
    return "nobody's samples were used beyond what it agreed to"


def _model(found: dict[str, Entry], folder: Path) -> str:
    if TRAINED not in found or found[TRAINED].content.get("model") is None:
        raise _Open("no model is kept")
    stated = found[TRAINED].content["model"]
    path = _beside(folder, stated["file"])
    if hashlib.sha256(read_bytes(path)).hexdigest() != stated["sha256"]:
        raise _Wrong(f"{path.name} was changed: it does not have the digest in the ledger")
    return f"{path.name} is the model that was trained"


def _settled(found: dict[str, Entry], folder: Path) -> str:
    if SETTLED not in found:
        raise _Open("nothing is settled yet")
    names, _, payments = _numbers(found)
    content = found[SETTLED].content
    if content["deal"] != found[AGREED].hash:
        raise _Wrong("what was settled is another deal")
    due = settle_payments(
        payments,
        names=names,
        per_payoff=content["per_payoff"],
        currency=content["currency"],
        decimals=content["decimals"],
    )
    if dict(zip(due.names, due.cents, strict=True)) != content["cents"]:
        raise _Wrong("the cents settled are not those of the payments agreed")
    if due.record()["transfers"] != content["transfers"]:
        raise _Wrong("the transfers do not carry out what is settled")
    return f"{len(due.transfers)} transfers of {due.currency} carry out the payments agreed"


def _beside(folder: Path, name: Any) -> Path:
    """A file next to the ledger, if it is there."""
    if not isinstance(name, str) or Path(name).name != name:
        raise InvalidInput(f"a ledger names files beside it, got {name!r:.80}")
    if not (folder / name).exists():
        raise _Open(f"{name} is not beside the ledger")
    return folder / name


CLAIMS: dict[str, Callable[[dict[str, Entry], Path], str]] = {
    "budget-balance": _balanced,
    "prices": _priced,
    "recomputed": _recomputed,
    "signed": _signed,
    "contributions": _kept,
    "model": _model,
    "settlement": _settled,
}
