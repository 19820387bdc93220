//! The server's own state: its key, its tokens, its journal. Never inside the space.
