"""What takes minutes or moves gigabytes: `make test-long`."""
