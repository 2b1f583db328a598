# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Embedding: an index inside your own JAX code
#
# The panel is a pure step on a pytree. So it can be used inside an existing training loop, and gradients go through it.
# `ICVI_NOTEBOOK_STEPS` sets the length of the training in the second section.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import icvi_jax as icvi
import plots
from icvi_jax.evaluation import adjusted_rand_index

plots.style()
STEPS = int(os.environ.get("ICVI_NOTEBOOK_STEPS", 200))

# %% [markdown]
# ## A diagnostic of training on a drifting stream
#
# Three modes in eight dimensions. A linear autoencoder is trained one sample at a time, and three centres move with the
# codes. At sample 1000 the modes move to other places. The loop is yours; only the line `panel.step` is from this library.

# %%
rng = np.random.default_rng(0)
T, P, K, CHANGE = 2000, 8, 3, 1000
homes = rng.normal(size=(2, K, P)) * 4
mode = rng.integers(K, size=T)
X = (homes[(np.arange(T) >= CHANGE).astype(int), mode] + rng.normal(size=(T, P))).astype(np.float32)

panel = icvi.Panel(indices=(icvi.XieBeni(normalizer="exact"),), forgetting=0.98)
optimizer = optax.adam(5e-3)


def reconstruction(weights, x):
    code = weights["down"] @ x
    return jnp.mean((weights["up"] @ code - x) ** 2), code


@jax.jit
def train(weights, X):
    def step(carry, x):
        weights, memory, centers, watched = carry
        (loss, code), grads = jax.value_and_grad(reconstruction, has_aux=True)(weights, x)
        updates, memory = optimizer.update(grads, memory)
        weights = optax.apply_updates(weights, updates)
        u = jax.nn.one_hot(jnp.argmin(jnp.sum((code - centers) ** 2, 1)), K)
        centers = centers + 0.05 * u[:, None] * (code - centers)
        watched, values = panel.step(watched, code, u, centers)  # ours
        return (weights, memory, centers, watched), (loss, values["xb"])

    start = weights, optimizer.init(weights), jax.vmap(lambda x: weights["down"] @ x)(X[:K]), panel.init(K, 2)
    return jax.lax.scan(step, start, X)


key = jax.random.split(jax.random.key(0))
weights = {"down": 0.3 * jax.random.normal(key[0], (2, P)), "up": 0.3 * jax.random.normal(key[1], (P, 2))}
_, (loss, xb) = train(weights, X)

figure, axes = plt.subplots(2, 1, figsize=(8, 4), sharex=True)
axes[0].plot(np.convolve(loss, np.ones(20) / 20, "same"), color=plots.ORANGE)
axes[0].set(ylabel="reconstruction\nerror", yscale="log")
plots.series(axes[1], xb, [CHANGE])
plots.mark(axes[0], [CHANGE])
axes[1].set(ylabel="XB$_λ$ of the codes", xlabel="sample", xlim=(0, T))
before, at, after = (float(np.nanmedian(xb[a:b])) for a, b in ((800, 1000), (1000, 1050), (1800, 2000)))
print(f"median XB_λ before the change {before:.3f}, in the 50 samples after it {at:.3f}, in the end {after:.3f}")

# %% [markdown]
# *Above, the loss falls, jumps when the modes move, and falls again. Below, the index shows the same for the clusters of
# the codes, which the loss does not measure: they form while the encoder learns, are disturbed at the dotted line, and
# form again.*

# %% [markdown]
# ## An objective: gradients through the recursion
#
# Three modes that differ in two of eight directions; the other six have a much larger variance. Principal components show
# the directions of large variance. Instead we sphere the data and minimise XB_λ itself, with soft memberships, over the
# projection and over three anchors that give the memberships; centres are the means of the members. (With free centres
# the descent finds a wrong solution: it moves the least important ones far away, for separation.) First the gradient,
# compared with central differences in double precision.

