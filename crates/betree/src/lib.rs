//! A write-optimised key-value store: a Bε-tree with log, checkpoints and cache.
