//! What a transaction had to be carried over, as numbers and in words.

use super::*;
use crate::txn::rebase::Carry;
use std::collections::BTreeSet;

#[test]
fn each_part_has_its_words() {
    let fragments = BTreeSet::from([FragmentId(1)]);
    for (carry, words) in [
        (Carry::default(), ""),
        (Carry { vectors_united: fragments.clone(), ..Carry::default() }, "deletion vectors united"),
        (Carry { rows_already_deleted: 1, ..Carry::default() }, "rows already deleted"),
        (Carry { rows_followed: 1, ..Carry::default() }, "our rows followed through their map"),
        (Carry { rows_deleted_before_our_move: 1, ..Carry::default() }, "their deletions carried through our map"),
        (Carry { columns_moved: fragments.clone(), ..Carry::default() }, "our columns gathered where their rewrite moved the rows"),
        (Carry { columns_taken_over: fragments.clone(), ..Carry::default() }, "their columns gathered for our rewrite"),
        (Carry { rewrites_given_up: BTreeSet::from([0]), ..Carry::default() }, "our rewrite given up"),
        (Carry { thinned: fragments.clone(), ..Carry::default() }, "fewer rows than we read"),
        (Carry { rows_already_deleted: 2, thinned: fragments, ..Carry::default() }, "rows already deleted, fewer rows than we read"),
    ] {
        assert_eq!((carry.to_string().as_str(), carry.is_empty()), (words, words.is_empty()));
    }
}
