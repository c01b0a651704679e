//! Runs a workload on a target: pacing, picking, recording.
