"""Does it pay? Pilots on natural members: alone, one model, own choice, promised, measured, realised; as it comes out.

`python -m benchmarks.does_it_pay [HEART_FOLDER]` runs two models and three scores over ten seeds on penguins and on the
four hospitals of UCI's heart disease data (from a folder, or fetched), and two pilots of hospitals over twenty seeds.
The deals of the latter are trained once more, on twenty splits that their pilots have not seen: that is what they
realise. The tables of `docs/does-it-pay.md` are written from all that was kept; interrupted, it goes on where it was.
"""

import json
import os
import sys
from pathlib import Path

import joblib
import numpy as np

import fedpact as fp
from fedpact.fitting.pilots.arrangements import ALONE, Laboratory, Trainer

FOLDER = Path(__file__).parent / "results"
MODELS = {
    "logistic regression": "sklearn.linear_model:LogisticRegression(C=0.3, max_iter=1000)",
    "naive Bayes": "sklearn.naive_bayes:GaussianNB()",
}
SCORES = ("accuracy", "balanced_accuracy", "roc_auc")
COSTS = {"heart": "0.5 EUR/record", "penguins": "1 EUR/record"}
VALUES = {"heart": "300 EUR/point", "penguins": "100 EUR/point"}
GRID = [
    (data, COSTS[data], model, score, seed, {"splits": 2, "models": 8})
    for seed in range(10)
    for data in COSTS
    for model in MODELS
    for score in SCORES
]
TWENTY = [
    ("heart", cost, "logistic regression", score, seed, {"splits": 3, "models": 14})
    for seed in range(20)
    for score, cost in (("roc_auc", "0.5 EUR/record"), ("accuracy", "5 EUR/record"))
]
KEY = ("data", "cost", "model", "score", "seed", "splits")
LATER = range(5_000, 5_020)  # splits that no pilot sees
QUANTILE = 1.6449
KEPT = "does-it-pay.jsonl"
JOBS = int(os.environ.get("FEDPACT_THREADS", "-1"))


def study(case, source):
    data, cost, model, score, seed, size = case
    found = fp.pilot(
        data, model=MODELS[model], score=score, seed=seed, cost=cost, value=VALUES[data], source=source, **size
    )
    row = {"data": data, "cost": cost, "model": model, "score": score, "seed": seed, "splits": size["splits"]}
    row |= {"verdict": found.verdict, "names": list(found.data.names)}
    row["scores"] = {kind: found.measurements[kind].means.tolist() for kind in ("alone", "one model", "own choice")}
    deal = found.confirmation
    if deal is not None:
        row |= {"promised": float(deal.promised.sum()), "measured": deal.total, "interval": list(deal.total_interval)}
        if case in TWENTY:
            row["realised"], row["realised_interval"] = realised(found, deal)
    return row


def realised(found, deal):
    """What a deal brings all members on later splits, and its interval."""
    laboratory = Laboratory(Trainer(found.data, found.model, found.score, 0))
    shares = tuple(map(float, deal.shared / found.data.caps))
    nothing = (0.0,) * len(shares)
    trained, alone = laboratory.measure([(found.arrangement, shares), (ALONE, nothing)], LATER, "")
    gains, variances = trained.gains_over(alone)
    total = float(found.terms.worth @ gains - deal.costs.sum())
    span = QUANTILE * float(np.sqrt((found.terms.worth**2 * variances).sum()))
    return total, [total - span, total + span]


def main(source):
    kept = FOLDER / KEPT
    known = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
    done = {tuple(row[key] for key in KEY) for row in known}
    wanted = [each for each in (*TWENTY, *GRID) if (*each[:5], each[5]["splits"]) not in done]
    made = joblib.Parallel(n_jobs=JOBS, return_as="generator_unordered")(
        joblib.delayed(study)(each, source if each[0] == "heart" else None) for each in wanted
    )
    with kept.open("a", encoding="utf-8") as file:
        for row in made:
            known.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    (FOLDER / "does-it-pay.md").write_text(tables(known), encoding="utf-8")


def tables(rows):
    parts = []
    for title, splits in (("ten seeds", 2), ("twenty seeds, more splits and profiles", 3)):
        for data, cost in dict.fromkeys((row["data"], row["cost"]) for row in rows if row["splits"] == splits):
            own = [row for row in rows if (row["data"], row["cost"], row["splits"]) == (data, cost, splits)]
            names = own[0]["names"]
            parts += [f"## {data.capitalize()}, {cost}, {VALUES[data]}: {title}", ""]
            heads = [*names, "verdicts", "promised", "measured", "realised", "lost", "promised inside"]
            parts += [f"| model, score | {' | '.join(heads)} |"]
            parts += ["|---" * (len(heads) + 1) + "|"]
            for model in MODELS:
                for score in SCORES:
                    some = [row for row in own if (row["model"], row["score"]) == (model, score)]
                    if some:
                        parts.append(line(f"{model}, {score}", some))
            parts.append("")
    return "\n".join(parts)


def line(label, rows):
    means = {kind: np.mean([row["scores"][kind] for row in rows], axis=0) for kind in rows[0]["scores"]}
    cells = [
        " → ".join(f"{means[kind][member]:.3f}".removeprefix("0") for kind in means)
        for member in range(len(rows[0]["names"]))
    ]
    verdicts = " / ".join(
        str(sum(row["verdict"] == verdict for row in rows))
        for verdict in ("federate", "do not federate", "not enough evidence")
    )
    deals = [row for row in rows if "promised" in row]
    if not deals:
        return f"| {label} | {' | '.join(cells)} | {verdicts} | no deal | | | | |"
    inside = sum(row["interval"][0] <= row["promised"] <= row["interval"][1] for row in deals)
    amounts = [f"{np.mean([row[key] for row in deals]):+,.0f}" for key in ("promised", "measured")]
    advised = [row for row in deals if row["verdict"] == "federate" and "realised" in row]
    if advised:
        lost = sum(row["realised_interval"][1] < 0.0 for row in advised)
        amounts += [f"{np.mean([row['realised'] for row in advised]):+,.0f}", f"{lost} of {len(advised)}"]
    else:
        amounts += ["", ""]
    return f"| {label} | {' | '.join(cells)} | {verdicts} | {' | '.join(amounts)} | {inside} of {len(deals)} |"


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
