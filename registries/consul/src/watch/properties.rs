//! Whatever a source answers, only confirmed absences are removed; and once its answers are true, they are what is
//! known.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tributary_model::Mono;

use super::{Action, Confidence, Event, Follow, Mode, Policy, ReadReason, Ticket, TokenCheck, Watch};
use crate::answer::{Headers, RequestFailure};

type Content = BTreeMap<u8, u8>;

/// Behaviour of a source.
#[derive(Debug, Clone)]
enum Move {
    Answer(Headers, Content),
    Fail(RequestFailure),
    Token(bool),
    Switch(bool),
    Ask,
    ReadNow(ReadReason),
    SetFollow(Follow),
    Late(Headers, Content),
}

/// Core in its strictest form: it removes only what the leader confirmed, and requests confirmation of what is
/// missing.
struct World {
    watch: Watch<Content>,
    follow: Follow,
    now: Mono,
    random: f64,
    /// What clients are served.
    served: Content,
    /// Whether something is served that the last report lacked.
    holds: bool,
    /// Open read or token check, with its mode.
    open: Option<(Ticket, Option<Mode>)>,
    /// Number of removals.
    removals: usize,
}

impl World {
    fn new(random: f64) -> Self {
        let watch = Watch::new(Policy::default(), Follow::Poll);
        let mut this = Self {
            watch,
            follow: Follow::Poll,
            now: Mono(0),
            random,
            served: Content::new(),
            holds: false,
            open: None,
            removals: 0,
        };
        this.event(Event::Started);
        this
    }
    fn event(&mut self, event: Event<Content>) {
        for action in self.watch.step(self.now, self.random, event) {
            self.act(action);
        }
    }
    fn act(&mut self, action: Action<Content>) {
        match action {
            Action::Report(content, Confidence::Confirmed) => {
                self.removals += usize::from(self.served.keys().any(|key| !content.contains_key(key)));
                (self.served, self.holds) = (content, false);
            }
            Action::Report(content, Confidence::Plausible | Confidence::Partial(_)) => {
                self.holds = self.served.keys().any(|key| !content.contains_key(key));
                self.served.extend(content);
            }
            Action::Read(read) => {
                assert!(self.open.is_none(), "two reads at once");
                self.now = self.now.plus(read.after);
                self.open = Some((read.ticket, Some(read.mode)));
            }
            Action::CheckToken(ticket) => self.open = Some((ticket, None)),
            Action::Cancel(ticket) => {
                assert_eq!(self.open.take().map(|(open, _)| open), Some(ticket), "cancels what is not open");
            }
            Action::RereadToken | Action::Ease | Action::State(_) => {}
        }
    }
    fn play(&mut self, one: Move) {
        let Some((ticket, mode)) = self.open else {
            assert_eq!(self.follow, Follow::Demand, "a loop that polls always waits for something");
            return self.play_idle(one);
        };
        match (one, mode) {
            (Move::Answer(headers, content), Some(_)) => {
                self.close(Event::Answered(ticket, headers, Some(content)))
            }
            (Move::Fail(failure), Some(_)) => self.close(Event::Failed(ticket, failure)),
            (Move::Token(same), None) => {
                let check = if same { TokenCheck::Same } else { TokenCheck::Changed };
                self.close(Event::TokenChecked(ticket, check));
            }
            (Move::Late(headers, content), _) => {
                self.event(Event::Answered(Ticket(ticket.0 - 1), headers, Some(content)));
            }
            (other @ (Move::Switch(_) | Move::Ask | Move::ReadNow(_) | Move::SetFollow(_)), _) => {
                self.play_idle(other)
            }
            (Move::Answer(..) | Move::Fail(_) | Move::Token(_), _) => {}
        }
    }
    /// Plays a move that needs no read under way.
    fn play_idle(&mut self, one: Move) {
        match one {
            Move::Switch(token) => self.event(Event::Switched { token }),
            Move::Ask => self.event(Event::ConfirmRequested),
            Move::ReadNow(reason) => self.event(Event::ReadNow(reason)),
            Move::SetFollow(follow) => {
                self.follow = follow;
                self.event(Event::Follow(follow));
            }
            Move::Answer(..) | Move::Fail(_) | Move::Token(_) | Move::Late(..) => {}
        }
    }
    fn close(&mut self, event: Event<Content>) {
        self.open = None;
        self.event(event);
    }
    /// Returns whether the leader answered without any sign of doubt, computed without the watch's code.
    fn is_proof(&self, headers: &Headers, floor: u64) -> bool {
        let leader = matches!(self.open, Some((_, Some(Mode::Leader)))) && headers.known_leader == Some(true);
        let fresh = headers.last_contact.as_secs() <= 10 && headers.age.is_zero();
        leader && fresh && !headers.filtered && headers.index.is_some_and(|index| index >= floor)
    }
}

