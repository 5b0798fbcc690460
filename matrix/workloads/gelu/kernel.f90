subroutine workload(x, y) bind(c)
  real(4), intent(in) :: x(N, M)
  real(4), intent(out) :: y(N, M)
  y = x * 0.5 * (1 + erf(x * 0.70710678))
end subroutine
