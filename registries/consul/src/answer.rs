//! What an answer is worth: its status and headers, judged before its body is believed.
//!
//! [`Headers::read`] is called once per answer by whoever made the request; [`failure`] and [`Headers::doubt`] are
//! the whole table of statuses, and the watch acts on what they say.

use std::time::Duration;

/// Why an answer is no content at all. What was known stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestFailure {
    /// Not reached, no leader, no path: it passes.
    Transient,
    /// Too many requests or connections: ask less, or elsewhere.
    Overload,
    /// The token is refused.
    Auth,
    /// The request itself is refused; asking again changes nothing.
    Config,
    /// The server does not have this endpoint.
    Unsupported,
    /// An answer that is not Consul's: no index, not JSON, cut short.
    Broken,
}

/// Why an answer's content may be short. What it adds is taken, what it lacks stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doubt {
    /// The index went backwards.
    Reset,
    /// The server has lost its leader, or has not heard from it for too long.
    Stale,
    /// The token may not see all, and that is new or something is missing.
    Filtered,
}

/// What a status that is not 200 means; `None` for 200.
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

/// The headers that decide what an answer is worth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers {
    /// `X-Consul-Index`; `None` where it is missing or no number.
    pub index: Option<u64>,
    /// `X-Consul-KnownLeader`; the streaming backend does not know it, and leaves it out or says `false`.
    pub known_leader: Option<bool>,
    /// `X-Consul-LastContact`: how long the server has not heard from its leader.
    pub last_contact: Duration,
    /// `Age`: how old the agent's cached answer is.
    pub age: Duration,
    /// `X-Consul-Results-Filtered-By-ACLs`.
    pub filtered: bool,
    /// `X-Consul-Default-ACL-Policy: deny`.
    pub default_deny: bool,
    /// `X-Consul-Translate-Addresses`: the agent has chosen addresses already.
    pub translated: bool,
}

impl Headers {
    /// Reads them by name; the names are given in lower case.
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
    /// Whether the token may have hidden something. The header is masked for requests without a token, so that
    /// those count as filtered where the policy is to deny.
    #[must_use]
    pub const fn may_be_filtered(&self, has_token: bool) -> bool {
        self.filtered || (!has_token && self.default_deny)
    }
    /// Whether the server is known to lag behind.
    #[must_use]
    pub fn is_stale(&self, max_contact: Duration, max_age: Duration) -> bool {
        self.known_leader == Some(false) || self.last_contact > max_contact || self.age > max_age
    }
    /// What speaks against this answer's absences, given the highest index seen, whether this token has been
    /// filtered from its first answer on, and whether something that was known is missing.
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

/// What a watch knows when an answer comes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadHistory {
    /// The highest index since the last reset.
    pub floor: Option<u64>,
    /// Whether the first answer for this token was filtered; `None` before it.
    pub always_filtered: Option<bool>,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// Whether the answer lacks something that was known.
    pub loses: bool,
    /// The longest silence between a server and its leader that is believed.
    pub max_contact: Duration,
    /// The oldest cached answer that is believed.
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
    fn each_status_has_its_class() {
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
    fn an_index_is_at_least_one_and_junk_is_none() {
        for (text, want) in
            [("0", Some(1)), ("1", Some(1)), ("77", Some(77)), ("", None), ("-1", None), ("x", None)]
        {
            assert_eq!(mk_headers(&[("x-consul-index", text)]).index, want, "{text:?}");
        }
        assert_eq!(mk_headers(&[]).index, None);
    }

    #[test]
    fn a_leader_that_is_not_mentioned_is_not_a_lost_one() {
        let base = ("x-consul-index", "60");
        assert_eq!(mk_headers(&[base]).doubt(&mk_known()), None);
        let lost = ("x-consul-knownleader", "false");
        assert_eq!(mk_headers(&[base, lost]).doubt(&mk_known()), Some(Doubt::Stale));
        let streaming = mk_headers(&[base, lost, ("x-consul-query-backend", "streaming")]);
        assert_eq!((streaming.known_leader, streaming.doubt(&mk_known())), (None, None), "it never knows");
    }

    #[test]
    fn every_sign_of_a_short_answer_is_seen() {
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

    /// Every combination of signs, with and without a loss: one sign is enough, and no other takes it back.
    #[test]
    fn any_combination_of_signs_is_doubted_as_its_worst_is() {
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
                let streaming_says = |sign: &Sign| !(streams && sign.0.0 == "x-consul-knownleader");
                let counted = signs.iter().filter(|sign| streaming_says(sign)).map(|(_, doubt)| *doubt);
                let rank = |doubt: &Doubt| {
                    [Doubt::Filtered, Doubt::Stale, Doubt::Reset].iter().position(|d| d == doubt)
                };
                let known = ReadHistory { has_token: false, loses: true, ..mk_known() };
                assert_eq!(mk_headers(&pairs).doubt(&known), counted.max_by_key(rank), "{pairs:?}");
            }
        }
    }

    #[test]
    fn a_token_that_never_saw_all_is_doubted_only_when_something_is_missing() {
        let filtered = mk_headers(&[("x-consul-index", "51"), ("x-consul-results-filtered-by-acls", "true")]);
        let known = |loses| ReadHistory { always_filtered: Some(true), loses, ..mk_known() };
        assert_eq!(filtered.doubt(&known(false)), None);
        assert_eq!(filtered.doubt(&known(true)), Some(Doubt::Filtered));
    }

    #[test]
    fn without_a_token_a_policy_of_deny_counts_as_filtered() {
        let masked = mk_headers(&[("x-consul-index", "51"), ("x-consul-default-acl-policy", "deny")]);
        let known =
            |has_token| ReadHistory { has_token, always_filtered: Some(true), loses: true, ..mk_known() };
        assert_eq!(masked.doubt(&known(false)), Some(Doubt::Filtered));
        assert_eq!(masked.doubt(&known(true)), None);
    }
}
