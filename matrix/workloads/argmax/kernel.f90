subroutine workload(x, y) bind(c)
  real(4), intent(in) :: x(N, M)
  integer(4), intent(out) :: y(M)
  y = maxloc(x, 1) - 1
end subroutine
