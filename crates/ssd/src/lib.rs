//! An emulated SSD: flash timing, volatile cache, flash translation layer, power cut. Sans-I/O.
