import jax
import jax.numpy as jnp
from jax import Array

HEADS = 4


def norm(x: Array, w: Array, b: Array) -> Array:
    d = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(d * d, axis=-1, keepdims=True)
    return d * jax.lax.rsqrt(variance + 1e-5) * w + b


def attention(q: Array, k: Array, v: Array) -> Array:
    length, _, depth = q.shape[-3:]
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) / depth**0.5
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhij,bjhd->bihd", weights, v)


def workload(
    x: Array,
    ln1_w: Array,
    ln1_b: Array,
    qkv_w: Array,
    qkv_b: Array,
    out_w: Array,
    out_b: Array,
    ln2_w: Array,
    ln2_b: Array,
    up_w: Array,
    up_b: Array,
    down_w: Array,
    down_b: Array,
) -> Array:
    batch, length, _ = x.shape
    qkv = norm(x, ln1_w, ln1_b) @ qkv_w + qkv_b
    q, k, v = (t.reshape(batch, length, HEADS, -1) for t in jnp.split(qkv, 3, axis=-1))
    x = x + attention(q, k, v).reshape(x.shape) @ out_w + out_b
    hidden = jax.nn.silu(norm(x, ln2_w, ln2_b) @ up_w + up_b)
    return x + hidden @ down_w + down_b
