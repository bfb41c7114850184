"""The web application: the page, its files, and its questions. It answers this machine alone."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fedpact.explorer.files import Content
from fedpact.explorer.form import page_view
from fedpact.explorer.questions import Cancelled, Questions, abandoned, initial_draft
from fedpact.scenario import Scenario
from fedpact.utils.errors import FedpactError

logger = logging.getLogger(__name__)

HOSTS = ("127.0.0.1", "localhost")
TOKEN_HEADER = "X-Fedpact-Token"
STRANGER = "This is not the page of this explorer: open the address that `fedpact explore` has printed."
MAX_BYTES = 8_000_000  # bytes of a question
MAX_MESSAGE = 400  # characters of an error
STATIC = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The browser itself refuses whatever would come from, or go to, anywhere else.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_app(scenario: Scenario, *, source: str, token: str, questions: Questions | None = None) -> Starlette:
    """The application that begins with a scenario; `source` is what to call it.

    Other people on this machine can reach the port too. So the page and its answers are only for those who have the
    `token` of the address.
    """
    questions = questions or Questions()
    draft, notes = initial_draft(scenario)
    shell = page_view(draft, token=token, notes=notes, source=source)

    async def home(request: Request) -> Response:
        if not secrets.compare_digest(request.query_params.get("token", "").encode(), token.encode()):
            return Response(STRANGER, status_code=403, headers=HEADERS)
        return HTMLResponse(shell, headers=HEADERS)

    routes = [Route("/", home), Route("/static/{name}", _static)]
    for name in (
        "example",
        "upload",
        "form",
        "paste",
        "deal",
        "range",
        "whatif",
        "leaving",
        "file",
    ):
        routes.append(Route(f"/ask/{name}", _answer_route(getattr(questions, name), token), methods=["POST"]))
    for name in ("map", "curves"):
        routes.append(Route(f"/ask/{name}", _stream_route(getattr(questions, name), token), methods=["POST"]))
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))])


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    kind = STATIC.get(name.rpartition(".")[2])
    own = {each.name: each for each in (files("fedpact.explorer") / "static").iterdir()}
    file = ({"report.css": files("fedpact.report") / "style.css"} | own).get(name)
    if kind is None or file is None:
        return Response("there is no such file", status_code=404, headers=HEADERS)
    return Response(file.read_bytes(), media_type=kind, headers=HEADERS)


def _answer_route(answer: Callable[[Any], Any], token: str) -> Callable[[Request], Any]:
    """A route that answers a question; errors raised on purpose become messages.

    A question that waits for its turn is dropped when the page closes the connection.
    """

    async def route(request: Request) -> Response:
        question = await _question(request, token)
        if isinstance(question, Response):
            return question
        gone = threading.Event()
        abandoned.set(gone)
        watching = asyncio.create_task(_wait_until_closed(request, gone))
        try:
            found = await run_in_threadpool(answer, question)
            if isinstance(found, Content):
                return Response(found.data, media_type=found.kind, headers=HEADERS)
            return JSONResponse(found, headers=HEADERS)
        except Cancelled:
            return _refusal("nobody waits for the answer", 499)
        except FedpactError as error:
            return _refusal(str(error), 422)
        except Exception as error:
            return _refusal(_bug_message(error), 500)
        finally:
            watching.cancel()

    return route


async def _wait_until_closed(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _stream_route(answer: Callable[[Any, Callable[[int, int], None]], Any], token: str) -> Callable[[Request], Any]:
    """A route for what takes long: lines of progress, then the answer; closing the connection stops the work."""

    async def route(request: Request) -> Response:
        question = await _question(request, token)
        if isinstance(question, Response):
            return question
        return StreamingResponse(_lines(answer, question), media_type="application/x-ndjson", headers=HEADERS)

    return route


async def _lines(answer: Callable[[Any, Callable[[int, int], None]], Any], question: Any) -> AsyncIterator[str]:
    loop, stop = asyncio.get_running_loop(), threading.Event()
    told: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(line: dict[str, Any] | None) -> None:
        text = None if line is None else json.dumps(line, allow_nan=False) + "\n"
        if not stop.is_set():
            with suppress(RuntimeError):  # the explorer has ended in this very moment
                loop.call_soon_threadsafe(told.put_nowait, text)

    def progress(done: int, total: int) -> None:
        if stop.is_set():
            raise Cancelled
        tell({"done": done, "total": total})

    def work() -> None:
        abandoned.set(stop)
        try:
            tell(answer(question, progress))
        except Cancelled:
            return
        except FedpactError as error:
            tell({"error": short_message(str(error))})
        except Exception as error:
            tell({"error": _bug_message(error)})
        finally:
            tell(None)

    threading.Thread(target=work, daemon=True).start()
    try:
        while (line := await told.get()) is not None:
            yield line
    finally:
        stop.set()


async def _question(request: Request, token: str) -> Any:
    """The plain data of a question, or the answer that refuses it; other people and other sites' pages may not ask."""
    if not secrets.compare_digest(request.headers.get(TOKEN_HEADER, "").encode(), token.encode()):
        return _refusal(STRANGER, 403)
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{request.headers.get('host')}":  # with the port
        return _refusal("questions come from the explorer's own page", 403)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            return _refusal(f"a question, with the file in it, has up to {MAX_BYTES:,} bytes", 413)
    try:
        question = json.loads(body)
        json.dumps(question, ensure_ascii=False).encode()  # no half characters, which no answer could repeat
    except (ValueError, RecursionError):
        question = None
    return question if isinstance(question, dict) else _refusal("a question must be a JSON object in UTF-8", 400)


def _bug_message(error: Exception) -> str:
    """What the page says of an error that nobody foresaw; the log has where it happened."""
    logger.error("an error in fedpact itself", exc_info=error)
    return f"{type(error).__name__}: {error}. This is an error in fedpact itself; please report it, with the scenario"


def _refusal(message: str, status: int) -> Response:
    return JSONResponse({"error": short_message(message)}, status_code=status, headers=HEADERS)


def short_message(message: str) -> str:
    """An error as far as a page has room for it: what it quotes of a file may be long."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1].rstrip()}…"
