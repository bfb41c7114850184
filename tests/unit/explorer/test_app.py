"""The web application: it answers its own page, and nobody else."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest

from fedpact.explorer.app import MAX_BYTES, MAX_MESSAGE, TOKEN_HEADER, make_app
from fedpact.explorer.questions import Cancelled, Questions, Turns
from fedpact.scenario import example

TOKEN = "only-mine"
MINE = {TOKEN_HEADER: TOKEN}


@pytest.fixture
def call(answers):
    """Call the application as a browser would."""
    app = make_app(example("hospitals"), source="hospitals", token=TOKEN, questions=answers)

    def called(method, path, *, base="http://127.0.0.1:8517", headers=None, **given):
        async def run():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base) as client:
                return await client.request(method, path, headers=MINE | (headers or {}), **given)

        return asyncio.run(run())

    return called


def test_the_page_holds_the_federation(call):
    response = call("GET", f"/?token={TOKEN}")
    assert response.status_code == 200
    assert 'value="University"' in response.text
    start = json.loads(response.text.partition('id="x-start">')[2].partition("</script>")[0])
    assert start["draft"]["texts"]["caps[0]"] == "120"


def test_nothing_on_the_page_comes_from_elsewhere(call):
    response = call("GET", f"/?token={TOKEN}")
    assert "http://" not in response.text and "https://" not in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "connect-src 'self'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("address", ["/", "/?token=", "/?token=another", "/?token=only-min%C3%A9"])
def test_the_page_is_for_whoever_has_its_address(call, address):
    response = call("GET", address)
    assert response.status_code == 403 and "University" not in response.text
    assert "open the address that `fedpact explore` has printed" in response.text


@pytest.mark.parametrize("path", ["/ask/deal", "/ask/map"])
@pytest.mark.parametrize("token", ["", "another"])
def test_questions_without_the_token_are_not_answered(call, ask, path, token):
    assert call("POST", path, json=ask(), headers={TOKEN_HEADER: token}).status_code == 403


@pytest.mark.parametrize("name", ["main.js", "ask.js", "explorer.css", "report.css", "icon.svg"])
def test_files_of_the_page_are_served(call, name):
    response = call("GET", f"/static/{name}")
    assert response.status_code == 200 and response.content
    assert "https://" not in response.text


@pytest.mark.parametrize("name", ["nothing.js", "..%2fapp.py", "../app.py", "draft.py", "%2e%2e%2fdraft.py", "report"])
def test_other_files_are_not(call, name):
    assert call("GET", f"/static/{name}").status_code == 404


def test_refusals_are_messages(call):
    response = call("POST", "/ask/example", json={"name": "nobody"})
    assert response.status_code == 422
    assert "built-in" in response.json()["error"]


def test_long_errors_of_a_file_are_cut(call):
    text = json.dumps({"weights": "x" * 5000})
    error = call("POST", "/ask/upload", json={"name": "mine.json", "text": text}).json()["error"]
    assert error.startswith("mine.json: the weights are in another file") and len(error) <= MAX_MESSAGE


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, rb'{"name": "\ud800"}'])
def test_what_is_no_question_is_refused(call, body):
    assert call("POST", "/ask/deal", content=body).status_code == 400


def test_huge_questions_are_refused(call):
    assert call("POST", "/ask/deal", content=b"x" * (MAX_BYTES + 1)).status_code == 413


def test_other_sites_may_not_ask(call, ask):
    assert call("POST", "/ask/deal", json=ask(), headers={"origin": "https://example.org"}).status_code == 403
    assert call("POST", "/ask/map", json=ask(), headers={"origin": "null"}).status_code == 403
    for origin in ("http://127.0.0.1:8518", "http://127.0.0.1", "http://localhost:8517", "https://127.0.0.1:8517"):
        assert call("POST", "/ask/range", json=ask(), headers={"origin": origin}).status_code == 403
    for own in ("http://127.0.0.1:8517", "http://localhost:8517", "http://localhost:9000"):
        assert call("POST", "/ask/range", base=own, json=ask(), headers={"origin": own}).status_code == 422


def test_other_names_for_this_machine_are_refused(call):
    assert call("GET", "/", base="http://attacker.example").status_code == 400
    assert call("GET", f"/?token={TOKEN}", base="http://localhost:1").status_code == 200


def test_questions_are_posted(call):
    assert call("GET", "/ask/deal").status_code == 405
    assert call("GET", "/nowhere").status_code == 404


def test_files_come_with_their_kind(call, ask):
    response = call("POST", "/ask/file", json=ask(file="report.html"))
    assert response.headers["content-type"].startswith("text/html")
    assert response.content.startswith(b"<!DOCTYPE html>")


def test_maps_come_line_by_line(call, ask):
    cost = {"kind": "costs", "agent": 0}
    cap = {"kind": "caps", "agent": 1}
    question = ask(
        up={"parameter": cost, "low": "0.001", "high": "0.01"},
        right={"parameter": cap, "low": "1", "high": "50"},
        metric="welfare",
        mechanism="externality",
        count=2,
    )
    lines = [json.loads(line) for line in call("POST", "/ask/map", json=question).text.splitlines()]
    assert lines[0] == {"done": 0, "total": 4} and lines[-2] == {"done": 4, "total": 4}
    assert "map" in lines[-1]
    wrong = call("POST", "/ask/map", json=question | {"count": 1}).text
    assert "points each way" in json.loads(wrong)["error"]


def test_closing_the_connection_stops_a_map():
    stopped = threading.Event()

    class Endless(Questions):
        def map(self, question, progress):
            try:
                while True:
                    progress(1, 2)
                    threading.Event().wait(0.01)
            except Cancelled:
                stopped.set()
                raise

    app = make_app(example("hospitals"), source="hospitals", token=TOKEN, questions=Endless())

    async def run():
        sent = [{"type": "http.request", "body": b"{}", "more_body": False}]
        heard = asyncio.Event()

        async def receive():
            if sent:
                return sent.pop()
            await heard.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.body" and message.get("body"):
                heard.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/ask/map",
            "raw_path": b"/ask/map",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (TOKEN_HEADER.lower().encode(), TOKEN.encode())],
            "client": None,
            "server": ("127.0.0.1", 1),
            "scheme": "http",
        }
        await asyncio.wait_for(app(scope, receive, send), timeout=20)

    asyncio.run(run())
    assert stopped.wait(timeout=20)


def test_abandoned_questions_do_not_wait_for_their_turn():
    """Forty that nobody wants any more do not keep the one that is wanted from being answered."""
    answered, turns = [], Turns()

    class Queue(Questions):
        def deal(self, question):
            with turns:
                answered.append(question["number"])
                return {}

    app = make_app(example("hospitals"), source="hospitals", token=TOKEN, questions=Queue())

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8517", headers=MINE) as client:
            turns.acquire()
            asked = [Closing(app, number) for number in range(45)]
            waiting = [asyncio.create_task(each.ask()) for each in asked]
            await asyncio.sleep(0.3)
            for each in asked:
                each.closed.set()
            statuses = await asyncio.wait_for(asyncio.gather(*waiting), timeout=20)
            turns.release()
            wanted = await asyncio.wait_for(client.post("/ask/deal", json={"number": 100}), timeout=20)
        return statuses, wanted.status_code

    statuses, wanted = asyncio.run(run())
    assert set(statuses) == {499} and wanted == 200
    assert answered == [100]


class Closing:
    """A question whose page closes the connection when it is told to."""

    def __init__(self, app, number):
        self.app, self.closed, self.status = app, asyncio.Event(), 0
        self._body = [{"type": "http.request", "body": json.dumps({"number": number}).encode(), "more_body": False}]

    async def ask(self):
        headers = [(b"host", b"127.0.0.1"), (TOKEN_HEADER.lower().encode(), TOKEN.encode())]
        scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/ask/deal", "raw_path": b"/ask/deal"}
        scope |= {"query_string": b"", "headers": headers, "scheme": "http", "server": ("127.0.0.1", 1), "client": None}
        await self.app(scope, self._receive, self._send)
        return self.status

    async def _receive(self):
        if self._body:
            return self._body.pop()
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.status = message.get("status", self.status)


class BrokenQuestions(Questions):
    """Fails in a way nobody foresaw."""

    def deal(self, question):
        raise ZeroDivisionError("by zero")

    def map(self, question, progress):
        raise ZeroDivisionError("by zero")

    def range(self, question):
        return {"low": float("nan")}

    def curves(self, question, progress):
        return {"curves": float("nan")}


@pytest.mark.parametrize("path", ["/ask/deal", "/ask/map", "/ask/range", "/ask/curves"])
def test_an_error_nobody_foresaw_asks_for_a_report(path, caplog):
    async def run():
        app = make_app(example("hospitals"), source="hospitals", token=TOKEN, questions=BrokenQuestions())
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8517") as client:
            return await client.post(path, json={}, headers=MINE)

    message = asyncio.run(run()).json()["error"]
    assert message.startswith(("ZeroDivisionError: by zero. ", "ValueError: Out of range float"))
    assert "This is an error in fedpact itself" in message
    assert caplog.records


@pytest.mark.parametrize("path", ["/ask/form", "/ask/deal", "/ask/range", "/ask/file"])
def test_half_characters_in_a_draft_are_refused(call, ask, path):
    question = json.dumps(ask({"names[0]": "City\ud800"}, file="scenario.toml")).encode()
    assert call("POST", path, content=question).status_code == 400
