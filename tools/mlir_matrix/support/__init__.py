"""What works: workloads or operators by path and target."""
