"""Look around in the catalogs: what there is, and where it is used."""
