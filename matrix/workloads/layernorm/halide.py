import halide as hl


def workload(x, w, b):
    i, j, k = hl.Var("i"), hl.Var("j"), hl.RDom([(0, x.width())], "k")
    mean, scale, y = hl.Func("mean"), hl.Func("scale"), hl.Func("y")
    size = hl.f32(x.width())
    mean[i] = hl.sum(x[k, i]) / size
    d = x[k, i] - mean[i]
    scale[i] = 1.0 / hl.sqrt(hl.sum(d * d) / size + hl.f32(1e-5))
    y[j, i] = (x[j, i] - mean[i]) * scale[i] * w[j] + b[j]
    for each in (mean, scale):
        each.compute_at(y, i)
    y.vectorize(j, 4)
    return y
