"""From a jaxpr to a flat list of operations on lanes: rules, constant folding, scheduling."""
