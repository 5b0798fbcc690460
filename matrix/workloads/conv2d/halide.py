import halide as hl


def workload(x, w, b):
    n, f, i, j = hl.Var("n"), hl.Var("f"), hl.Var("i"), hl.Var("j")
    window = hl.RDom([(0, w.dim(0).extent()), (0, w.dim(1).extent()), (0, w.dim(2).extent())], "window")
    padded = hl.BoundaryConditions.constant_exterior(x, 0.0)
    y = hl.Func("y")
    y[j, i, f, n] = b[f]
    y[j, i, f, n] += padded[2 * j + window.x - 1, 2 * i + window.y - 1, window.z, n] * w[window.x, window.y, window.z, f]
    return y
