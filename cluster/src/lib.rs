//! Leadership, collection, greetings and peer links
