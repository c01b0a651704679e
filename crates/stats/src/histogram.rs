//! Placeholder of the log-linear histogram; its interface is what the other rooms rely on.
