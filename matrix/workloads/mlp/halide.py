import halide as hl


def workload(x, w1, b1, w2, b2):
    b, h, o = hl.Var("b"), hl.Var("h"), hl.Var("o")
    i, j = hl.RDom([(0, x.width())], "i"), hl.RDom([(0, b1.width())], "j")
    hidden, y = hl.Func("hidden"), hl.Func("y")
    hidden[h, b] = 0.0
    hidden[h, b] += x[i, b] * w1[h, i]
    y[o, b] = 0.0
    y[o, b] += hl.max(hidden[j, b] + b1[j], 0.0) * w2[o, j]
    out = hl.Func("out")
    out[o, b] = y[o, b] + b2[o]
    hidden.compute_root().vectorize(h, 4).update().vectorize(h, 4)
    y.compute_root()
    return out
