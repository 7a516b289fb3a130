"""`python -m beforehand` is the `beforehand` command."""

from beforehand.cli import main

if __name__ == "__main__":
    main()
