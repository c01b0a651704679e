//! Watches a trial: environment, /proc counters, device counters.