# %%
hidden = np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 4.5]])[rng.integers(K, size=300)]
truth = np.unique(hidden, axis=0, return_inverse=True)[1].reshape(-1)
turn = np.linalg.qr(rng.normal(size=(P, P)))[0]
raw = np.concatenate([hidden + rng.normal(0, 0.5, (300, 2)), rng.normal(0, 8, (300, P - 2))], axis=1) @ turn
raw = raw - raw.mean(0)
sphered = raw @ np.linalg.inv(np.linalg.cholesky(np.cov(raw.T)).T)  # all directions alike: variance tells nothing now
soft_panel = icvi.Panel(indices=(icvi.XieBeni(normalizer="exact"),), forgetting=0.999, fuzzifier=2.0)


def clusters(parameters, X):
    codes = X @ jnp.linalg.qr(parameters["projection"])[0]
    gaps = jnp.sum((codes[:, None] - parameters["anchors"]) ** 2, -1)
    u = 1 / (gaps + 0.02)  # as fuzzy c-means has them: never so small that their squares vanish
    u = u / u.sum(1, keepdims=True)
    return codes, u, (u**2).T @ codes / (u**2).sum(0)[:, None]


def objective(parameters, X):
    codes, u, centers = clusters(parameters, X)
    return icvi.validate(soft_panel, codes, memberships=u, centers=centers)["xb"][-1]


with jax.enable_x64(True):
    parameters = {
        "projection": jnp.asarray(np.linalg.qr(rng.normal(size=(P, 2)))[0]),
        "anchors": jnp.asarray(rng.normal(size=(K, 2))),
    }
    small = jnp.asarray(sphered[:60])
    grads = jax.grad(objective)(parameters, small)
    worst = 0.0
    for name, value in parameters.items():
        for spot in np.ndindex(value.shape):
            up, down = (objective({**parameters, name: value.at[spot].add(e)}, small) for e in (1e-5, -1e-5))
            worst = max(worst, abs(float((up - down) / 2e-5 - grads[name][spot])))
    scale = max(float(jnp.abs(g).max()) for g in grads.values())
print(f"largest difference of gradient and central differences: {worst / scale:.1e} of the largest component")
assert worst < 1e-6 * scale

# %% [markdown]
# Then the descent, from several random projections at once by `vmap`; the best index wins.

# %%
data = jnp.asarray(sphered, jnp.float32)
descent = optax.adam(0.05)


@jax.jit
def fit(key):
    where, which = jax.random.split(key)
    projection = jax.random.normal(where, (P, 2))
    codes = data @ jnp.linalg.qr(projection)[0]
    start = {"projection": projection, "anchors": codes[jax.random.choice(which, len(codes), (K,), replace=False)]}

    def step(carry, _):
        parameters, memory = carry
        value, grads = jax.value_and_grad(objective)(parameters, data)
        updates, memory = descent.update(grads, memory)
        return (optax.apply_updates(parameters, updates), memory), value

    (parameters, _), path = jax.lax.scan(step, (start, descent.init(start)), length=STEPS)
    return parameters, path


found, paths = jax.vmap(fit)(jax.random.split(jax.random.key(1), 16))
best = int(jnp.argmin(paths[:, -1]))
parameters = jax.tree.map(lambda a: np.asarray(a[best]), found)
learned = sphered @ np.linalg.qr(parameters["projection"])[0]
principal = raw @ np.linalg.svd(raw, full_matrices=False)[2][:2].T
_, u, centers = clusters(parameters, data)
label = np.asarray(u).argmax(1)
agreement = adjusted_rand_index(label, truth)

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2))
axes[0].plot(paths.T, color="#bbbbbb", lw=0.8)
axes[0].plot(paths[best], color=plots.BLUE)
axes[0].set(yscale="log", xlabel="step", ylabel="XB$_λ$", title="Descents")
for one, codes, title in (
    (axes[1], principal, "Principal components"),
    (axes[2], learned, f"Learned, Rand index {agreement:.2f}"),
):
    for i, color in enumerate((plots.BLUE, plots.ORANGE, plots.GREEN)):
        one.plot(*codes[truth == i].T, ".", ms=4, color=color)
    one.set(title=title)
axes[2].plot(*centers.T, "+", color="black", ms=10, mew=2)

# %% [markdown]
# *Left, the index along sixteen descents, the best in blue. Middle, principal components, which show the noise. Right,
# the projection found with the index; colours are the truth, which was not used, and crosses are the centres.*
