"""The live page: a small web server in its own thread beside the watch.

It uses Starlette and uvicorn, not the server of the standard library: that one has a thread for each browser and no
flow control, so that a browser which stops reading occupies a thread and its buffers. Here it fills a short queue and
is disconnected.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from icvi_jax.terminal_text import say
from icvi_jax.watch.auth import Auth
from icvi_jax.watch.loop import WatchLoop
from icvi_jax.watch.metrics import exposition, is_loopback
from icvi_jax.watch.page_data import fleet_view, names_view, node_view, summary
from icvi_jax.watch.ring_buffers import EVENTS, RingBuffers
from icvi_jax.watch.sse import Broadcaster

BEAT, LONGEST_BODY, VIEWS = 0.5, 10_000, 32
HEADER_SECONDS, CONNECTIONS = 10.0, 400
"""How long a request may take to come in, and how many connections there may be: fewer than files may be open."""
STUCK = 120.0
"""A watch that spends more seconds on one batch is not healthy: perhaps nobody reads its output."""
FILES = {
    "/": ("icvi_jax.watch", "page/live.html", "text/html"),
    **{f"/{n}.js": ("icvi_jax.watch", f"page/{n}.js", "text/javascript") for n in ("live", "fleet", "node", "parts")},
    "/live.css": ("icvi_jax.watch", "page/live.css", "text/css"),
    "/draw.js": ("icvi_jax.report", "draw.js", "text/javascript"),
    "/page.css": ("icvi_jax.report", "page.css", "text/css"),
}


class Connection(H11Protocol):
    """A connection that is closed if it asks for nothing, so that idle ones cannot use up all there are.

    One that has not sent a whole request for 10 to 20 seconds is closed. When there are too many, the one that has been
    idle for longest is closed at once: a new one, such as that of a health check, is never refused.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since: float | None = time.monotonic()
        self._look_later()
        idle = [one for one in self.connections if isinstance(one, Connection) and one is not self and one.is_idle]
        if len(self.connections) > CONNECTIONS and idle:
            min(idle, key=lambda one: one._idle_since or 0.0).transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, or for the rest of one."""
        return self.cycle is None or self.cycle.response_complete

    def _look_later(self) -> None:
        self._look_at = self.loop.call_later(HEADER_SECONDS, self._look)

    def _look(self) -> None:
        if self.is_idle and self._idle_since is not None and time.monotonic() - self._idle_since >= HEADER_SECONDS:
            self.transport.close()
            return
        self._idle_since = (self._idle_since or time.monotonic()) if self.is_idle else None
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_at.cancel()
        super().connection_lost(exc)


class Site:
    """What the server answers, to those who have the token; an empty one is for all who can reach the address."""

    def __init__(self, fleet: WatchLoop, buffers: RingBuffers, token: str, worst: int, busy: Callable[[], float]):
        self.fleet, self.buffers, self.worst, self.busy = fleet, buffers, worst, busy
        self.broadcaster = Broadcaster()
        self._views: dict[tuple[int, str, str], tuple[float, bytes]] = {}
        routes = [Route(path, self._file) for path in FILES]
        routes += [
            Route("/api/fleet", self._fleet),
            Route("/api/names", self._names),
            Route("/api/node", self._node),
            Route("/api/mute", self._mute, methods=["POST"]),
            Route("/api/acknowledge", self._acknowledge, methods=["POST"]),
            Route("/events", self._events),
            Route("/metrics", self._metrics),
            Route("/health", self._health),
        ]
        self.app = Starlette(routes=routes, lifespan=self._beating)
        self.app.add_middleware(Auth, token=token)

    async def _file(self, request: Request) -> Response:
        package, name, kind = FILES[request.url.path]
        return Response((files(package) / name).read_bytes(), media_type=kind)

    async def _fleet(self, request: Request) -> Response:
        query = request.query_params
        page = _whole(query.get("page", "")) or 0
        view = page, query.get("search", "")[:200], query.get("index", "")[:50]
        now, known = time.monotonic(), self._views.get(view)
        if known is None or now - known[0] > BEAT / 2:  # one answer for many browsers
            if len(self._views) >= VIEWS:
                self._views.clear()
            body = json.dumps(fleet_view(self.buffers, *view), ensure_ascii=False, separators=(",", ":")).encode()
            known = self._views[view] = now, body
        return Response(known[1], media_type="application/json")

    async def _names(self, _request: Request) -> Response:
        return JSONResponse(names_view(self.buffers))

    async def _node(self, request: Request) -> Response:
        found = node_view(self.buffers, request.query_params.get("name", ""))
        if found is None:
            raise HTTPException(404, "there is no such node")
        return JSONResponse(found)

    async def _mute(self, request: Request) -> Response:
        name, muted = await _posted(request, "name", "muted")
        if name not in self.buffers.rows:
            raise HTTPException(404, "there is no such node")
        self.buffers.silences.set(name, muted)
        return JSONResponse({"muted": sorted(self.buffers.silences.names)})

    async def _acknowledge(self, request: Request) -> Response:
        if not self.buffers.acknowledge(*await _posted(request, "incident", "seen")):
            raise HTTPException(404, "there is no such incident")
        return JSONResponse({"acknowledged": sorted(self.buffers.acknowledged.names)})

    async def _metrics(self, _request: Request) -> Response:
        return Response(exposition(self.fleet, self.worst), media_type="text/plain; version=0.0.4")

    async def _health(self, _request: Request) -> Response:
        stuck = self.busy() > STUCK
        body = {"status": "stuck" if stuck else "ok", "samples": self.fleet.samples, "busy": round(self.busy(), 1)}
        return JSONResponse(body, 503 if stuck else 200)

    async def _events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id", "")
        client = self.broadcaster.join(_whole(last))
        return StreamingResponse(self.broadcaster.stream(client), media_type="text/event-stream")

    @asynccontextmanager
    async def _beating(self, _app: Starlette) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                self.broadcaster.publish(summary(self.fleet, self.buffers), self.buffers)
                await asyncio.sleep(BEAT)

        task = asyncio.create_task(beat())
        yield
        task.cancel()
        self.broadcaster.close()


async def _posted(request: Request, name: str, flag: str) -> tuple[str, bool]:
    """The name and the flag that a browser has sent."""
    body = b""
    try:
        async with asyncio.timeout(HEADER_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > LONGEST_BODY:
                    raise HTTPException(413, "too long")
    except TimeoutError:
        raise HTTPException(408, "too slow") from None
    try:
        given = json.loads(body)
        return str(given[name]), bool(given[flag])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HTTPException(400, f'expected {{"{name}": …, "{flag}": …}}') from None


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `:PORT`."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if _whole(port) is None or int(port) > 65535:
        raise ValueError(f"--serve {text}: expected HOST:PORT, such as 127.0.0.1:8050")
    return host, int(port)


def _whole(text: str) -> int | None:
    """The number in a text of a few digits; None for anything else, such as ² or a thousand digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


