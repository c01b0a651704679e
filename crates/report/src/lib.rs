//! Tables, HTML, CSV, JSON and Filebench text from stored results.
