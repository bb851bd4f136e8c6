"""Running the site: overview, health, backups."""
