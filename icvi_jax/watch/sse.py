"""Server-sent events to many browsers; a browser that stops reading only fills its own queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from icvi_jax.watch.ring_buffers import RingBuffers

ROOM = 16
"""Most messages that wait for a browser; a slower one is disconnected, and its page connects again by itself."""


class Client:
    """One browser: what it has got, and what waits for it."""

    def __init__(self, seen: int):
        self.seen = seen  # number of the last event that was put into its queue
        self.queue: asyncio.Queue[str | None] = asyncio.Queue(ROOM)  # None: it is disconnected


class Broadcaster:
    """All connected browsers."""

    def __init__(self) -> None:
        self.clients: set[Client] = set()
        self.let_go = 0

    def join(self, seen: int | None) -> Client:
        """Add a browser; one that was connected before names the last event it has got."""
        client = Client(seen or 0)
        self.clients.add(client)
        return client

    def publish(self, summary: dict[str, object], buffers: RingBuffers) -> None:
        """Send every browser the summary and all events it has not got yet. Never waits."""
        with buffers.lock:
            events, count = list(buffers.events), buffers.count
        texts: dict[int, str] = {}  # most browsers have got the same events
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
        self.clients.discard(client)
        while not client.queue.empty():
            client.queue.get_nowait()
        client.queue.put_nowait(None)

    async def stream(self, client: Client) -> AsyncIterator[str]:
        """The messages to a browser, until it disconnects or is disconnected."""
        try:
            yield "retry: 2000\n\n"
            while (text := await client.queue.get()) is not None:
                yield text
        finally:
            self.clients.discard(client)

    def close(self) -> None:
        for client in list(self.clients):
            self._let_go(client)
