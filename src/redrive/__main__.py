"""`python -m redrive`, the same as the command `redrive`."""

from redrive.cli import main

if __name__ == "__main__":
    main()
