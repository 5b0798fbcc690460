import halide as hl


def workload(x):
    i, j, k = hl.Var("i"), hl.Var("j"), hl.RDom([(0, x.width())], "k")
    largest, total, e, y = hl.Func("largest"), hl.Func("total"), hl.Func("e"), hl.Func("y")
    largest[i] = hl.maximum(x[k, i])
    e[j, i] = hl.exp(x[j, i] - largest[i])
    total[i] = hl.sum(e[k, i])
    y[j, i] = e[j, i] / total[i]
    for each in (largest, e, total):
        each.compute_at(y, i)
    return y
