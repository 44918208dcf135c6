//! Requests are validated with the field at fault, and chunks add up to what a whole answer says.
