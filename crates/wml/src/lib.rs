//! Filebench's workload model language: text to a workload, with spans and diagnostics.
