subroutine workload(x, w, b, y) bind(c)
  real(4), intent(in) :: x(N, M), w(N), b(N)
  real(4), intent(out) :: y(N, M)
  real(4) :: mean
  integer :: row
  do row = 1, M
    mean = sum(x(:, row)) / N
    y(:, row) = x(:, row) - mean
    y(:, row) = y(:, row) / sqrt(sum(y(:, row)**2) / N + 1e-5) * w + b
  end do
end subroutine
