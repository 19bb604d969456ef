//! Resources of one type that a client rejected, until each is accepted in a later version or removed.
//!
//! [`super::Acks`] owns them and reports each answer; `get clients`, `get resources` and `explain` read them. A name
//! belongs to the last rejection that covers it only, so that all lists together are no longer than the rejected
//! responses. A clone shares the lists.

use std::sync::Arc;

use tributary_proto::limits::MAX_SHOWN_ERROR;
use tributary_proto::text::{one_line, shorten};

use super::ack::Nack;
use crate::answers::ResourceType;
use crate::encode::tls::SecretName;

/// Names in order.
type Sorted = Arc<[Arc<str>]>;

/// What a response carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Carried {
    /// All subscribed resources; their names, if there are few.
    Whole(Option<Sorted>),
    /// These resources.
    Resources(Sorted),
    /// Removals of these names.
    Removals(Sorted),
}

impl Carried {
    /// The names, if they are recorded.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        match self {
            Self::Whole(names) => names.as_deref().unwrap_or_default(),
            Self::Resources(names) | Self::Removals(names) => names,
        }
    }
    /// Whether the response may carry the name.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Whole(None) => true,
            Self::Whole(Some(names)) | Self::Resources(names) | Self::Removals(names) => {
                contains(names, name)
            }
        }
    }
}

/// Puts names in order.
pub(crate) fn sorted(names: impl Iterator<Item = Arc<str>>) -> Sorted {
    let mut names: Vec<Arc<str>> = names.collect();
    names.sort_unstable();
    names.into()
}

fn contains(names: &[Arc<str>], name: &str) -> bool {
    names.binary_search_by(|n| (**n).cmp(name)).is_ok()
}

/// What a client rejected with one response.
#[derive(Debug, Clone)]
enum Scope {
    /// Resources. A client rejects a whole response; if its text names some of the resources in it, these are the
    /// rejected ones, and the others are unacknowledged. Else all of them are suspected: Envoy takes the route tables of a
    /// response one by one, and its text does not name those that it rejected.
    Names { rejected: Sorted, others: Sorted, are_named: bool },
    /// Nothing that the client could hold, such as a removal. Ends with the next acknowledgement.
    Nothing,
    /// A response that is no longer recorded: any resource. Ends with the next acknowledgement.
    Unknown,
}

#[derive(Debug, Clone)]
struct Rejection {
    nack: Nack,
    scope: Scope,
}

impl Rejection {
    /// Returns the rejection of those resources that are still rejected.
    fn keep(&self, is_kept: impl Fn(&str) -> bool) -> Option<Self> {
        let Scope::Names { rejected, others, are_named } = &self.scope else { return Some(self.clone()) };
        let only = |names: &Sorted| -> Sorted {
            if names.iter().all(|name| is_kept(name)) {
                return Arc::clone(names);
            }
            names.iter().filter(|name| is_kept(name)).cloned().collect()
        };
        let (rejected, others) = (only(rejected), only(others));
        let (nack, are_named) = (self.nack.clone(), *are_named);
        (!rejected.is_empty()).then_some(Self { nack, scope: Scope::Names { rejected, others, are_named } })
    }
    /// Returns what it still means of the resources that an answer ended though the client did not read them again; `now` are the
    /// rejections after it. Of suspected ones the client may name the culprit later.
    fn restored(&self, now: &Rejections) -> Option<Self> {
        let Scope::Names { rejected, are_named, .. } = &self.scope else { return None };
        let is_certain = *are_named || rejected.len() == 1;
        if !is_certain && rejected.iter().any(|name| now.rejects(name)) {
            return None;
        }
        let kept = self.keep(|name| contains(rejected, name) && !now.rejects(name))?;
        let Scope::Names { rejected, are_named, .. } = kept.scope else { return None };
        let scope = Scope::Names { rejected, others: Sorted::default(), are_named };
        Some(Self { nack: kept.nack, scope })
    }
    /// Returns it without unacknowledged resources that another one covers.
    fn without_others(&self, is_covered: impl Fn(&str) -> bool) -> Self {
        let Scope::Names { rejected, others, are_named } = &self.scope else { return self.clone() };
        let others = others.iter().filter(|name| !is_covered(name)).cloned().collect();
        let scope = Scope::Names { rejected: Arc::clone(rejected), others, are_named: *are_named };
        Self { nack: self.nack.clone(), scope }
    }
    fn rejects(&self, name: &str) -> bool {
        matches!(&self.scope, Scope::Names { rejected, .. } if contains(rejected, name))
    }
    /// Resources of which the client does not name the culprit.
    fn suspected(&self) -> &[Arc<str>] {
        match &self.scope {
            Scope::Names { rejected, are_named: false, .. } => rejected,
            Scope::Names { .. } | Scope::Nothing | Scope::Unknown => &[],
        }
    }
    const fn is_of_names(&self) -> bool {
        matches!(self.scope, Scope::Names { .. })
    }
}

