//! References: an id that exists, or a token for one that the transaction is about to create.
//!
//! Ids are minted when a transaction is applied, against whichever version it lands on, so moving it to a newer version
//! rewrites nothing. Each kind of id has its own tokens.
//!
//! Always holds: a token is bound once and used only after it is bound; tokens of two transactions are never equal.

use crate::table::fragment::BaseId;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use std::collections::BTreeMap;

/// The name of an id that does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// An id, or a token for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ref<Id> {
    /// An id of a committed version.
    Committed(Id),
    /// An id that this transaction creates.
    Local(Token),
}

/// A fragment, existing or to come.
pub type FragmentRef = Ref<FragmentId>;
/// A field, existing or to come.
pub type FieldRef = Ref<FieldId>;
/// A base, existing or to come.
pub type BaseRef = Ref<BaseId>;

impl<Id> Ref<Id> {
    /// The id, if it exists already.
    pub fn committed(self) -> Option<Id> {
        match self {
            Ref::Committed(id) => Some(id),
            Ref::Local(_) => None,
        }
    }
}

/// The ids that a version gave to a transaction's tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Minted {
    /// Fragments by token.
    pub fragments: BTreeMap<Token, FragmentId>,
    /// Fields by token.
    pub fields: BTreeMap<Token, FieldId>,
    /// Bases by token.
    pub bases: BTreeMap<Token, BaseId>,
}

impl Minted {
    /// The id of a fragment; `None` if its token is not bound.
    pub fn fragment(&self, fragment: FragmentRef) -> Option<FragmentId> {
        match fragment {
            Ref::Committed(id) => Some(id),
            Ref::Local(token) => self.fragments.get(&token).copied(),
        }
    }

    /// The id of a field; `None` if its token is not bound.
    pub fn field(&self, field: FieldRef) -> Option<FieldId> {
        match field {
            Ref::Committed(id) => Some(id),
            Ref::Local(token) => self.fields.get(&token).copied(),
        }
    }

    /// The id of a base; `None` if its token is not bound.
    pub fn base(&self, base: BaseRef) -> Option<BaseId> {
        match base {
            Ref::Committed(id) => Some(id),
            Ref::Local(token) => self.bases.get(&token).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_each_kind_have_ids_of_their_own() {
        let minted = Minted {
            fragments: [(Token(0), FragmentId(3))].into(),
            fields: [(Token(0), FieldId(4))].into(),
            bases: [(Token(0), BaseId(5))].into(),
        };
        let (bound, unbound) = (Token(0), Token(1));
        assert_eq!([minted.fragment(Ref::Local(bound)), minted.fragment(Ref::Local(unbound))], [Some(FragmentId(3)), None]);
        assert_eq!([minted.field(Ref::Local(bound)), minted.field(Ref::Local(unbound))], [Some(FieldId(4)), None]);
        assert_eq!([minted.base(Ref::Local(bound)), minted.base(Ref::Local(unbound))], [Some(BaseId(5)), None]);
        assert_eq!(minted.base(Ref::Committed(BaseId(9))), Some(BaseId(9)));
    }
}
