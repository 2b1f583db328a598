"""river's clusterers beside ours, each sample learned before it is labelled."""

import numpy as np
from river import cluster


def rivals(modes, period):
    """By name: how to make it, for a stream with so many modes; and a partition that uses no data."""
    return {
        "river KMeans, true k": lambda: cluster.KMeans(n_clusters=modes, halflife=0.1, sigma=1, seed=0),
        "river DBSTREAM": lambda: cluster.DBSTREAM(),
        "river DenStream": lambda: cluster.DenStream(decaying_factor=0.01, beta=0.5, mu=2.5, epsilon=0.5),
        "river CluStream": lambda: cluster.CluStream(n_macro_clusters=modes, max_micro_clusters=50, seed=0),
        "no data: by the clock": lambda: Clock(period),
    }


class Clock:
    """A control: a new cluster every `period` samples, whatever they are."""

    def __init__(self, period):
        self.period, self.samples = period, 0

    def learn_one(self, sample):
        self.samples += 1

    def predict_one(self, sample):
        return (self.samples - 1) // self.period


def labels(model, X):
    """The label of every row of X; −1 where there is no cluster yet."""
    found = []
    for x in X:
        sample = dict(enumerate(map(float, x)))
        model.learn_one(sample)
        try:
            found.append(model.predict_one(sample))
        except (KeyError, ValueError):  # DenStream before it has clusters
            found.append(-1)
    return np.array(found)
