"""The declarative files: their models, how they are read, and what is wrong with them."""
