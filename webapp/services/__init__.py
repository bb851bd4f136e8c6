"""What pages, REST API and command line do, each thing in one place."""
