//! State beside facts: lists, problems, held removals, ended scopes and the registry's own record.
//!
//! The codec calls it.

use std::sync::Arc;

use tributary_model::{
    Evidence, Fingerprint, HoldRecord, ListRecord, Mono, ObjectId, ObjectRef, Position, Problem,
    ProblemRecord,
};

use super::common::{put_evidence, read_evidence};
use super::decode::Decoder;
use super::encode::Encoder;
use super::entry::Header;
use super::service::{put_note, read_note};
use super::wire::Fields;
use super::{Fault, codes};

pub(crate) fn put_header(enc: &mut Encoder, value: &Header) {
    enc.flag(1, value.whole);
    enc.opt_text(2, value.identity.as_ref().map(Fingerprint::as_str));
}

pub(crate) fn read_header(d: &mut Decoder, mut fields: Fields<'_>) -> Result<Header, Fault> {
    let mut out = Header::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.whole = value.flag()?,
            2 => out.identity = Some(d.name(value, |text| Fingerprint::new(text))?),
            _ => {}
        }
    }
    Ok(out)
}

pub(crate) fn put_list(enc: &mut Encoder, value: &ListRecord) {
    enc.flag(1, value.required);
    enc.opt_int(2, value.result.map(codes::list_result));
    enc.int(3, value.count);
    if let Some(confirmed) = value.confirmed {
        enc.time(4, confirmed);
    }
}

pub(crate) fn read_list(d: &Decoder, mut fields: Fields<'_>) -> Result<ListRecord, Fault> {
    let (mut required, mut result, mut count, mut confirmed) = (false, None, None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => required = value.flag()?,
            2 => result = Some(codes::read_list_result(value.int()?)?),
            3 => count = Some(value.int()?),
            4 => confirmed = Some(d.time(value)?),
            _ => {}
        }
    }
    Ok(ListRecord { required, result, count: count.ok_or(Fault::Missing("count"))?, confirmed })
}

pub(crate) fn put_problem(enc: &mut Encoder, value: &ProblemRecord) {
    enc.text(1, &value.object.position.text());
    enc.nest(2, |enc| put_note(enc, value.problem.code, &value.problem.message));
    enc.time(3, value.since);
}

pub(crate) fn read_problem(
    d: &mut Decoder,
    object: &ObjectId,
    mut fields: Fields<'_>,
) -> Result<ProblemRecord, Fault> {
    let (mut place, mut problem, mut since) = (Position::default(), None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => place = Position::new(d.fresh(value)?),
            2 => {
                let (code, message) = read_note(d, value)?;
                problem = Some(Problem { code, message });
            }
            3 => since = Some(d.time(value)?),
            _ => {}
        }
    }
    Ok(ProblemRecord {
        object: ObjectRef { id: object.clone(), position: place },
        problem: problem.ok_or(Fault::Missing("problem"))?,
        since: since.ok_or(Fault::Missing("time"))?,
    })
}

pub(crate) fn put_hold(enc: &mut Encoder, value: &HoldRecord) {
    enc.time(1, value.since);
    enc.text(2, &value.reason);
}

pub(crate) fn read_hold(d: &mut Decoder, mut fields: Fields<'_>) -> Result<HoldRecord, Fault> {
    let (mut since, mut reason) = (None, Arc::default());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => since = Some(d.time(value)?),
            2 => reason = d.fresh(value)?,
            _ => {}
        }
    }
    Ok(HoldRecord { since: since.ok_or(Fault::Missing("time"))?, reason })
}

pub(crate) fn put_ended(enc: &mut Encoder, evidence: &Evidence, at: Mono) {
    put_evidence(enc, 1, evidence);
    enc.time(2, at);
}

pub(crate) fn read_ended(d: &mut Decoder, mut fields: Fields<'_>) -> Result<(Evidence, Mono), Fault> {
    let (mut evidence, mut at) = (None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => evidence = Some(read_evidence(d, value)?),
            2 => at = Some(d.time(value)?),
            _ => {}
        }
    }
    Ok((evidence.ok_or(Fault::Missing("evidence"))?, at.ok_or(Fault::Missing("time"))?))
}
