//! Judges an answer by its status and headers, before its body is used.
//!
//! The client calls [`failure`] and [`Headers::read`] once per answer; the watch calls [`Headers::doubt`] and acts on
//! the result. Pure: no I/O, no clock.

use std::time::Duration;

/// Reason why a request gave no content. The last known content stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestFailure {
    /// Temporary: server not reached, no leader, or no path to the datacenter.
    Transient,
    /// Too many requests or connections: send fewer, or use another server.
    Overload,
    /// The server refuses the token.
    Auth,
    /// The server refuses the request itself; repeating it changes nothing.
    Config,
    /// The server does not have this endpoint.
    Unsupported,
    /// The answer exceeds a limit.
    TooLarge,
    /// The answer is not Consul's: no index, not JSON, or truncated.
    Broken,
}

impl RequestFailure {
    /// Returns whether the failure concerns the server rather than the request.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        matches!(self, Self::Transient | Self::Overload)
    }
}

/// Reason why an answer may be incomplete. Its additions apply; what it lacks stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doubt {
    /// The index went backwards.
    Reset,
    /// The server has lost its leader, or its last contact with the leader is too old.
    Stale,
    /// The token may not see everything, and either that is new or something known is missing.
    Filtered,
}

/// Returns the failure that a status code means; `None` for 200.
#[must_use]
pub const fn failure(status: u16) -> Option<RequestFailure> {
    match status {
        200 => None,
        401 | 403 => Some(RequestFailure::Auth),
        429 | 503 => Some(RequestFailure::Overload),
        400 => Some(RequestFailure::Config),
        404 | 405 | 501 => Some(RequestFailure::Unsupported),
        500..=599 => Some(RequestFailure::Transient),
        _ => Some(RequestFailure::Broken),
    }
}

/// Headers that decide how far an answer is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers {
    /// `X-Consul-Index`; `None` if it is missing or not a number.
    pub index: Option<u64>,
    /// `X-Consul-KnownLeader`; `None` from the streaming backend, which omits the header or sends `false`.
    pub known_leader: Option<bool>,
    /// `X-Consul-LastContact`: age of the server's last contact with its leader.
    pub last_contact: Duration,
    /// `Age`: age of the agent's cached answer.
    pub age: Duration,
    /// `X-Consul-Results-Filtered-By-ACLs`.
    pub filtered: bool,
    /// `X-Consul-Default-ACL-Policy: deny`.
    pub default_deny: bool,
    /// `X-Consul-Translate-Addresses`: the agent has already selected addresses.
    pub translated: bool,
}

impl Headers {
    /// Reads the headers; `header` looks one up by its lower-case name.
    pub fn read<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Self {
        let flag = |name: &str| header(name).and_then(truth);
        let number = |name: &str| header(name).and_then(|text| text.trim().parse::<u64>().ok());
        let streams = header("x-consul-query-backend").is_some_and(|backend| backend.trim() == "streaming");
        Self {
            index: number("x-consul-index").map(|index| index.max(1)),
            known_leader: flag("x-consul-knownleader").filter(|known| *known || !streams),
            last_contact: Duration::from_millis(number("x-consul-lastcontact").unwrap_or(0)),
            age: Duration::from_secs(number("age").unwrap_or(0)),
            filtered: flag("x-consul-results-filtered-by-acls") == Some(true),
            default_deny: header("x-consul-default-acl-policy").is_some_and(|p| p.trim() == "deny"),
            translated: flag("x-consul-translate-addresses") == Some(true),
        }
    }
    /// Returns whether the token may have hidden something. Consul masks the header for requests without a token, so
    /// under a default policy of deny those count as filtered.
    #[must_use]
    pub const fn may_be_filtered(&self, has_token: bool) -> bool {
        self.filtered || (!has_token && self.default_deny)
    }
    /// Returns whether the server lags behind its leader by more than the limits.
    #[must_use]
    pub fn is_stale(&self, max_contact: Duration, max_age: Duration) -> bool {
        self.known_leader == Some(false) || self.last_contact > max_contact || self.age > max_age
    }
    /// Returns the reason to distrust what this answer lacks, given the read history; `None` if there is no such
    /// reason.
    #[must_use]
    pub fn doubt(&self, known: &ReadHistory) -> Option<Doubt> {
        if known.floor.zip(self.index).is_some_and(|(floor, index)| index < floor) {
            return Some(Doubt::Reset);
        }
        if self.is_stale(known.max_contact, known.max_age) {
            return Some(Doubt::Stale);
        }
        let flipped = known.always_filtered == Some(false);
        let filtered = self.may_be_filtered(known.has_token) && (flipped || known.loses);
        filtered.then_some(Doubt::Filtered)
    }
}

/// State that a watch keeps across answers, as input of [`Headers::doubt`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadHistory {
    /// The highest index since the last reset.
    pub floor: Option<u64>,
    /// Whether the first answer for this token was filtered; `None` before the first answer.
    pub always_filtered: Option<bool>,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// Whether the answer lacks something that an earlier answer had.
    pub loses: bool,
    /// Longest accepted time since the server's last contact with its leader.
    pub max_contact: Duration,
    /// Oldest accepted cached answer.
    pub max_age: Duration,
}

