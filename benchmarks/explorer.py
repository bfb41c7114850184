"""The explorer: a step of a slider, maps of many members, and the first page, in units of importing or solving."""

import numpy as np

import fedpact as fp
from benchmarks.figures import Figure
from benchmarks.start_up import in_process
from benchmarks.timing import best_of, once
from fedpact.explorer.draft import draft_of
from fedpact.explorer.questions import Questions

STEPS = 20
MAP_POINTS = 15
TENTH = 0.1  # seconds of processor time: what a hand on a slider does not notice
# What the server does before a browser can paint: everything up to the answer to the first request.
FIRST_PAGE = """
import asyncio
from fedpact.explorer.app import make_app
from fedpact.scenario.examples import hospitals
app = make_app(hospitals(), source="hospitals")
sent = []
async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
async def send(message): sent.append(message)
scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers":
         [(b"host", b"127.0.0.1")], "http_version": "1.1", "scheme": "http", "root_path": ""}
asyncio.run(app(scope, receive, send))
assert sent[0]["status"] == 200, sent
"""


def run():
    for members, most in ((10, 1.0), (16, 1.5), (30, 1.5)):
        yield slider_step(members, most)
    for members in (9, 12, 16):
        yield from maps(members)
    below = "import numpy, scipy.sparse, starlette.applications, jinja2"
    yield Figure(
        what="explorer: from the start of the process to the first page",
        against=below,
        ratio=best_of(in_process(FIRST_PAGE))[0] / best_of(in_process(below))[0],
        unit="times as long",
        at_most=3.0,
    )


def slider_step(members, at_most):
    """The median of steps over the whole range: each is a federation not seen before."""
    question = {
        "draft": draft_of(fp.Scenario(federation=random_federation(members))).record(),
        "parameter": {"kind": "weights", "receiver": 0, "giver": 1},
        "low": "0.1",
        "high": "1.5",
    }
    questions = Questions()
    questions.deal(question)
    questions.whatif(question | {"step": 60})  # loads what it needs
    seconds = [once(lambda at=step: questions.whatif(question | {"step": at}))[0] for step in range(STEPS)]
    return Figure(
        what=f"explorer: a step of a slider, {members} members",
        against="a tenth of a second of processor time",
        ratio=float(np.median(seconds)) / TENTH,
        unit="times as long",
        at_most=at_most,
    )


def maps(members):
    """A map solves its points together, in compiled code."""
    federation = random_federation(members)
    few, all_points = ([f"caps=2:20:{count}", f"costs=0.02:0.2:{count}"] for count in (2, MAP_POINTS))
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        reference, _ = best_of(lambda rule=mechanism: rule.solve(federation).payments)
        fp.sweep(federation, few, metrics=["welfare"], mechanisms=[mechanism])  # loads what it needs
        ours, _ = once(lambda rule=mechanism: fp.sweep(federation, all_points, metrics=["welfare"], mechanisms=[rule]))
        yield Figure(
            what=f"explorer: a map of {MAP_POINTS} x {MAP_POINTS}, {members} members, {mechanism.title}",
            against="solving its points one by one",
            ratio=reference * MAP_POINTS**2 / ours,
            at_least=1.0,
        )


def random_federation(members):
    rng = np.random.default_rng(members)
    weights = rng.uniform(0.0, 1.0, (members, members)) + np.eye(members)
    return fp.Federation(weights, costs=rng.uniform(0.05, 0.2, members), caps=10.0, payoff=fp.PowerLaw(1.0))
