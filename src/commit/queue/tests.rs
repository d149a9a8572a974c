//! The queue by itself: how many are taken along, and who is left.

use super::*;
use crate::commit::staged::Staged;
use crate::txn::action::{Action, ReserveFragmentIds};
use crate::txn::composite::{Step, Transaction, TransactionId};

fn ticket(id: u128, actions: usize) -> Arc<Ticket> {
    let actions = vec![Action::ReserveFragmentIds(ReserveFragmentIds { count: 1 }); actions];
    let transaction = Transaction { id: TransactionId(id), read_version: 1, steps: vec![Step { actions, ..Step::default() }] };
    let staged = Staged {
        transaction,
        maps: vec![],
        objects: vec![],
        fields_read: Default::default(),
        reads: vec![],
        key_reads: vec![],
        gathering: None,
    };
    Ticket::new(Arc::new(staged), 0, &Arc::default()).0
}

fn ids(tickets: &[Arc<Ticket>]) -> Vec<u128> {
    tickets.iter().map(|ticket| ticket.id().0).collect()
}

fn queue(actions: &[usize]) -> Queue {
    let queue = Queue::default();
    queue.waiting().extend(actions.iter().enumerate().map(|(id, actions)| ticket(id as u128, *actions)));
    queue
}

#[test]
fn a_group_is_bounded_by_its_members_and_by_their_actions() {
    let queue_of_many = queue(&[1; MAX_GROUP + 6]);
    assert_eq!(ids(&queue_of_many.take()), (0..MAX_GROUP as u128).collect::<Vec<_>>());
    assert_eq!(queue_of_many.take().len(), 6);
    assert_eq!(queue_of_many.take().len(), 0);
    let large = queue(&[MAX_GROUP_ACTIONS * 2, 1, MAX_GROUP_ACTIONS - 1, 1, 0]);
    assert_eq!(ids(&large.take()), [0]);
    assert_eq!(ids(&large.take()), [1, 2]);
    assert_eq!(ids(&large.take()), [3, 4]);
}

#[tokio::test]
async fn a_leader_that_stops_puts_the_others_back_in_front() {
    let queue = queue(&[1; 5]);
    let mut tickets = queue.take();
    queue.waiting().push_back(ticket(9, 1));
    let own = tickets.remove(1);
    tickets.insert(1, own.clone());
    tickets[2].answer("t", Err(Error::internal("x")));
    drop(Lead { queue: &queue, tickets, own: &own, turn: queue.turn.lock().await });
    assert_eq!(ids(&queue.take()), [0, 3, 4, 9]);
    assert!(queue.turn.try_lock().is_ok());
}
