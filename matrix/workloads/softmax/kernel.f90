subroutine workload(x, y) bind(c)
  real(4), intent(in) :: x(N, M)
  real(4), intent(out) :: y(N, M)
  integer :: row
  do row = 1, M
    y(:, row) = exp(x(:, row) - maxval(x(:, row)))
    y(:, row) = y(:, row) / sum(y(:, row))
  end do
end subroutine
