//! Sessions, scripts and HTTP