/// What the rejections mean for one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Unaffected,
    /// It was in a response that the client rejected because of other resources.
    Unacknowledged,
    /// It was rejected, with this text.
    Rejected(Arc<str>),
    /// It or another of so many resources of its response was rejected, with this text, which names none.
    Suspected(Arc<str>, usize),
}

impl Verdict {
    /// Returns the text of a rejection, and whether it may be about another resource. Clients take route tables and assignments
    /// one by one; of other types they name those that they reject, or reject all of a response.
    pub(crate) fn rejection(self, kind: ResourceType) -> Option<(Arc<str>, bool)> {
        let is_single = matches!(kind, ResourceType::Route | ResourceType::Endpoints);
        match self {
            Self::Rejected(text) => Some((text, false)),
            Self::Suspected(text, among) if is_single => {
                let what = format!("one of {among} resources of a response, which the client does not name");
                Some((format!("{what}: {text}").into(), true))
            }
            Self::Suspected(text, _) => Some((text, false)),
            Self::Unaffected | Self::Unacknowledged => None,
        }
    }
}

/// The rejections that last, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rejections(Arc<[Rejection]>);

impl Rejections {
    /// The last rejection.
    pub(crate) fn newest(&self) -> Option<&Nack> {
        self.0.last().map(|rejection| &rejection.nack)
    }
    /// Names that the last rejection covers.
    pub(crate) fn newest_names(&self) -> &[Arc<str>] {
        match self.0.last().map(|rejection| &rejection.scope) {
            Some(Scope::Names { rejected, .. }) => rejected,
            Some(Scope::Nothing | Scope::Unknown) | None => &[],
        }
    }
    /// Returns what is known about a resource.
    pub(crate) fn of(&self, name: &str) -> Verdict {
        let verdict = |rejection: &Rejection| match &rejection.scope {
            Scope::Unknown => Some(Verdict::Rejected(Arc::clone(&rejection.nack.text))),
            Scope::Names { rejected, are_named, .. } if contains(rejected, name) => {
                let text = &rejection.nack.text;
                // what the client accepted of the response since is no longer among them
                let is_certain = *are_named || rejected.len() == 1;
                Some(match is_certain {
                    true => Verdict::Rejected(Arc::clone(text)),
                    false => Verdict::Suspected(Arc::clone(text), rejected.len()),
                })
            }
            Scope::Names { others, .. } if contains(others, name) => Some(Verdict::Unacknowledged),
            Scope::Names { .. } | Scope::Nothing => None,
        };
        self.0.iter().rev().find_map(verdict).unwrap_or(Verdict::Unaffected)
    }
    /// Records the acknowledgement of a response.
    pub(crate) fn accept(&mut self, carried: &Carried) {
        self.replace(carried);
        self.retain(Rejection::is_of_names);
    }
    /// Records that a response took the place of earlier ones.
    pub(crate) fn replace(&mut self, carried: &Carried) {
        match carried {
            Carried::Whole(_) => self.retain(|_| false),
            Carried::Resources(names) | Carried::Removals(names) => self.keep(|name| !contains(names, name)),
        }
    }
    /// Records a rejection. `all` lists the resources of a large response.
    pub(crate) fn refuse(&mut self, nack: Nack, carried: Option<Carried>, all: Option<Sorted>) {
        if let Some(carried) = &carried {
            self.replace(carried);
        }
        self.retain(Rejection::is_of_names);
        let scope = match carried {
            None => Scope::Unknown,
            Some(Carried::Removals(_)) => Scope::Nothing,
            Some(Carried::Whole(Some(names)) | Carried::Resources(names)) => scope(&nack.text, names),
            Some(Carried::Whole(None)) => scope(&nack.text, all.unwrap_or_default()),
        };
        let nack = Nack { text: shown(&nack.text), ..nack };
        self.0 = self.0.iter().cloned().chain([Rejection { nack, scope }]).collect();
    }
    /// Adds the rejections before an answer that it ended, of resources that a client reads once and then accepts unread.
    pub(crate) fn restore(&mut self, before: &Self) {
        let lost: Vec<Rejection> = before.0.iter().filter_map(|one| one.restored(self)).collect();
        if !lost.is_empty() {
            let is_lost = |name: &str| lost.iter().any(|one| one.rejects(name));
            let newer = self.0.iter().map(|one| one.without_others(is_lost));
            self.0 = lost.iter().cloned().chain(newer).collect();
        }
    }
    /// Returns the resources to send again after an answer; `before` are the rejections before it. A client that does not name
    /// the culprit of a response may lack the other resources in it too. So the first half of them is sent again, and what an answer
    /// leaves of them: each response has fewer, until the culprit is alone.
    pub(crate) fn suspects(&self, before: &Self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(|one| {
            let (now, earlier) =
                (one.suspected(), before.0.iter().find(|of| of.nack.nonce == one.nack.nonce));
            match earlier.map(|of| of.suspected().len()) {
                None => &now[..now.len() / 2],
                Some(before) if before > now.len() => now,
                Some(_) => &[],
            }
        })
    }
    fn rejects(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.rejects(name))
    }
    /// Keeps the rejections of some resources only.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        if !self.0.is_empty() {
            self.0 = self.0.iter().filter_map(|rejection| rejection.keep(&is_kept)).collect();
        }
    }
    fn retain(&mut self, is_kept: impl Fn(&Rejection) -> bool) {
        if !self.0.iter().all(&is_kept) {
            self.0 = self.0.iter().filter(|rejection| is_kept(rejection)).cloned().collect();
        }
    }
}

