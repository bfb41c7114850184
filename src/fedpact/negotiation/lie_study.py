"""The lies that gain most under a mechanism, of one member and of two together, and what refusal changes: a table.

What is searched, and how, `fedpact.negotiation.lie_search` says. Here it is asked four times: one member lies or two
collude, and members that have less than by themselves stay or leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedpact.federation import Federation
from fedpact.mechanisms import Mechanism, mechanism_named
from fedpact.negotiation.lie_search import Lie, best_lies
from fedpact.utils.words import join_names

HEADS = ("who lies", "others may leave", "gains", "says its costs are", "its value", "others' data", "honest one loses")


@dataclass(frozen=True, kw_only=True)
class LieStudy:
    """The lies that gain most, in units of payoff.

    Attributes
    ----------
    mechanism, title
        Its name, and what people call it.
    lies
        Of one member and of two, each without and with refusal; of two only if there are as many.
    """

    mechanism: str
    title: str
    lies: tuple[Lie, ...]

    def columns(self) -> dict[str, list[Any]]:
        """One row for each lie; the factors of two stand side by side."""
        columns: dict[str, list[Any]] = {
            "mechanism": [self.mechanism for _ in self.lies],
            "agents": [join_names(lie.agents) for lie in self.lies],
            "refusal": [lie.refusal for lie in self.lies],
            "gain": [lie.gain for lie in self.lies],
            "lowest": [lie.lowest for lie in self.lies],
            "tried": [lie.tried for lie in self.lies],
        }
        for place, kind in enumerate(("costs", "values", "weights")):
            columns[kind] = [" and ".join(f"{factors[place]:g}" for factors in lie.factors) for lie in self.lies]
        return columns

    @property
    def text(self) -> str:
        """The study in words, as Markdown."""
        rows = [HEADS, tuple("---" for _ in HEADS), *(_row(lie) for lie in self.lies)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return (
            f"# What the worst lies gain under {self.title}\n\n"
            f"A liar says a multiple of its costs, of what accuracy is worth to it, and of how useful the others' data "
            f"is; below zero it claims harm. Amounts are in units of payoff; two that collude count together. The last "
            f"column is by how much an honest member then has less than by itself.\n\n{table}\n\n"
            f"These are the lies that a search found. That it finds none proves nothing.\n"
        )


def lie_study(
    federation: Federation,
    mechanism: str | Mechanism = "externality",
    *,
    progress: Callable[[int, int], None] | None = None,
) -> LieStudy:
    """Search for the lies that gain most; `progress` is called with how many members and pairs were tried, of all."""
    rules = mechanism_named(mechanism) if isinstance(mechanism, str) else mechanism
    size = federation.n_agents
    counts = {together: size if together == 1 else size * (size - 1) // 2 for together in (1, 2) if together <= size}
    lies, done = [], 0
    for together, count in counts.items():
        for refusal in (False, True):

            def tell(place: int, _: int, before: int = done) -> None:
                if progress is not None:
                    progress(before + place, 2 * sum(counts.values()))

            lies.append(best_lies(federation, rules, together=together, refusal=refusal, progress=tell))
            done += count
    return LieStudy(mechanism=rules.name, title=rules.title, lies=tuple(lies))


def _row(lie: Lie) -> tuple[str, ...]:
    who = join_names(lie.agents).replace("|", "\\|").replace("\n", " ")
    leaves = "yes" if lie.refusal else "no"
    if lie.gain <= 0.0:
        return ("no one" if len(lie.agents) == 1 else "no two", leaves, "none found", "", "", "", "")
    kinds = (" and ".join(f"{factors[place]:.3g}" for factors in lie.factors) for place in range(3))
    return (who, leaves, f"{lie.gain:.4g}", *(f"x {kind}" for kind in kinds), f"{lie.lowest:.4g}")
