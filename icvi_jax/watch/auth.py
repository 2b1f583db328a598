"""Access to the live page: refuses requests without the right, and adds headers to every answer."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icvi_jax.terminal_text import Complaints
from icvi_jax.watch.metrics import is_token

COOKIE = "icvi"
MOST, ALWAYS = 200, ("/health", "/metrics")
"""Most requests at once, and what is answered also beyond that."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Auth:
    """Checks every request before the app answers it; without a token everybody on this machine has access."""

    def __init__(self, app: ASGIApp, token: str = ""):
        self.app, self.token, self._complaints = app, token, Complaints()
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        counts = scope["path"] not in ALWAYS
        self._open += counts
        try:
            refused = self.refusal(Request(scope, receive))
            if counts and self._open > MOST:
                refused = PlainTextResponse("too many browsers are connected", 503)
            await (refused or self.app)(scope, receive, with_headers)
        except Exception as error:  # one failed request needs one line, not a traceback
            self._complaints.say(f"page: {scope['path']}: {type(error).__name__}: {error}")
        finally:
            self._open -= counts

    def refusal(self, request: Request) -> Response | None:
        host = (request.headers.get("host") or "").rsplit(":", 1)[0].strip("[]")
        # another site's name that points to this machine (DNS rebinding)
        if not self.token and host not in ("127.0.0.1", "localhost", "::1"):
            return PlainTextResponse("this page is only for this machine", 421)
        if request.method == "POST" and request.headers.get("x-icvi") != "1":  # other sites cannot add this header
            return PlainTextResponse("refused: the request does not come from the page", 403)
        if not self.token or request.url.path == "/health":
            return None
        if is_token(request.query_params.get("token", ""), self.token) and request.url.path == "/":
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if is_token(bearer, self.token) or is_token(request.cookies.get(COOKIE, ""), self.token):
            return None
        return PlainTextResponse("needs the token that the watch printed when it started", 401)
