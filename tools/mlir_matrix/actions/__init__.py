"""Code that runs inside an environment: standard library, NumPy and what that environment is for, nothing else."""
