"""Without LiteRT the tests that need it are not collected."""

from optional import WITH_LITERT

collect_ignore_glob = WITH_LITERT
