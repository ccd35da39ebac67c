"""What every room stands on: errors of one line, files, options as fields, checks, words, time."""
