//! The range log and the multi-version tables behind it
