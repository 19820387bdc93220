//! Fixtures, scripted clients and the leak check.
