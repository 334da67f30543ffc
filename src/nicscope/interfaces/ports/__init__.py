"""What U-Net, VMMC and miNI endpoints share: a cluster, processes, their memory and their ports."""
