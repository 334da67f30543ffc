"""Schedules in GOAL's text, the group operation assembly language of LogGOPSim and ATLAHS."""
