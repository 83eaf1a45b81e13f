//! The directory of one server: its lock, its port and password, its pid file and its log.
