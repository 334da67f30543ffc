"""What miNI published, again."""
