"""The live read: the snapshot and what is only in the changelog, in the driver."""
