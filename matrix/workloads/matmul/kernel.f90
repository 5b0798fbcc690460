subroutine workload(x, w, y) bind(c)
  real(4), intent(in) :: x(K, M), w(N, K)
  real(4), intent(out) :: y(N, M)
  y = matmul(w, x)
end subroutine
