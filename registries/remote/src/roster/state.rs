//! The transitions of one cluster: a function from state and claims to state and action.
//!
//! The roster calls it whenever the claims of a cluster or the state of their source changed. The result depends on its arguments only.
//! A cluster that the server holds loses its facts by a Leave and in no other way.

use tributary_model::Mono;

use super::digest::Digest;
use super::order::State;

/// What the server holds of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holding {
    /// Nothing.
    Nothing,
    /// Facts of a journal, without a connection.
    Journal,
    /// Facts and a connection with this credential.
    Connected(Digest),
    /// Facts of a connection that is paused.
    Stopped,
}

/// What the claims of a cluster ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// No claim; `is_proven` if a complete list or a delete of every source that counts proves it.
    Gone { is_proven: bool },
    /// The first claim has `remove`.
    Remove,
    /// Every claim is refused.
    Refused { is_paused: bool },
    /// The first claim is vetted.
    Vetted { digest: Digest, is_paused: bool },
}

/// Kind of order that a transition gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Join,
    Rotate,
    Pause,
    Leave,
}

/// Result of a transition.
pub(super) type Next = (State, Holding, Option<Step>);

/// Returns the next state of a cluster.
pub(super) fn next(now: Mono, state: State, holding: Holding, wish: Wish) -> Next {
    let same = (state, holding, None);
    if matches!(state, State::Leaving { is_withdrawn: true }) {
        return same;
    }
    match wish {
        Wish::Gone { is_proven } => gone(now, state, holding, is_proven),
        Wish::Remove => remove(state, holding),
        Wish::Refused { is_paused: true } | Wish::Vetted { is_paused: true, .. } => pause(holding, wish),
        Wish::Refused { .. } => (kept(holding), holding, None),
        Wish::Vetted { digest, .. } => connect(holding, digest),
    }
}

fn gone(now: Mono, state: State, holding: Holding, is_proven: bool) -> Next {
    let state = match state {
        _ if holding == Holding::Nothing => State::Absent,
        State::Grace { .. } | State::Leaving { .. } => state,
        _ if is_proven => State::Grace { since: now, is_long: false },
        _ => state,
    };
    (state, holding, None)
}

fn remove(state: State, holding: Holding) -> Next {
    match state {
        State::Leaving { .. } => (state, holding, None),
        _ if holding == Holding::Nothing => (State::Absent, holding, None),
        _ => leave(holding),
    }
}

/// Returns the transition of a Leave.
pub(super) const fn leave(holding: Holding) -> Next {
    (State::Leaving { is_withdrawn: false }, holding, Some(Step::Leave))
}

fn pause(holding: Holding, wish: Wish) -> Next {
    match (holding, wish) {
        (Holding::Connected(_), _) => (State::Paused, Holding::Stopped, Some(Step::Pause)),
        (Holding::Nothing, Wish::Refused { .. }) => (State::Refused, holding, None),
        _ => (State::Paused, holding, None),
    }
}

/// Returns the state of a cluster whose claims are all refused: it keeps what it has.
const fn kept(holding: Holding) -> State {
    match holding {
        Holding::Nothing => State::Refused,
        Holding::Journal => State::Restored,
        Holding::Connected(_) => State::Joined,
        Holding::Stopped => State::Paused,
    }
}

fn connect(holding: Holding, digest: Digest) -> Next {
    let step = match holding {
        Holding::Nothing | Holding::Journal => Some(Step::Join),
        Holding::Connected(own) if own == digest => None,
        Holding::Connected(_) | Holding::Stopped => Some(Step::Rotate),
    };
    (State::Joined, Holding::Connected(digest), step)
}
