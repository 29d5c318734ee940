"""`python -m gateway.cli`: the same as the command `tidegate`."""

from gateway.cli import main

if __name__ == "__main__":
    main(prog_name="tidegate")
