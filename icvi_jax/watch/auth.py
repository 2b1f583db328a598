"""Access to the live page: refuses requests without the right, and adds headers to every answer."""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icvi_jax.watch.decode import Complaints

COOKIE = "icvi"
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


class Guard:
    """Checks every request before the server answers it.

    Parameters
    ----------
    app : what is guarded.
    token : needed for access; empty: everybody on this machine has access.
    """

    def __init__(self, app: ASGIApp, token: str = ""):
        self.app, self.token, self._complaints = app, token, Complaints()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        try:
            refused = self.refusal(Request(scope, receive))
            await (refused or self.app)(scope, receive, with_headers)
        except Exception as error:  # one failed request needs one line, not a traceback
            self._complaints.say(f"page: {scope['path']}: {type(error).__name__}: {error}")

    def refusal(self, request: Request) -> Response | None:
        """The answer that refuses a request, or None."""
        host = (request.headers.get("host") or "").rsplit(":", 1)[0].strip("[]")
        if not self.token and host not in (
            "127.0.0.1",
            "localhost",
            "::1",
        ):  # another site's name that points to this machine (DNS rebinding)
            return PlainTextResponse("this page is only for this machine", 421)
        if request.method == "POST" and request.headers.get("x-icvi") != "1":  # other sites cannot add this header
            return PlainTextResponse("refused: the request does not come from the page", 403)
        if not self.token or request.url.path == "/health":
            return None
        if self._is_token(request.query_params.get("token", "")) and request.url.path == "/":
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer) or self._is_token(request.cookies.get(COOKIE, "")):
            return None
        return PlainTextResponse("needs the token that the watch printed when it started", 401)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())
