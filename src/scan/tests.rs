//! Scans of real files through SQL, against what a loop over the rows says.

mod damage;
mod evolution;
mod fixture;
mod oracle;
mod planning;
mod reads;
mod records;
mod row_groups;
mod several_files;
mod trust;
