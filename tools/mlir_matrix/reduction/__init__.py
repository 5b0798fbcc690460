"""The engine of `matrix reduce`: make a module smaller while a predicate holds."""
