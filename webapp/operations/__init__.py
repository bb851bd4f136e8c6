"""Operating the site: overview, health, backups."""
