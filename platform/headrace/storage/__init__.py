"""Where tables lie: folders of this machine, or an object store, by one interface."""
