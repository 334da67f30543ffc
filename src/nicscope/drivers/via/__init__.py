"""What a VIA interface's messaging needs of the machine beyond moving messages."""
