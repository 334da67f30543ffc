"""What U-Net/MM published, again."""
