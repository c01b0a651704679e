//! What is issued: filesets, flowops, processes, threads, distributions. No I/O.
