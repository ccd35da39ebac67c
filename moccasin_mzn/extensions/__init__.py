"""Beyond the paper, each kept whole: paging, devices, addresses, frontiers."""
