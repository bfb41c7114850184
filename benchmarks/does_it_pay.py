"""Does it pay? Pilots on natural members: alone, one model, own choice, promised, measured; as it comes out.

`python -m benchmarks.does_it_pay [HEART_FOLDER]` runs two models and three scores over ten seeds on penguins and on the
four hospitals of UCI's heart disease data (from a folder, or fetched), and writes the tables of `docs/does-it-pay.md`.
Interrupted, it goes on where it was.
"""

import json
import os
import sys
from pathlib import Path

import joblib
import numpy as np

import fedpact as fp

FOLDER = Path(__file__).parent / "results"
MODELS = {
    "logistic regression": "sklearn.linear_model:LogisticRegression(C=0.3, max_iter=1000)",
    "naive Bayes": "sklearn.naive_bayes:GaussianNB()",
}
SCORES = ("accuracy", "balanced_accuracy", "roc_auc")
SEEDS = range(10)
TERMS = {
    "heart": {"cost": "5 EUR/record", "value": "300 EUR/point"},
    "penguins": {"cost": "1 EUR/record", "value": "100 EUR/point"},
}
KEPT = "does-it-pay.jsonl"
JOBS = int(os.environ.get("FEDPACT_THREADS", "-1"))


def study(data, model, score, seed, source):
    found = fp.pilot(
        data, model=MODELS[model], score=score, seed=seed, splits=2, models=8, source=source, **TERMS[data]
    )
    confirmed = found.confirmation
    row = {"data": data, "model": model, "score": score, "seed": seed, "verdict": found.verdict}
    row["scores"] = {kind: found.measurements[kind].means.tolist() for kind in ("alone", "one model", "own choice")}
    row["names"] = list(found.data.names)
    if confirmed is not None:
        row["promised"], row["measured"] = float(confirmed.promised.sum()), confirmed.total
        row["interval"] = list(confirmed.total_interval)
    return row


def main(source):
    kept = FOLDER / KEPT
    known = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
    done = {(row["data"], row["model"], row["score"], row["seed"]) for row in known}
    sources = {"penguins": None, "heart": source}
    wanted = [
        (data, model, score, seed, sources[data])
        for seed in SEEDS
        for data in sources
        for model in MODELS
        for score in SCORES
        if (data, model, score, seed) not in done
    ]
    made = joblib.Parallel(n_jobs=JOBS, return_as="generator_unordered")(
        joblib.delayed(study)(*each) for each in wanted
    )
    with kept.open("a", encoding="utf-8") as file:
        for row in made:
            known.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    (FOLDER / "does-it-pay.md").write_text(tables(known), encoding="utf-8")


def tables(rows):
    parts = []
    for data, terms in TERMS.items():
        own = [row for row in rows if row["data"] == data]
        if not own:
            continue
        names = own[0]["names"]
        parts += [f"## {data.capitalize()} ({terms['cost']}, {terms['value']})", ""]
        parts += [
            f"| model, score | {' | '.join(names)} | verdicts | promised | measured | promised inside |",
            "|---" * (len(names) + 5) + "|",
        ]
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
    counts = {
        verdict: sum(row["verdict"] == verdict for row in rows)
        for verdict in ("federate", "do not federate", "not enough evidence")
    }
    deals = [row for row in rows if "promised" in row]
    verdicts = f"{counts['federate']} / {counts['do not federate']} / {counts['not enough evidence']}"
    if not deals:
        return f"| {label} | {' | '.join(cells)} | {verdicts} | no deal | | |"
    inside = sum(row["interval"][0] <= row["promised"] <= row["interval"][1] for row in deals)
    promised, measured = (np.mean([row[key] for row in deals]) for key in ("promised", "measured"))
    amounts = f"{promised:+,.0f} | {measured:+,.0f} | {inside} of {len(deals)}"
    return f"| {label} | {' | '.join(cells)} | {verdicts} | {amounts} |"


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
