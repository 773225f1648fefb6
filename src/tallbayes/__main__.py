"""`python -m tallbayes` is the command line."""

from tallbayes.cli import main

if __name__ == "__main__":
    main()
