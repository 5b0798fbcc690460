subroutine workload(x, y) bind(c)
  real(4), intent(in) :: x(N, M)
  real(4), intent(out) :: y(N, M)
  integer :: j
  y(1, :) = x(1, :)
  do j = 2, N
    y(j, :) = y(j - 1, :) + x(j, :)
  end do
end subroutine
