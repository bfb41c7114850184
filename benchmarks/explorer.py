"""The explorer: a step of a slider, maps of many members, and the first page, in units of importing or solving.

When a browser first paints the page is measured in Chromium, if it is there, beside a page with one word on it.
"""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np

import fedpact as fp
from benchmarks.figures import Figure
from benchmarks.start_up import in_process
from benchmarks.timing import best_of, once
from fedpact.explorer.draft import draft_of
from fedpact.explorer.questions import Questions

STEPS = 20
PAGES = 9  # loaded each, in turn
ONE_WORD = "data:text/html,<!doctype html><title>empty</title><p>word"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAP_POINTS = 15
TENTH = 0.1  # seconds of processor time: what a hand on a slider does not notice
# What the server does before a browser can paint: everything up to the answer to the first request.
FIRST_PAGE = """
import asyncio
from fedpact.explorer.app import make_app
from fedpact.scenario import example
app = make_app(example("hospitals"), source="hospitals", token="mine")
sent = []
async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
async def send(message): sent.append(message)
scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"token=mine", "headers":
         [(b"host", b"127.0.0.1")], "http_version": "1.1", "scheme": "http", "root_path": ""}
asyncio.run(app(scope, receive, send))
assert sent[0]["status"] == 200, sent
"""


def run():
    for members, most in ((10, 1.0), (16, 1.5), (30, 1.5)):
        yield slider_step(members, at_most=most)
    for members in (9, 12):
        yield from maps(members)
    below = "import numpy, scipy.sparse, starlette.applications, jinja2"
    yield Figure(
        what="explorer: from the start of the process to the first page",
        against=below,
        ratio=best_of(in_process(FIRST_PAGE))[0] / best_of(in_process(below))[0],
        unit="times as long",
        at_most=3.0,
    )
    yield from first_paint()


def first_paint():
    """From asking for the page to what is first seen of it, by the browser's own clock; each time with nothing kept."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        print('first paint is not measured: it takes Chromium and Playwright, pip install "fedpact[browser]"')
        return
    with served() as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        loads = [[paint_of(browser, page) for page in (address, ONE_WORD)] for _ in range(1 + PAGES)]
        browser.close()
    ours, reference = np.median(loads[1:], axis=0)
    yield Figure(
        what="explorer: time to first paint, five members",
        against="a page with one word",
        ratio=ours / reference,
        unit="times as long",
    )


@contextmanager
def served():
    """The address of an explorer in a process of its own, which has answered once."""
    command = [sys.executable, "-m", "fedpact", "explore", "hospitals", "--no-browser", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, "the explorer did not start"
            said += line
        yield json.loads(said)["url"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)


def paint_of(browser, address):
    """Milliseconds to the first paint of a page, in a context that knows nothing yet."""
    page = browser.new_context().new_page()
    page.goto(address)
    page.wait_for_function("performance.getEntriesByType('paint').length > 0")
    milliseconds = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
    page.context.close()
    return milliseconds


def slider_step(members, *, at_most):
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
    """A map solves its points together."""
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
