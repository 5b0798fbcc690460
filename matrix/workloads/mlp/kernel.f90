subroutine workload(x, w1, b1, w2, b2, y) bind(c)
  real(4), intent(in) :: x(I, B), w1(H, I), b1(H), w2(O, H), b2(O)
  real(4), intent(out) :: y(O, B)
  real(4) :: hidden(H)
  integer :: row
  do row = 1, B
    hidden = max(matmul(w1, x(:, row)) + b1, 0.0)
    y(:, row) = matmul(w2, hidden) + b2
  end do
end subroutine