/// Returns what is shown of a text. Envoy puts a dump of the resource into it, of many lines.
fn shown(text: &str) -> Arc<str> {
    shorten(&one_line(text), MAX_SHOWN_ERROR).into()
}

fn scope(text: &str, names: Sorted) -> Scope {
    if names.is_empty() {
        return Scope::Nothing;
    }
    let (rejected, others): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|name| names_it(text, name));
    if rejected.is_empty() {
        return Scope::Names { rejected: names, others: Sorted::default(), are_named: false };
    }
    Scope::Names { rejected: rejected.into(), others: others.into(), are_named: true }
}

/// Whether a text names a resource: by its name, or a secret by one of its files.
fn names_it(text: &str, name: &str) -> bool {
    let files = name.parse::<SecretName>();
    let has_file = |secret: SecretName| secret.files().into_iter().any(|file| mentions(text, file));
    mentions(text, name) || files.is_ok_and(has_file)
}

/// Whether a text contains a name, not only as a part of a longer one. The number of a route table is no name in `host:80`.
fn mentions(text: &str, name: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '|');
    let is_number = name.bytes().all(|b| b.is_ascii_digit());
    let earlier = |c: char| inner(c) || c == '.' || (is_number && c == ':');
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let longer = |rest: &str| {
            let mut rest = rest.chars();
            match rest.next() {
                Some('.') => rest.next().is_some_and(inner),
                next => next.is_some_and(inner),
            }
        };
        !name.is_empty() && !before.ends_with(earlier) && !longer(after)
    })
}

#[cfg(test)]
mod tests {
    use tributary_model::Mono;

    use super::*;

    #[test]
    fn text_mentions_whole_names_only() {
        let name = "outbound|80||pay.shop";
        for text in
            ["bad outbound|80||pay.shop", "cluster(s) outbound|80||pay.shop: no", "outbound|80||pay.shop."]
        {
            assert!(mentions(text, name), "{text}");
        }
        for text in ["outbound|80||pay.shop.svc", "xoutbound|80||pay.shop", "outbound|80||pay.shop-2", "no"] {
            assert!(!mentions(text, name), "{text}");
        }
        for text in ["name: \"80\"", "route table 80: no", "'80'"] {
            assert!(mentions(text, "80"), "{text}");
        }
        for text in ["domains: \"pay.shop:80\"", "18080", "10.0.0.80"] {
            assert!(!mentions(text, "80"), "{text}");
        }
        assert!(!mentions("x", ""));
    }