fn contents() -> impl Strategy<Value = Content> {
    prop::collection::btree_map(0_u8..6, 0_u8..3, 0..6)
}

fn headers() -> impl Strategy<Value = Headers> {
    let index = prop_oneof![6 => (1_u64..40).prop_map(Some), 1 => Just(None)];
    let leader = prop_oneof![5 => Just(Some(true)), 1 => Just(Some(false)), 2 => Just(None)];
    let contact = prop_oneof![4 => Just(0_u64), 1 => Just(60)];
    let age = prop_oneof![5 => Just(0_u64), 1 => Just(3)];
    (index, leader, contact, age, prop::bool::weighted(0.2)).prop_map(
        |(index, known_leader, contact, age, filtered)| Headers {
            index,
            known_leader,
            filtered,
            last_contact: std::time::Duration::from_secs(contact),
            age: std::time::Duration::from_secs(age),
            ..Headers::default()
        },
    )
}

fn moves() -> impl Strategy<Value = Move> {
    use RequestFailure::{Auth, Broken, Config, Overload, Transient, Unsupported};
    let failure = prop::sample::select(vec![Auth, Broken, Config, Overload, Transient, Unsupported]);
    prop_oneof![
        8 => (headers(), contents()).prop_map(|(headers, content)| Move::Answer(headers, content)),
        2 => failure.prop_map(Move::Fail),
        3 => any::<bool>().prop_map(Move::Token),
        1 => any::<bool>().prop_map(Move::Switch),
        2 => Just(Move::Ask),
        1 => prop::sample::select(vec![ReadReason::Recheck, ReadReason::Changed]).prop_map(Move::ReadNow),
        1 => prop::sample::select(vec![Follow::Poll, Follow::Demand]).prop_map(Move::SetFollow),
        1 => (headers(), contents()).prop_map(|(headers, content)| Move::Late(headers, content)),
    ]
}

proptest! {
    #[test]
    fn only_confirmed_absences_are_removed(
        random in 0.0..1.0_f64,
        moves in prop::collection::vec(moves(), 1..60),
    ) {
        let mut world = World::new(random);
        for one in moves {
            let floor = world.watch.floor.unwrap_or(0);
            let proof = match &one {
                Move::Answer(headers, _) => world.is_proof(headers, floor),
                Move::Token(same) => *same,
                _ => false,
            };
            let (served, removals) = (world.served.clone(), world.removals);
            world.play(one.clone());
            if !proof {
                prop_assert_eq!(world.removals, removals, "{:?} took something away", one);
                prop_assert!(served.keys().all(|key| world.served.contains_key(key)));
            }
        }
    }

    #[test]
    fn true_answers_lead_to_the_true_state(
        random in 0.0..1.0_f64,
        moves in prop::collection::vec(moves(), 0..40),
        truth in contents(),
        index in 1_u64..60,
    ) {
        let mut world = World::new(random);
        for one in moves {
            world.play(one);
        }
        let headers = Headers { index: Some(index), known_leader: Some(true), ..Headers::default() };
        for _ in 0..12 {
            world.play(Move::ReadNow(ReadReason::Recheck));
            world.play(Move::Token(true));
            world.play(Move::Answer(headers.clone(), truth.clone()));
            if world.holds {
                world.play(Move::Ask);
            }
        }
        prop_assert_eq!(&world.served, &truth);
    }
}
