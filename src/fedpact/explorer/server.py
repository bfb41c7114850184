"""The explorer on a port of this machine, until it is interrupted."""

from __future__ import annotations

import errno
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import active_children

from fedpact.explorer.questions import Questions, initial_draft
from fedpact.scenario import Scenario
from fedpact.utils.errors import FedpactError, InvalidInput, MissingExtra

ADDRESS = "127.0.0.1"
USUAL_PORT = 8517
SHUTDOWN_SECONDS = 1  # seconds for open connections when the explorer ends


def open_socket(port: int | None) -> socket.socket:
    """Open a socket on 127.0.0.1, on the given port, or else on the usual one, or any if that is taken."""
    for wanted in [USUAL_PORT, 0] if port is None else [port]:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((ADDRESS, wanted))
            made.listen()
            return made
        except OSError as error:
            made.close()
            if port is not None or error.errno != errno.EADDRINUSE:
                raise InvalidInput(f"port {wanted} cannot be used: {error.strerror}; choose another one") from error
    raise InvalidInput("there is no free port on this machine")


def serve(
    scenario: Scenario,
    *,
    source: str,
    port: int | None = None,
    open_browser: bool = True,
    ready: Callable[[str], None] = lambda url: None,
) -> bool:
    """Serve the explorer until it is interrupted; True if something is still being computed then.

    Parameters
    ----------
    scenario, source
        What to begin with, and what to call it.
    port
        8517 or, if that is taken, any free one, unless one is named.
    open_browser
        Whether to open the page in the user's browser.
    ready
        Called with the page's address once it can be reached.

    Raises
    ------
    MissingExtra
        If the web server is not installed.
    InvalidInput
        If the port is taken, or the federation is too large to edit.
    """
    try:
        import uvicorn  # noqa: PLC0415 - optional dependency

        from fedpact.explorer.app import make_app  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("The explorer", "explore") from error
    questions, token = Questions(), secrets.token_urlsafe(16)
    app = make_app(scenario, source=source, token=token, questions=questions)
    with open_socket(port) as made:
        url = f"http://{ADDRESS}:{made.getsockname()[1]}/?token={token}"
        threading.Thread(target=_prepare, args=(questions, scenario), daemon=True).start()
        ready(url)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        others = set(active_children())
        try:
            with suppress(KeyboardInterrupt):  # the usual end
                uvicorn.Server(config).run(sockets=[made])
        finally:
            for worker in set(active_children()) - others:  # of a map that nobody will see
                worker.terminate()
    return questions.results.turns.is_taken


def _prepare(questions: Questions, scenario: Scenario) -> None:
    """Work out the first deal while the browser starts."""
    draft, _ = initial_draft(scenario)
    with suppress(FedpactError):
        questions.deal({"draft": draft.record()})
