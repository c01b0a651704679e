//! Studies, plans, trials and the store: from a question to evidence.