    #[test]
    fn secret_is_named_by_its_files() {
        let (own, roots) = ("file-cert:/etc/a.pem~/etc/key.pem", "file-root:/etc/ca.pem");
        for text in ["Invalid path: /etc/a.pem", "unable to read file: /etc/key.pem", own] {
            assert!(names_it(text, own) && !names_it(text, roots), "{text}");
        }
        assert!(!names_it("Invalid path: /var/etc/a.pem.bak", own));
        assert!(names_it("Invalid path: /etc/ca.pem", roots));
    }

    #[test]
    fn long_text_is_shown_on_one_line_with_its_reason_and_names_are_found_in_all_of_it() {
        let names = |all: &[&str]| sorted(all.iter().map(|&name| Arc::from(name)));
        let dump = "\n  domains: \"x\"".repeat(200);
        let text = format!("Proto constraint:{dump}\nname: \"81\"{dump}\nroute: is required\n");
        let mut all = Rejections::default();
        let nack = Nack { sent: None, nonce: "1".into(), text: text.into(), at: Mono(1) };
        all.refuse(nack, Some(Carried::Resources(names(&["80", "81"]))), None);
        let Verdict::Rejected(shown) = all.of("81") else { panic!("not rejected") };
        assert!(shown.len() <= MAX_SHOWN_ERROR, "{}", shown.len());
        assert!(!shown.contains(char::is_control) && !shown.contains("81"), "{shown}");
        assert!(shown.starts_with("Proto constraint: domains:") && shown.ends_with("route: is required"));
        assert_eq!(all.of("80"), Verdict::Unacknowledged);
    }

    #[test]
    fn secrets_that_are_accepted_unread_stay_rejected() {
        let names = |all: &[&str]| Carried::Resources(sorted(all.iter().map(|&name| Arc::from(name))));
        let (bad, good, other) = ("file-root:/a", "file-root:/b", "file-root:/c");
        let nack = |text: &str| Nack { sent: None, nonce: "1".into(), text: text.into(), at: Mono(1) };
        let refused = |text: &str| {
            let mut out = Rejections::default();
            out.refuse(nack(text), Some(names(&[bad, good])), None);
            out
        };
        let rejected = |text: &str| Verdict::Rejected(text.into());
        let before = refused("no /a");
        let mut all = before.clone();
        all.accept(&names(&[bad, good, other]));
        assert_eq!(all.of(bad), Verdict::Unaffected, "as for other resources");
        all.restore(&before);
        assert_eq!((all.of(bad), all.of(good)), (rejected("no /a"), Verdict::Unaffected));
        let mut next = all.clone();
        next.refuse(nack("no /c"), Some(names(&[bad, other])), None);
        next.restore(&all);
        assert_eq!((next.of(bad), next.of(other)), (rejected("no /a"), rejected("no /c")));
        let before = refused("no such file");
        let mut all = before.clone();
        all.refuse(nack("no /a"), Some(names(&[bad, good])), None);
        all.restore(&before);
        assert_eq!((all.of(bad), all.of(good)), (rejected("no /a"), Verdict::Unacknowledged));
    }

    #[test]
    fn resources_that_a_text_does_not_name_are_suspected() {
        let names = |all: &[&str]| sorted(all.iter().map(|&name| Arc::from(name)));
        let nack = |text: &str| Nack { sent: None, nonce: "1".into(), text: text.into(), at: Mono(1) };
        let refused = |text: &str, all: &[&str]| {
            let mut out = Rejections::default();
            out.refuse(nack(text), Some(Carried::Resources(names(all))), None);
            out
        };
        assert_eq!(refused("missing )", &["80"]).of("80"), Verdict::Rejected("missing )".into()));
        assert_eq!(
            refused("80: missing )", &["80", "81"]).of("80"),
            Verdict::Rejected("80: missing )".into())
        );
        assert_eq!(refused("80: missing )", &["80", "81"]).of("81"), Verdict::Unacknowledged);
        let mut both = refused("missing )", &["80", "81"]);
        assert_eq!(both.of("81"), Verdict::Suspected("missing )".into(), 2));
        let of_tables = both.of("81").rejection(ResourceType::Route).unwrap();
        assert!(of_tables.0.starts_with("one of 2 resources") && of_tables.1);
        let of_listeners = both.of("81").rejection(ResourceType::Listener).unwrap();
        assert_eq!((&*of_listeners.0, of_listeners.1), ("missing )", false));
        both.accept(&Carried::Resources(names(&["81"])));
        assert_eq!(both.of("80"), Verdict::Rejected("missing )".into()), "only one is left");
    }
}
