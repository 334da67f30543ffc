"""One function for each table, figure and claim that is reproduced, a module for each paper."""
