//! Histograms, intervals, verdicts: the arithmetic of measurement. No I/O.
