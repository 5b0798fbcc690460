subroutine workload(x, w, y) bind(c)
  integer(1), intent(in) :: x(K, M), w(N, K)
  integer(4), intent(out) :: y(N, M)
  y = matmul(int(w, 4), int(x, 4))
end subroutine
