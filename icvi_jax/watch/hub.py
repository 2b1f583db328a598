"""Server-sent events to many browsers, of which one that stops reading fills a queue of its own and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from icvi_jax.watch.board import Board

ROOM = 16
"""Messages that wait for a browser; one that is further behind is let go, and its page comes back by itself."""


class Client:
    """One browser: what it has seen, and what waits for it.

    Attributes
    ----------
    seen : number of the last event that was put into its queue.
    """

    def __init__(self, seen: int):
        self.seen = seen
        self.queue: asyncio.Queue[str | None] = asyncio.Queue(ROOM)
        self.gone = False


class Hub:
    """All browsers that listen."""

    def __init__(self) -> None:
        self.clients: set[Client] = set()
        self.let_go = 0

    def join(self, seen: int | None) -> Client:
        """A new browser; one that was here before says which event it saw last."""
        client = Client(seen or 0)
        self.clients.add(client)
        return client

    def publish(self, summary: dict[str, object], board: Board) -> None:
        """Tell every browser how things are, and what happened since it was told last. Never waits."""
        with board.lock:
            events, count = list(board.events), board.count
        texts: dict[int, str] = {}  # most browsers have seen the same
        for client in list(self.clients):
            if client.seen not in texts:
                new = [event for event in events if int(str(event["number"])) > client.seen]
                text = json.dumps(summary | {"events": new}, allow_nan=False)
                texts[client.seen] = f"id: {count}\ndata: {text}\n\n"
            try:
                client.queue.put_nowait(texts[client.seen])
                client.seen = count
            except asyncio.QueueFull:
                self._let_go(client)

    def _let_go(self, client: Client) -> None:
        self.let_go += 1
        client.gone = True
        self.clients.discard(client)
        while not client.queue.empty():
            client.queue.get_nowait()
        client.queue.put_nowait(None)

    async def stream(self, client: Client) -> AsyncIterator[str]:
        """What a browser is sent, until it goes or is let go."""
        try:
            yield "retry: 2000\n\n"
            while not client.gone and (text := await client.queue.get()) is not None:
                yield text
        finally:
            self.clients.discard(client)

    def close(self) -> None:
        """Let everybody go: the watch ends."""
        for client in list(self.clients):
            self._let_go(client)
