import halide as hl


def workload(x, w):
    i, j, k = hl.Var("i"), hl.Var("j"), hl.RDom([(0, x.width())], "k")
    y = hl.Func("y")
    y[j, i] = 0
    y[j, i] += hl.i32(x[k, i]) * hl.i32(w[j, k])
    y.update().reorder(j, k, i).vectorize(j, 8, hl.TailStrategy.GuardWithIf)
    return y