@contextmanager
def page_served(
    fleet: WatchLoop,
    buffers: RingBuffers,
    address: str,
    token: str = "",
    worst: int = 10,
    busy: Callable[[], float] = lambda: 0.0,
) -> Iterator[str]:
    """Serve the page during the `with`, and yield its address.

    Parameters
    ----------
    fleet, buffers : the watch and what it shows.
    address : HOST:PORT; for other machines a token is needed, and made if none is given.
    worst : how many nodes have their own metric.
    busy : how many seconds the watch has spent on its present batch; too many are not healthy.
    """
    host, port = address_of(address)
    if not is_loopback(host):
        token = token or secrets.token_urlsafe(16)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ValueError(f"--serve {address}: cannot listen there ({error.strerror or error})") from None
    if sys.platform == "linux":  # a browser that hangs would keep its connection for ever
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # `Auth` prints what matters
    site = Site(fleet, buffers, token, worst, busy)
    config = uvicorn.Config(
        site.app,
        log_config=None,
        access_log=False,
        http=Connection,
        timeout_graceful_shutdown=1,
        lifespan="on",
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="icvi page", daemon=True)
    thread.start()
    where = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
    say(f"page: {where}{f'?token={token}' if token else ''}")
    held = buffers.bytes_of_node(len(buffers.features)) / 1e3
    size = f"{held:.1f} kB and {8e-3 * buffers.length:.1f} kB more for each column of readings"
    say(f"page: keeps the last {buffers.length} samples of each node in {size}, and the last {EVENTS} alarms")
    try:
        yield where
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
