"""python -m app.cli is the narthex command."""

from app.cli import main

if __name__ == "__main__":
    main()
