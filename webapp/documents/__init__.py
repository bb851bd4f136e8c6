"""Documents of the deployed corpus: adding, changing, removing."""
