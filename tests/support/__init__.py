"""What tests share: machines, daemons, catalogs and packages of their own."""