fn truth(text: &str) -> Option<bool> {
    match text.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(pairs: &[(&str, &'static str)]) -> Headers {
        Headers::read(|name| pairs.iter().find(|(own, _)| *own == name).map(|(_, value)| *value))
    }

    fn mk_known() -> ReadHistory {
        let max_contact = Duration::from_secs(10);
        ReadHistory {
            floor: Some(50),
            always_filtered: Some(false),
            has_token: true,
            max_contact,
            ..ReadHistory::default()
        }
    }

    #[test]
    fn each_status_has_its_failure() {
        use RequestFailure::{Auth, Broken, Config, Overload, Transient, Unsupported};
        assert_eq!(failure(200), None);
        let classes = [
            (401, Auth),
            (403, Auth),
            (429, Overload),
            (503, Overload),
            (400, Config),
            (404, Unsupported),
            (405, Unsupported),
            (501, Unsupported),
            (500, Transient),
            (502, Transient),
            (504, Transient),
            (204, Broken),
            (302, Broken),
        ];
        for (status, class) in classes {
            assert_eq!(failure(status), Some(class), "{status}");
        }
    }

    #[test]
    fn index_is_at_least_one_and_invalid_text_is_absent() {
        for (text, want) in
            [("0", Some(1)), ("1", Some(1)), ("77", Some(77)), ("", None), ("-1", None), ("x", None)]
        {
            assert_eq!(mk_headers(&[("x-consul-index", text)]).index, want, "{text:?}");
        }
        assert_eq!(mk_headers(&[]).index, None);
    }

    #[test]
    fn absent_leader_header_is_no_lost_leader() {
        let base = ("x-consul-index", "60");
        assert_eq!(mk_headers(&[base]).doubt(&mk_known()), None);
        let lost = ("x-consul-knownleader", "false");
        assert_eq!(mk_headers(&[base, lost]).doubt(&mk_known()), Some(Doubt::Stale));
        let streaming = mk_headers(&[base, lost, ("x-consul-query-backend", "streaming")]);
        assert_eq!((streaming.known_leader, streaming.doubt(&mk_known())), (None, None), "it never knows");
    }

    #[test]
    fn every_sign_of_an_incomplete_answer_is_detected() {
        type Case<'a> = (&'a [(&'a str, &'static str)], bool, Option<Doubt>);
        let cases: [Case<'_>; 9] = [
            (&[("x-consul-index", "49")], false, Some(Doubt::Reset)),
            (&[("x-consul-index", "50")], false, None),
            (&[("x-consul-index", "51")], true, None),
            (&[("x-consul-index", "51"), ("x-consul-lastcontact", "10000")], true, None),
            (&[("x-consul-index", "51"), ("x-consul-lastcontact", "10001")], true, Some(Doubt::Stale)),
            (&[("x-consul-index", "51"), ("age", "1")], false, Some(Doubt::Stale)),
            (
                &[("x-consul-index", "51"), ("x-consul-results-filtered-by-acls", "true")],
                false,
                Some(Doubt::Filtered),
            ),
            (&[("x-consul-index", "51"), ("x-consul-default-acl-policy", "deny")], true, None),
            (&[("x-consul-index", "49"), ("age", "1")], false, Some(Doubt::Reset)),
        ];
        for (pairs, loses, want) in cases {
            assert_eq!(
                mk_headers(pairs).doubt(&ReadHistory { loses, ..mk_known() }),
                want,
                "{pairs:?} {loses}"
            );
        }
    }

    /// Tests every combination of signs, with and without a loss: one sign is enough, and no other sign cancels it.
    #[test]
    fn combined_signs_give_the_worst_doubt() {
        type Sign = ((&'static str, &'static str), Doubt);
        const SIGNS: [Sign; 6] = [
            (("x-consul-index", "49"), Doubt::Reset),
            (("x-consul-knownleader", "false"), Doubt::Stale),
            (("x-consul-lastcontact", "10001"), Doubt::Stale),
            (("age", "3"), Doubt::Stale),
            (("x-consul-results-filtered-by-acls", "true"), Doubt::Filtered),
            (("x-consul-default-acl-policy", "deny"), Doubt::Filtered),
        ];
        for chosen in 0_u32..1 << SIGNS.len() {
            let signs: Vec<&Sign> =
                (0..).zip(&SIGNS).filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, sign)| sign).collect();
            let mut pairs: Vec<_> = signs.iter().map(|(pair, _)| *pair).collect();
            pairs.extend([("x-consul-index", "51"), ("x-consul-translate-addresses", "true")]);
            for streams in [false, true] {
                pairs.extend(streams.then_some(("x-consul-query-backend", "streaming")));
                let counts = |sign: &Sign| !(streams && sign.0.0 == "x-consul-knownleader");
                let counted = signs.iter().filter(|sign| counts(sign)).map(|(_, doubt)| *doubt);
                let rank = |doubt: &Doubt| {
                    [Doubt::Filtered, Doubt::Stale, Doubt::Reset].iter().position(|d| d == doubt)
                };
                let known = ReadHistory { has_token: false, loses: true, ..mk_known() };
                assert_eq!(mk_headers(&pairs).doubt(&known), counted.max_by_key(rank), "{pairs:?}");
            }
        }
    }

    #[test]
    fn always_filtered_token_is_doubted_only_for_losses() {
        let filtered = mk_headers(&[("x-consul-index", "51"), ("x-consul-results-filtered-by-acls", "true")]);
        let known = |loses| ReadHistory { always_filtered: Some(true), loses, ..mk_known() };
        assert_eq!(filtered.doubt(&known(false)), None);
        assert_eq!(filtered.doubt(&known(true)), Some(Doubt::Filtered));
    }

    #[test]
    fn without_token_default_deny_counts_as_filtered() {
        let masked = mk_headers(&[("x-consul-index", "51"), ("x-consul-default-acl-policy", "deny")]);
        let known =
            |has_token| ReadHistory { has_token, always_filtered: Some(true), loses: true, ..mk_known() };
        assert_eq!(masked.doubt(&known(false)), Some(Doubt::Filtered));
        assert_eq!(masked.doubt(&known(true)), None);
    }
}
