import halide as hl


def workload(x):
    b, m, n = hl.Var("b"), hl.Var("m"), hl.Var("n")
    y = hl.Func("y")
    y[m, b, n] = x[n, m, b]
    return y
