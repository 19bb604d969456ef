//! Lists of the Secrets that are made again before a cluster is removed, and which of them are complete.
//!
//! The driver requests one when a cluster leaves because no Secret declares it any longer: a watch whose connection died unnoticed
//! does not show that the Secret is back. Requests have growing numbers. The watches mark from where on their lists answer a request, in
//! one order with their events, so that a list which was under way before the request is no answer.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tributary_kube_client::Event;
use tributary_remote::Secret;
use tributary_remote::roster::Source;

use super::followers::Batch;

/// Number of the last request, as the watches read it.
pub(super) type Wanted = watch::Receiver<u64>;

/// Lists of one source.
#[derive(Debug, Clone, Copy, Default)]
struct Lists {
    /// Request that lists answer which begin now.
    next: u64,
    /// Request that the list under way answers.
    begun: Option<u64>,
    /// Last request that a complete list answered.
    complete: u64,
}

/// Requests and their answers.
pub(super) struct Relists {
    wanted: watch::Sender<u64>,
    lists: BTreeMap<Source, Lists>,
}

impl Relists {
    /// Creates the requests to these sources; what is no source of Secrets is not asked.
    pub(super) fn of(sources: impl Iterator<Item = Source>) -> Self {
        let secrets = sources.filter(|source| matches!(source, Source::Secrets(_)));
        let lists = secrets.map(|source| (source, Lists::default())).collect();
        Self { wanted: watch::Sender::new(0), lists }
    }
    /// Returns the number of the last request, as it grows.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.subscribe()
    }
    /// Requests a list of every source and returns the number of the request.
    pub(super) fn request(&self) -> u64 {
        self.wanted.send_modify(|number| *number += 1);
        *self.wanted.borrow()
    }
    /// Notes what a batch answers. Call it before the batch is processed; ask [`Self::is_answered`] afterwards.
    pub(super) fn note(&mut self, batch: &Batch) {
        let (Batch::Answers(source, _) | Batch::Secrets(source, _)) = batch else { return };
        let Some(lists) = self.lists.get_mut(source) else { return };
        match batch {
            Batch::Answers(_, number) => lists.next = *number,
            Batch::Secrets(_, events) => events.iter().for_each(|event| lists.take(event)),
            Batch::Unconnected(_) | Batch::Files(_) => {}
        }
    }
    /// Returns whether every source was listed completely after this request.
    pub(super) fn is_answered(&self, request: u64) -> bool {
        self.lists.values().all(|lists| lists.complete >= request)
    }
}

impl Lists {
    fn take(&mut self, event: &Event<Secret>) {
        match event {
            Event::Init => self.begun = Some(self.next),
            Event::InitDone => self.complete = self.begun.take().unwrap_or(self.complete),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_remote::roster::SecretLabel;

    use super::*;

    const ISTIO: Source = Source::Secrets(SecretLabel::Istio);
    const OWN: Source = Source::Secrets(SecretLabel::Tributary);

    fn mk(sources: &[Source]) -> Relists {
        Relists::of(sources.iter().copied())
    }

    fn begins(relists: &mut Relists, source: Source) {
        relists.note(&Batch::Secrets(source, vec![Event::Init]));
    }

    fn ends(relists: &mut Relists, source: Source) {
        relists.note(&Batch::Secrets(source, vec![Event::InitDone]));
    }

    #[test]
    fn complete_list_of_every_label_that_began_after_the_request_answers_it() {
        let mut relists = mk(&[ISTIO, OWN, Source::Directory]);
        let request = relists.request();
        assert_eq!(*relists.wanted().borrow(), request);
        for source in [ISTIO, OWN] {
            assert!(!relists.is_answered(request), "{source:?} is not listed");
            relists.note(&Batch::Answers(source, request));
            begins(&mut relists, source);
            assert!(!relists.is_answered(request), "the list is not complete");
            ends(&mut relists, source);
        }
        assert!(relists.is_answered(request));
        let later = relists.request();
        assert!(!relists.is_answered(later) && relists.is_answered(request));
    }

    #[test]
    fn list_that_was_under_way_before_the_request_is_no_answer() {
        let mut relists = mk(&[OWN]);
        begins(&mut relists, OWN);
        let request = relists.request();
        relists.note(&Batch::Answers(OWN, request));
        ends(&mut relists, OWN);
        assert!(!relists.is_answered(request));
        begins(&mut relists, OWN);
        // it broke off; the next one answers too
        begins(&mut relists, OWN);
        ends(&mut relists, OWN);
        assert!(relists.is_answered(request));
    }

    #[test]
    fn without_secrets_no_list_is_awaited() {
        let relists = mk(&[Source::Directory]);
        assert!(relists.is_answered(relists.request()));
    }
}
