"""What programs call: endpoints of the published systems, as awaitables."""
