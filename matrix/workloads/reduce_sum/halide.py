import halide as hl


def workload(x):
    i, k = hl.Var("i"), hl.RDom([(0, x.width())], "k")
    y = hl.Func("y")
    y[i] = 0.0
    y[i] += x[k, i]
    return y
