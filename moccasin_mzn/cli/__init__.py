"""The command line: each module has one command or a family of commands."""
