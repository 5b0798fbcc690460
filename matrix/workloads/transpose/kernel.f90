subroutine workload(x, y) bind(c)
  real(4), intent(in) :: x(N, M, B)
  real(4), intent(out) :: y(M, B, N)
  integer :: j
  do j = 1, N
    y(:, :, j) = x(j, :, :)
  end do
end subroutine
