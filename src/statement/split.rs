//! Cutting a script into statements at the semicolons that end them.
