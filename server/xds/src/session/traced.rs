//! What a session gives to the recorder of traces, if there is one.

use std::time::Duration;

use tributary_model::ObservedSince;
use tributary_proto::text::shorten;

use super::Session;
use super::ack::Sent;
use super::rejection::Carried;
use crate::answers::ResourceType;
use crate::client_events::ClientEvents;
use crate::push_recorder::{Answer, SentResponse};

impl Session {
    /// Returns the time at which building a response begins; `None` without a recorder.
    pub(super) fn traced_now(&self) -> Option<Duration> {
        self.env.recorder.as_ref().map(|recorder| recorder.now())
    }
    /// Records a response, if the round carries a change. One whose start is not known took no time.
    pub(super) fn trace_sent(
        &self,
        kind: ResourceType,
        (sent, carried): (&Sent, &Carried),
        bytes: usize,
        began: Option<Duration>,
    ) {
        let Some(recorder) = &self.env.recorder else { return };
        if self.round_observed == ObservedSince::default() {
            return;
        }
        let ended = recorder.now();
        recorder.sent(SentResponse {
            generation: sent.generation,
            base: self.base.as_ref().map(|base| base.catalog.generation),
            kind,
            nonce: sent.nonce.0,
            class: self.class.address(),
            client: self.client.id.clone(),
            bytes,
            resources: match carried {
                Carried::Whole(names) => names.as_ref().map(|names| names.len()),
                Carried::Resources(names) | Carried::Removals(names) => Some(names.len()),
            },
            began: began.unwrap_or(ended),
            ended,
        });
    }
    /// Records the answer to the response that was acknowledged last, or with an error rejected last.
    pub(super) fn trace_answer(&self, kind: ResourceType, error: Option<&str>) {
        let Some(recorder) = &self.env.recorder else { return };
        let acks = &self.kinds[kind].acks;
        let sent = match error {
            Some(_) => acks.nack().and_then(|nack| nack.sent.as_ref()),
            None => acks.acked().map(|(sent, _)| sent),
        };
        let Some(sent) = sent else { return };
        recorder.answered(Answer {
            generation: sent.generation,
            kind,
            nonce: sent.nonce.0,
            rejected: error.map(|text| shorten(text.trim_end(), ClientEvents::MOST_TEXT).into()),
            at: recorder.now(),
        });
    }
}
