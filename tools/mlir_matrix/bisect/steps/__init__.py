"""Find the step and the pass of a failing test that is wrong, in one version."""
