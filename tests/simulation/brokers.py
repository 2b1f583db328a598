"""Brokers that obey a seed: an MQTT broker with sessions and retained messages, and a Kafka cluster with a group."""

from __future__ import annotations

from types import SimpleNamespace

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition


class MqttBroker:
    """Quality of service 1: a session gets what it has not acknowledged again, marked, with the same identifier."""

    def __init__(self):
        self.queue, self.flying, self.retained = [], {}, {}
        self.session = self.subscribed = False
        self.client, self.mid = None, 0

    def publish(self, topic, payload, retain):
        if retain:
            self.retained[topic] = payload
        if self.subscribed:
            self.queue.append((topic, payload, retain))

    def make(self, _host, name, version, **callbacks):
        """Instead of `mqtt.client`."""
        return MqttClient(self, bool(name), SimpleNamespace(**callbacks)), "broker"

    def connect(self, client):
        client.calls.on_pre_connect()
        self.client, present = client, self.session and client.lasting
        if not present:
            self.queue, self.flying, self.subscribed = [], {}, False
        self.session = True
        reason = SimpleNamespace(is_failure=False)
        client.calls.on_connect(client, None, SimpleNamespace(session_present=present), reason, None)
        if self.client is not None:
            for mid, (topic, payload, retain) in list(self.flying.items()):
                self._send(mid, topic, payload, retain, dup=True)

    def subscribe(self, topic):
        if topic.startswith("$SYS"):
            return
        if not self.subscribed:
            self.queue += [(topic, payload, True) for topic, payload in self.retained.items()]
        self.subscribed = True
        self.client.calls.on_subscribe()

    def pump(self, count):
        """Deliver some messages."""
        while self.client is not None and self.queue and count > 0:
            count -= 1
            self.mid = self.mid % 65_535 + 1
            self.flying[self.mid] = self.queue.pop(0)
            self._send(self.mid, *self.flying[self.mid], dup=False)

    def _send(self, mid, topic, payload, retain, dup):
        message = SimpleNamespace(topic=topic, payload=payload, mid=mid, qos=1, dup=dup, retain=retain)
        self.client.calls.on_message(self.client, None, message)

    def lose_connection(self):
        if self.client is not None:
            client, self.client = self.client, None
            client.calls.on_disconnect()

    def forget_session(self):
        """A broker without persistence starts again, when nothing is on its way; retained messages stay."""
        if not self.queue and not self.flying:
            self.lose_connection()
            self.session = self.subscribed = False


class MqttClient:
    """Instead of paho's client."""

    def __init__(self, broker, lasting, calls):
        self.broker, self.lasting, self.calls, self.gone = broker, lasting, calls, False

    def loop_start(self):
        """The network is pumped by the test."""

    loop_stop = loop_start

    def subscribe(self, topic, **_options):
        self.broker.subscribe(topic)

    def ack(self, mid, _qos):
        if self.broker.client is self:
            self.broker.flying.pop(mid, None)

    def disconnect(self):
        if self.broker.client is self:
            self.broker.client = None


class Cluster:
    """A topic, and a group whose members come and go."""

    def __init__(self, partitions):
        self.logs = {number: [] for number in range(partitions)}
        self.start = dict.fromkeys(self.logs, 0)  # what is before it, retention has removed
        self.members, self.owner, self.committed = [], {}, {}
        self.refuses_commits = False

    def make(self, _settings, logger=None):
        """Instead of `confluent_kafka.Consumer`."""
        return Member(self)

    def target(self, member):
        return {n for n in self.logs if self.members[n % len(self.members)] is member}

    def remove_committed(self):
        """Retention at its shortest: what the group has committed is not kept any longer."""
        self.start |= self.committed

    def expel(self, member):
        """The group has heard nothing from a member for too long."""
        if member in self.members:
            self.members.remove(member)
        self.owner = {n: one for n, one in self.owner.items() if one is not member}


class Member:
    """Instead of a consumer."""

    def __init__(self, cluster):
        self.cluster, self.at, self.closed = cluster, {}, False

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        (self.topic,) = topics
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost
        self.cluster.members.append(self)

    def consume(self, count, _timeout):
        cluster = self.cluster
        if self not in cluster.members:  # expelled while it did not look
            if self.at:
                self.on_lost(self, self._listed(self.at))
            cluster.members.append(self)
        wanted = cluster.target(self)
        if taken := set(self.at) - wanted:
            self.on_revoke(self, self._listed(taken))
        new = {n for n in wanted - set(self.at) if n not in cluster.owner}
        if new:
            for n in new:
                cluster.owner[n] = self
            self.on_assign(self, self._listed(new))
        found = []
        for n, at in list(self.at.items()):
            start = max(at, cluster.start[n])
            records = cluster.logs[n][start : start + count]
            found += [Record(n, start + i, *record) for i, record in enumerate(records)]
            self.at[n] = start + len(records)
        return found

    def _listed(self, numbers):
        return [TopicPartition(self.topic, n) for n in sorted(numbers)]

    def incremental_assign(self, given):
        self.at |= {one.partition: 0 if one.offset == OFFSET_BEGINNING else one.offset for one in given}

    def incremental_unassign(self, taken):
        for one in taken:
            self.at.pop(one.partition, None)
            if self.cluster.owner.get(one.partition) is self:
                del self.cluster.owner[one.partition]

    def commit(self, offsets, asynchronous):
        if self.cluster.refuses_commits or self not in self.cluster.members:
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
        self.cluster.committed |= {one.partition: one.offset for one in offsets}

    def close(self):
        if self.at and self in self.cluster.members:
            self.on_revoke(self, self._listed(self.at))
        self.cluster.expel(self)


class Record:
    """A message of a log."""

    def __init__(self, partition, offset, key, value):
        self._all = partition, offset, key, value

    partition = lambda self: self._all[0]  # noqa: E731
    offset = lambda self: self._all[1]  # noqa: E731
    key = lambda self: self._all[2]  # noqa: E731
    value = lambda self: self._all[3]  # noqa: E731
    error = lambda self: None  # noqa: E731
