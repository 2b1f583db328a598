"""A Kafka broker for benchmarks: librdkafka's mock cluster, on loopback, in this process.

It keeps a few megabytes of each partition and drops older messages: senders must not be far ahead of readers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

AHEAD = 2_000_000
"""Bytes of a partition that may wait for a reader."""
PRODUCER, QUICK_REBALANCE = 0, 300


@contextmanager
def cluster(topic: str, partitions: int) -> Iterator[str]:
    """Run a broker with one topic, and yield its address."""
    library = _library()
    why = ctypes.create_string_buffer(512)
    settings = library.rd_kafka_conf_new()
    assert library.rd_kafka_conf_set(settings, b"log_level", b"0", why, len(why)) == 0, why.value
    handle = library.rd_kafka_new(PRODUCER, settings, why, len(why))
    assert handle, why.value
    mock = library.rd_kafka_mock_cluster_new(handle, 1)
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(mock, QUICK_REBALANCE)
    assert library.rd_kafka_mock_topic_create(mock, topic.encode(), partitions, 1) == 0
    try:
        yield library.rd_kafka_mock_cluster_bootstraps(mock).decode()
    finally:
        library.rd_kafka_mock_cluster_destroy(mock)
        library.rd_kafka_destroy(handle)


def _library() -> ctypes.CDLL:
    """The C library inside the Python package; from Python one cannot choose the number of partitions."""
    found = list(Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"))
    assert found, "this needs the wheel of confluent-kafka, which has librdkafka inside"
    library, pointer = ctypes.CDLL(str(found[0])), ctypes.c_void_p
    for name, result, *arguments in (
        ("rd_kafka_conf_new", pointer),
        (
            "rd_kafka_conf_set",
            ctypes.c_int,
            pointer,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ),
        ("rd_kafka_new", pointer, ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t),
        ("rd_kafka_destroy", None, pointer),
        ("rd_kafka_mock_cluster_new", pointer, pointer, ctypes.c_int),
        ("rd_kafka_mock_cluster_destroy", None, pointer),
        ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p, pointer),
        ("rd_kafka_mock_group_initial_rebalance_delay_ms", None, pointer, ctypes.c_int32),
        ("rd_kafka_mock_topic_create", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
